"""Caches of secrets, config maps and other objects that the pods of this node refer to."""
