"""The node agent: runs the pods of files, a URL and the API server, and reports their status."""
