"""Structural schemas of custom resources: defaulting, pruning and validation."""
