"""The last word before a write: what may be created, changed or deleted, beyond the rules of the kind."""
