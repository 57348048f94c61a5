"""Ends namespaces for an API server that leaves this to others."""
