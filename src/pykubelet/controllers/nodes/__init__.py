"""Controllers of nodes and of what depends on them: health, taints, evictions, pods left behind."""

from pykubelet.controllers.nodes.lifecycle import NodeLifecycle
from pykubelet.controllers.nodes.pod_gc import PodGarbageCollector
from pykubelet.controllers.nodes.pods_by_node import PodsByNode
from pykubelet.controllers.nodes.taint_eviction import TaintEviction

__all__ = ["NodeLifecycle", "PodGarbageCollector", "PodsByNode", "TaintEviction"]
