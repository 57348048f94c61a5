"""Pod statuses: generated, normalized, cached and sent to the API server."""
