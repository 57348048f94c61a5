"""The API server: Kubernetes' API on SQLite. It keeps documents and imports no typed kind."""
