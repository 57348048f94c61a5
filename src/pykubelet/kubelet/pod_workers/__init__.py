"""One worker per pod: the sole authority on what runs on this node."""
