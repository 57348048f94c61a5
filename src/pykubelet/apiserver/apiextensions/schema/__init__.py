"""Custom resources: definitions and the objects they define, served while the server runs."""
