"""Controllers of nodes and of what depends on them: health, taints, evictions, pods left behind."""
