"""Pods with claims in containers of containerd: the data outlives the pod and the node's program."""

from real.node.test_claimed_volumes import *  # noqa: F403  the whole suite, with this folder's cluster
