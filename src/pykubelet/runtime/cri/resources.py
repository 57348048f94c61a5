"""What containers may use of the machine, in the kernel's terms: shares, quotas, bytes.

Pure. Upstream: pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, kuberuntime_sandbox_linux.go,
MilliCPUToShares and MilliCPUToQuota in pkg/kubelet/cm/helpers_linux.go
"""

from collections.abc import Mapping

from cri_api.v1 import api_pb2 as cri

from pykubelet.api.defaults.pod_resources import HUGE_PAGES_PREFIX, container_sums, is_huge_page, is_pod_level
from pykubelet.api.generated.core import Container, EphemeralContainer, Pod
from pykubelet.api.pod_requests import CPU, MEMORY
from pykubelet.api.quantity import Quantity, parse_quantity
from pykubelet.api.wire import to_document
from pykubelet.runtime.cri.facts import Machine, page_size_name
from pykubelet.runtime.oom_score import oom_score_adjustment

_SHARES_OF_A_CPU = 1024
_MIN_SHARES, _MAX_SHARES = 2, 262144
PERIOD_MICROSECONDS = 100_000
_MIN_QUOTA_MICROSECONDS = 1000

_NOTHING = Quantity()
Quantities = Mapping[str, Quantity]


def cpu_shares(milli_cpu: int) -> int:
    """The weight of so many thousandths of a CPU."""
    return min(max(milli_cpu * _SHARES_OF_A_CPU // 1000, _MIN_SHARES), _MAX_SHARES)


def cpu_quota(milli_cpu: int) -> int:
    """The microseconds of CPU in each period; 0 is no limit."""
    return max(milli_cpu * PERIOD_MICROSECONDS // 1000, _MIN_QUOTA_MICROSECONDS) if milli_cpu else 0


def container_resources(
    pod: Pod, container: Container | EphemeralContainer, machine: Machine
) -> cri.LinuxContainerResources:
    """The limits of one container; where it has none of its own, those of the whole pod."""
    limits = {**_pod_level(pod, "limits"), **_set(_quantities(container.resources.limits))}
    found = _resources(_quantities(container.resources.requests), limits, machine)
    found.oom_score_adj = oom_score_adjustment(pod, container, machine.memory_bytes)
    found.hugepage_limits.extend(_huge_pages(limits, machine))
    if machine.has_swap_control and machine.has_cgroup_v2:
        found.unified["memory.swap.max"] = "0"
    elif machine.has_swap_control:
        # Of memory and swap together, so with the same number there is no swap.
        found.memory_swap_limit_in_bytes = found.memory_limit_in_bytes
    return found


def sandbox_resources(pod: Pod, machine: Machine) -> cri.LinuxContainerResources:
    """What all containers of a pod may use together, without what the sandbox itself needs."""
    spec = to_document(pod.spec)
    requests = {**container_sums(spec, "requests"), **_pod_level(pod, "requests")}
    return _resources(requests, {**container_sums(spec, "limits"), **_pod_level(pod, "limits")}, machine)


def sandbox_overhead(pod: Pod, machine: Machine) -> cri.LinuxContainerResources:
    """What the sandbox itself needs; it gets that and no more."""
    if not pod.spec.overhead:
        return cri.LinuxContainerResources()
    overhead = {CPU: _NOTHING, **_quantities(pod.spec.overhead)}
    return _resources(overhead, overhead, machine)


def _resources(requests: Quantities, limits: Quantities, machine: Machine) -> cri.LinuxContainerResources:
    limit = limits.get(CPU, _NOTHING)
    return cri.LinuxContainerResources(
        cpu_shares=cpu_shares(requests.get(CPU, limit).milli_value()),
        cpu_quota=cpu_quota(limit.milli_value()),
        cpu_period=PERIOD_MICROSECONDS,
        memory_limit_in_bytes=limits.get(MEMORY, _NOTHING).value(),
        # A container of which the kernel ended one process is rarely of use with the others.
        unified={"memory.oom.group": "1"} if machine.has_cgroup_v2 else {},
    )


def _huge_pages(limits: Quantities, machine: Machine) -> list[cri.HugepageLimit]:
    """For each size that the machine has: what is not asked for may not be used."""
    asked = {
        page_size_name(parse_quantity(name.removeprefix(HUGE_PAGES_PREFIX)).value()): quantity.value()
        for name, quantity in limits.items()
        if is_huge_page(name)
    }
    return [cri.HugepageLimit(page_size=size, limit=asked.get(size, 0)) for size in machine.huge_page_sizes]


def _pod_level(pod: Pod, side: str) -> Quantities:
    """What the pod as a whole asks for or may use."""
    given = getattr(pod.spec.resources, side, {})
    return {name: quantity for name, quantity in _quantities(given).items() if is_pod_level(name)}


def _quantities(given: Mapping[str, str]) -> Quantities:
    return {name: parse_quantity(text) for name, text in given.items()}


def _set(quantities: Quantities) -> Quantities:
    """Without those that are zero, which count as none at all."""
    return {name: quantity for name, quantity in quantities.items() if quantity.sign() or is_huge_page(name)}
