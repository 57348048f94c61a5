"""The durable store: memory, history, one SQLite file."""
