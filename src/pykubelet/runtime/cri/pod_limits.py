"""What all of a pod may use together: the values for the files of its cgroup.

Pure. With limits for a pod as a whole, what counts for no container counts, too, such as files in memory.
Upstream: ResourceConfigForPod in pkg/kubelet/cm/helpers_linux.go
"""

from typing import NamedTuple

from pykubelet.api.defaults.pod_resources import container_sums
from pykubelet.api.generated.core import Pod
from pykubelet.api.pod_requests import CPU, MEMORY, amount, pod_requests
from pykubelet.api.quality_of_service import BEST_EFFORT
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.wire import to_document
from pykubelet.runtime.cri.cgroup_names import quality_of
from pykubelet.runtime.cri.resources import PERIOD_MICROSECONDS, cpu_quota, cpu_shares

_V1_CPU, _V1_MEMORY, _V1_PIDS = "cpu", "memory", "pids"
# The weights of the two generations of cgroups: 2 to 262144, and 1 to 10000.
_V1_RANGE, _V2_RANGE = 262_142, 9_999


class CgroupValue(NamedTuple):
    """A value for a file of a cgroup; the controller says in which hierarchy, where there are several."""

    controller: str
    file: str
    value: str


def pod_values(pod: Pod, *, has_cgroup_v2: bool, max_pids: int = 0) -> list[CgroupValue]:
    """What to write into the cgroup of a pod, which may have so many processes; less than 1: any number."""
    pids = [CgroupValue("" if has_cgroup_v2 else _V1_PIDS, "pids.max", str(max_pids))] if max_pids > 0 else []
    return [*_shares(pod, has_cgroup_v2=has_cgroup_v2), *pids]


def _shares(pod: Pod, *, has_cgroup_v2: bool) -> list[CgroupValue]:
    shares = cpu_shares(0 if quality_of(pod) == BEST_EFFORT else pod_requests(pod).get(CPU, 0))
    quota, memory = cpu_quota(_limit(pod, CPU)), _limit(pod, MEMORY)
    if has_cgroup_v2:
        found = [CgroupValue("", "cpu.weight", str(1 + (shares - 2) * _V2_RANGE // _V1_RANGE))]
        found += [CgroupValue("", "cpu.max", f"{quota} {PERIOD_MICROSECONDS}")] if quota else []
        return found + ([CgroupValue("", "memory.max", str(memory))] if memory else [])
    found = [CgroupValue(_V1_CPU, "cpu.shares", str(shares))]
    if quota:
        found.append(CgroupValue(_V1_CPU, "cpu.cfs_period_us", str(PERIOD_MICROSECONDS)))
        found.append(CgroupValue(_V1_CPU, "cpu.cfs_quota_us", str(quota)))
    return found + ([CgroupValue(_V1_MEMORY, "memory.limit_in_bytes", str(memory))] if memory else [])


def _limit(pod: Pod, resource: str) -> int:
    """The limit of a pod; 0, for none, if one of its containers has none and the pod as a whole neither."""
    whole = _amount(resource, pod.spec.resources.limits.get(resource, "0")) if pod.spec.resources is not None else 0
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    if not whole and not all(_amount(resource, one.resources.limits.get(resource, "0")) for one in containers):
        return 0
    limit = whole or amount(resource, container_sums(to_document(pod.spec), "limits")[resource])
    return limit + _amount(resource, pod.spec.overhead.get(resource, "0"))


def _amount(resource: str, text: str) -> int:
    return amount(resource, parse_quantity(text))
