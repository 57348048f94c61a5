"""Scales workloads by the usage of their pods: the controller of HorizontalPodAutoscalers."""
