"""Job, one module per part."""
