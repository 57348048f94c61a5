"""Service, one module per part."""
