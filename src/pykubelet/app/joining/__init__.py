"""Composes clusters of several machines: what lets nodes join, and what a joined node does."""
