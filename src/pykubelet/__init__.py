"""pykubelet: a kubelet in Python.

manifests    1 sources  ->  2 pods  ->  3 workers  ->  4 runtime  ->  5 status  ->  API server

`docs/path-of-a-pod.md` walks this path, one file a step.
"""

__version__ = "0.1.0"
