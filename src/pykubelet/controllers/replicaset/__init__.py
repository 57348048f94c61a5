"""The ReplicaSet controller: keeps the desired number of pods."""
