"""Volumes of pods: what to mount, making it ready on disk, keeping it current, and tearing it down."""
