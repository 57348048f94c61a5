"""Decodes request bodies: JSON, YAML and protobuf, with Go's error messages."""
