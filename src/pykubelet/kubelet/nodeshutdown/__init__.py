"""Graceful shutdown of the node."""
