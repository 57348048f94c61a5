"""Whom the kernel ends first when memory runs out: by quality of service, and what was asked for.

Pure. In: a container of a pod and the memory of the machine. Out: the number for /proc/PID/oom_score_adj.

Upstream: pkg/kubelet/qos/policy.go, pkg/kubelet/qos/helpers.go
"""

from collections.abc import Mapping

from pykubelet.api.generated.core import Pod
from pykubelet.api.pod_resources import BEST_EFFORT, GUARANTEED, container_sums, qos_class
from pykubelet.api.pods import MEMORY, AnyContainer, is_node_critical_pod
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.serializer import to_document

GUARANTEED_SCORE = -997
BEST_EFFORT_SCORE = 1000
# One that is guaranteed and uses all of the memory has a score of this; no other may come near it.
_LOWEST_BURSTABLE = 1000 + GUARANTEED_SCORE


def oom_score_adjustment(pod: Pod, container: AnyContainer, memory_bytes: int) -> int:
    """The more of the machine's memory a container asked for, the later it goes; guaranteed last, best effort first."""
    quality = pod.status.qos_class or qos_class(to_document(pod.spec))
    if is_node_critical_pod(pod) or quality == GUARANTEED:
        return GUARANTEED_SCORE
    if quality == BEST_EFFORT or memory_bytes <= 0:
        return BEST_EFFORT_SCORE
    asked = _memory(container.resources.requests)
    if _is_sidecar(pod, container):
        # It must not go before those it is there for.
        asked = max(asked, min(_memory(one.resources.requests) for one in pod.spec.containers))
    score = 1000 - 1000 * (asked + _share_of_the_rest(pod)) // memory_bytes
    return min(max(score, _LOWEST_BURSTABLE), BEST_EFFORT_SCORE - 1)


def _share_of_the_rest(pod: Pod) -> int:
    """Each container's share of what the pod as a whole asks for beyond what its containers do."""
    asked = _memory(pod.spec.resources.requests) if pod.spec.resources is not None else 0
    if not asked:
        return 0
    sums = container_sums(to_document(pod.spec), "requests")
    rest = asked - (sums[MEMORY].value() if MEMORY in sums else 0)
    return rest // (len(pod.spec.containers) + len(pod.spec.init_containers))


def _is_sidecar(pod: Pod, container: AnyContainer) -> bool:
    return container.restart_policy == "Always" and any(one.name == container.name for one in pod.spec.init_containers)


def _memory(requests: Mapping[str, str]) -> int:
    return parse_quantity(requests[MEMORY]).value() if MEMORY in requests else 0
