"""The node lifecycle controller: node health, taints, and the readiness of pods on lost nodes."""
