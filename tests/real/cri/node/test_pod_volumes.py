"""Volumes of every kind in containers of containerd, and changes that reach them while they run."""

from real.node.test_pod_volumes import *  # noqa: F403  the whole suite, with this folder's cluster
