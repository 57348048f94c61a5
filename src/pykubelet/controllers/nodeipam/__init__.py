"""Gives each node a range of addresses for its pods."""
