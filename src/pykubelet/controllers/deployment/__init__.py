"""The Deployment controller: rolls out revisions of a workload as ReplicaSets."""
