"""The OpenAPI documents that kubectl uses for explain, apply and validation."""
