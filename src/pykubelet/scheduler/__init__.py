"""Puts pods on nodes: a small scheduler, named `default-scheduler`."""
