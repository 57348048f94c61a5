"""Computes oom_score_adj: which processes the kernel kills first when memory runs out.

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
# The score of a guaranteed container that uses all memory; no burstable one may be killed later.
_LOWEST_BURSTABLE = 1000 + GUARANTEED_SCORE


def oom_score_adjustment(pod: Pod, container: AnyContainer, memory_bytes: int) -> int:
    """The oom_score_adj of a container: the more memory it requests, the lower; guaranteed lowest, best effort highest."""
    quality = pod.status.qos_class or qos_class(to_document(pod.spec))
    if is_node_critical_pod(pod) or quality == GUARANTEED:
        return GUARANTEED_SCORE
    if quality == BEST_EFFORT or memory_bytes <= 0:
        return BEST_EFFORT_SCORE
    requested = _memory(container.resources.requests)
    if _is_sidecar(pod, container):
        # A sidecar must not be killed before the containers it serves.
        requested = max(requested, min(_memory(one.resources.requests) for one in pod.spec.containers))
    score = 1000 - 1000 * (requested + _pod_level_share(pod)) // memory_bytes
    return min(max(score, _LOWEST_BURSTABLE), BEST_EFFORT_SCORE - 1)


def _pod_level_share(pod: Pod) -> int:
    """Each container's share of the pod-level request beyond the requests of its containers."""
    requested = _memory(pod.spec.resources.requests) if pod.spec.resources is not None else 0
    if not requested:
        return 0
    sums = container_sums(to_document(pod.spec), "requests")
    rest = requested - (sums[MEMORY].value() if MEMORY in sums else 0)
    return rest // (len(pod.spec.containers) + len(pod.spec.init_containers))


def _is_sidecar(pod: Pod, container: AnyContainer) -> bool:
    return container.restart_policy == "Always" and any(one.name == container.name for one in pod.spec.init_containers)


def _memory(requests: Mapping[str, str]) -> int:
    return parse_quantity(requests[MEMORY]).value() if MEMORY in requests else 0
