"""The disruption controller: maintains the status of PodDisruptionBudgets."""
