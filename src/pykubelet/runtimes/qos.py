"""Converts requests, limits and QoS class to kernel values: oom_score_adj, CPU shares and quota.

Upstream: pkg/kubelet/qos/policy.go, pkg/kubelet/qos/helpers.go, pkg/kubelet/cm/helpers_linux.go
"""

from collections.abc import Mapping

from pykubelet.api.generated.core import Pod
from pykubelet.api.pod_resources import BEST_EFFORT, GUARANTEED, container_sums
from pykubelet.api.pods import MEMORY, AnyContainer, is_node_critical_pod, qos_class_of
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.serializer import to_document

GUARANTEED_SCORE = -997
BEST_EFFORT_SCORE = 1000
# The score of a guaranteed container that uses all memory; no burstable one may be killed later.
_LOWEST_BURSTABLE = 1000 + GUARANTEED_SCORE

CPU_PERIOD_MICROSECONDS = 100_000
_MIN_QUOTA_MICROSECONDS = 1000
_MIN_SHARES, _MAX_SHARES = 2, 262_144


def cpu_shares(milli_cpu: int) -> int:
    """The CPU shares of a request in thousandths of a CPU."""
    return min(max(milli_cpu * 1024 // 1000, _MIN_SHARES), _MAX_SHARES)


def cpu_weight(shares: int) -> int:
    """Converts CPU shares of cgroup v1 (2 to 262144) to a weight of v2 (1 to 10000)."""
    return 1 + (shares - _MIN_SHARES) * 9999 // (_MAX_SHARES - _MIN_SHARES)


def cpu_quota(milli_cpu: int) -> int:
    """The CPU quota of a limit, in microseconds per period; 0 means no limit."""
    return max(milli_cpu * CPU_PERIOD_MICROSECONDS // 1000, _MIN_QUOTA_MICROSECONDS) if milli_cpu else 0


def oom_score_adjustment(pod: Pod, container: AnyContainer, memory_bytes: int) -> int:
    """The oom_score_adj of a container: the more memory it requests, the lower; guaranteed lowest, best effort highest."""
    qos_class = qos_class_of(pod)
    if is_node_critical_pod(pod) or qos_class == GUARANTEED:
        return GUARANTEED_SCORE
    if qos_class == BEST_EFFORT or memory_bytes <= 0:
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
