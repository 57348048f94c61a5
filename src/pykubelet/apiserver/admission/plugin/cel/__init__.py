"""CEL expressions of webhooks and policies."""
