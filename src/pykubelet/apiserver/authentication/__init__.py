"""Authentication: client certificates, static, bootstrap and service account tokens."""
