"""Kubernetes' API for one machine, on SQLite. Documents all the way: no typed kind is imported here."""
