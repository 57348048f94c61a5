"""Namespaces that really end."""
