"""Probes of containers: whether they live, are ready, have started."""
