"""kubectl exec, attach, port-forward and cp with containers of containerd, by WebSocket and by SPDY."""

from real.node.test_pod_commands import *  # noqa: F403  the whole suite, with this folder's cluster
