"""What controllers share: PodControl, expectations, ownership, work queue and revision history."""
