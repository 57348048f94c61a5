"""pykubelet: a kubelet in Python.

manifests -> config -> pod -> pod_workers -> runtimes -> status -> API server

`docs/path-of-a-pod.md` walks this path, one file a step.
"""

__version__ = "0.1.0"
