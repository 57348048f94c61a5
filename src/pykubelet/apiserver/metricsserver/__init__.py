"""The API group metrics.k8s.io: the CPU and memory that nodes and pods use."""
