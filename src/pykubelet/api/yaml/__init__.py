"""Kubernetes objects as frozen values, and pure functions on them."""
