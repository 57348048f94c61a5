"""Which pods are left behind: finished ones beyond number, and those whose node will never end them.

Pure. Upstream: pkg/controller/podgc/gc_controller.go.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from pykubelet.api.generated.core import Node, Pod, PodCondition
from pykubelet.api.times import nanoseconds
from pykubelet.controllers.nodes.health import is_ready
from pykubelet.controllers.nodes.node_taints import OUT_OF_SERVICE

TERMINATED_THRESHOLD = 12_500
QUARANTINE_SECONDS = 40.0
NODE_GONE = PodCondition(
    type="DisruptionTarget", status="True", reason="DeletionByPodGC", message="PodGC: node no longer exists"
)


def surplus(terminated: Collection[Pod], threshold: int) -> Sequence[Pod]:
    """The finished pods that are too many, evicted and old ones first; none if the threshold is 0 or less."""
    count = len(terminated) - threshold
    return _in_order(terminated)[:count] if threshold > 0 and count > 0 else ()


def stuck(terminating: Iterable[Pod], nodes: Mapping[str, Node]) -> Sequence[Pod]:
    """Pods being deleted on nodes that an administrator has declared out of service."""
    return _in_order(pod for pod in terminating if _is_out_of_service(nodes.get(pod.spec.node_name)))


def unscheduled(terminating: Iterable[Pod]) -> Sequence[Pod]:
    """Pods being deleted that no node has, so that no kubelet ends them."""
    return [pod for pod in terminating if not pod.spec.node_name]


def quarantine(since: Mapping[str, float], missing: Iterable[str], *, at: float) -> dict[str, float]:
    """When each node that is missing was first missed."""
    return {name: since.get(name, at) for name in missing}


def missed_for_long(since: Mapping[str, float], *, at: float) -> Sequence[str]:
    """The nodes that have been missed for so long that they are probably gone."""
    return sorted(name for name, first in since.items() if at - first >= QUARANTINE_SECONDS)


def _is_out_of_service(node: Node | None) -> bool:
    return node is not None and not is_ready(node) and any(each.key == OUT_OF_SERVICE for each in node.spec.taints)


def _in_order(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (not _is_evicted(pod), _created(pod), pod.metadata.name))


def _is_evicted(pod: Pod) -> bool:
    return (pod.status.phase, pod.status.reason) == ("Failed", "Evicted")


def _created(pod: Pod) -> int:
    return nanoseconds(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else 0
