"""Runs containers with whatever serves the Container Runtime Interface: containerd, CRI-O."""
