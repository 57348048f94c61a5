"""Runs containers through the Container Runtime Interface (CRI), with containerd or CRI-O."""
