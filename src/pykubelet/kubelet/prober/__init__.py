"""Liveness, readiness and startup probes of containers."""
