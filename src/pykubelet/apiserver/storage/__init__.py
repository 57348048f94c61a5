"""The durable store: newest state and history in memory, one SQLite file on disk."""
