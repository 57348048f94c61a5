"""Admission of pods to the node, and lifecycle hooks of containers."""
