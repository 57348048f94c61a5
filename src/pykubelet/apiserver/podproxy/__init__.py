"""Requests that somebody else answers: nodes and pods."""
