"""The node's registration, status, conditions and lease."""
