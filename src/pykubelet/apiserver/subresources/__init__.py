"""Subresources: parts of an object with a door of their own, and what is done to one through it."""
