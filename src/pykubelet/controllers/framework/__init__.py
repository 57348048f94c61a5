"""Shared parts of controllers: PodControl, expectations, ownership, work queue and revision history."""
