"""Reads and writes YAML and JSON like kubectl, with the position of every field."""
