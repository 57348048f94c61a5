"""Descriptions of objects in the layout of `kubectl describe`."""
