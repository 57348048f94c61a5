"""What the API fills in when it reads a document: Kubernetes' defaults, on plain dicts."""
