"""Kubernetes' rules in CEL, the Common Expression Language: read, checked, evaluated."""
