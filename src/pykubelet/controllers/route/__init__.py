"""Routes to the pods of other nodes."""
