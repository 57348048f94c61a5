"""Deployments: the versions of a workload, and how one takes over from another."""
