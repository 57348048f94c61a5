"""Objects of any kind but pods that follow the manifests on disk."""
