"""ReplicationControllers: the predecessors of ReplicaSets, with the same controller."""
