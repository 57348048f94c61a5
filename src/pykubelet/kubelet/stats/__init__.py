"""Resource usage of the node and its pods: /stats/summary and the metrics endpoints."""
