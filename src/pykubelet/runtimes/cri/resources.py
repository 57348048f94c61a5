"""What containers may use of the machine, in the kernel's terms: shares, quotas, bytes.

Pure. Upstream: pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, kuberuntime_sandbox_linux.go,
MilliCPUToShares and MilliCPUToQuota in pkg/kubelet/cm/helpers_linux.go

Makes the cgroups of pods, and takes them away; those of containers are the runtime's.

Only where the runtime makes cgroups as plain folders: with systemd they come and go by themselves.
Upstream: pkg/kubelet/cm/pod_container_manager_linux.go

What all of a pod may use together: the values for the files of its cgroup.

Pure. With limits for a pod as a whole, what counts for no container counts, too, such as files in memory.
Upstream: ResourceConfigForPod in pkg/kubelet/cm/helpers_linux.go
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cri_api.v1 import api_pb2 as cri

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod
from pykubelet.api.pod_resources import BEST_EFFORT, HUGE_PAGES_PREFIX, container_sums, is_huge_page, is_pod_level
from pykubelet.api.pods import CPU, MEMORY, AnyContainer, amount, pod_requests
from pykubelet.api.quantity import Quantity, parse_quantity
from pykubelet.api.serializer import to_document
from pykubelet.runtimes.cri.host import (
    CGROUPFS,
    CriHost,
    page_size_name,
    pod_cgroup,
    possible_pod_cgroups,
    qos_class_of,
)
from pykubelet.runtimes.qos import oom_score_adjustment

_SHARES_OF_A_CPU = 1024
_MIN_SHARES, _MAX_SHARES = 2, 262144
CPU_PERIOD_MICROSECONDS = 100_000
_MIN_QUOTA_MICROSECONDS = 1000

_NOTHING = Quantity()
Quantities = Mapping[str, Quantity]


def cpu_shares(milli_cpu: int) -> int:
    """The weight of so many thousandths of a CPU."""
    return min(max(milli_cpu * _SHARES_OF_A_CPU // 1000, _MIN_SHARES), _MAX_SHARES)


def cpu_quota(milli_cpu: int) -> int:
    """The microseconds of CPU in each period; 0 is no limit."""
    return max(milli_cpu * CPU_PERIOD_MICROSECONDS // 1000, _MIN_QUOTA_MICROSECONDS) if milli_cpu else 0


def container_resources(pod: Pod, container: AnyContainer, machine: CriHost) -> cri.LinuxContainerResources:
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


def sandbox_resources(pod: Pod, machine: CriHost) -> cri.LinuxContainerResources:
    """What all containers of a pod may use together, without what the sandbox itself needs."""
    spec = to_document(pod.spec)
    requests = {**container_sums(spec, "requests"), **_pod_level(pod, "requests")}
    return _resources(requests, {**container_sums(spec, "limits"), **_pod_level(pod, "limits")}, machine)


def sandbox_overhead(pod: Pod, machine: CriHost) -> cri.LinuxContainerResources:
    """What the sandbox itself needs; it gets that and no more."""
    if not pod.spec.overhead:
        return cri.LinuxContainerResources()
    overhead = {CPU: _NOTHING, **_quantities(pod.spec.overhead)}
    return _resources(overhead, overhead, machine)


def _resources(requests: Quantities, limits: Quantities, machine: CriHost) -> cri.LinuxContainerResources:
    limit = limits.get(CPU, _NOTHING)
    return cri.LinuxContainerResources(
        cpu_shares=cpu_shares(requests.get(CPU, limit).milli_value()),
        cpu_quota=cpu_quota(limit.milli_value()),
        cpu_period=CPU_PERIOD_MICROSECONDS,
        memory_limit_in_bytes=limits.get(MEMORY, _NOTHING).value(),
        # A container of which the kernel ended one process is rarely of use with the others.
        unified={"memory.oom.group": "1"} if machine.has_cgroup_v2 else {},
    )


def _huge_pages(limits: Quantities, machine: CriHost) -> list[cri.HugepageLimit]:
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


_V1_CPU, _V1_MEMORY, _V1_PIDS = "cpu", "memory", "pids"
# The weights of the two generations of cgroups: 2 to 262144, and 1 to 10000.
_V1_RANGE, _V2_RANGE = 262_142, 9_999


class CgroupValue(NamedTuple):
    """A value for a file of a cgroup; the controller says in which hierarchy, where there are several."""

    controller: str
    file: str
    value: str


def pod_cgroup_values(pod: Pod, *, has_cgroup_v2: bool, max_pids: int = 0) -> list[CgroupValue]:
    """What to write into the cgroup of a pod, which may have so many processes; less than 1: any number."""
    pids = [CgroupValue("" if has_cgroup_v2 else _V1_PIDS, "pids.max", str(max_pids))] if max_pids > 0 else []
    return [*_shares(pod, has_cgroup_v2=has_cgroup_v2), *pids]


def _shares(pod: Pod, *, has_cgroup_v2: bool) -> list[CgroupValue]:
    shares = cpu_shares(0 if qos_class_of(pod) == BEST_EFFORT else pod_requests(pod).get(CPU, 0))
    quota, memory = cpu_quota(_limit(pod, CPU)), _limit(pod, MEMORY)
    if has_cgroup_v2:
        found = [CgroupValue("", "cpu.weight", str(1 + (shares - 2) * _V2_RANGE // _V1_RANGE))]
        found += [CgroupValue("", "cpu.max", f"{quota} {CPU_PERIOD_MICROSECONDS}")] if quota else []
        return found + ([CgroupValue("", "memory.max", str(memory))] if memory else [])
    found = [CgroupValue(_V1_CPU, "cpu.shares", str(shares))]
    if quota:
        found.append(CgroupValue(_V1_CPU, "cpu.cfs_period_us", str(CPU_PERIOD_MICROSECONDS)))
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


log = get_logger(__name__)

_CGROUPS = Path("/sys/fs/cgroup")


class PodCgroups:
    """Cgroups of pods, below `mounted`. Everything here blocks for a moment."""

    def __init__(self, machine: CriHost, mounted: Path = _CGROUPS) -> None:
        self._machine, self._mounted = machine, mounted

    def make(self, pod: Pod) -> None:
        """Make a pod's cgroup with its limits. Where that cannot be, containers still have theirs, so it is only told."""
        if self._machine.cgroup_driver != CGROUPFS:
            return
        path = pod_cgroup(pod, driver=CGROUPFS, root=self._machine.cgroup_root)
        try:
            for controller, file, value in self._values(pod):
                cgroup = self._cgroup(controller, path)
                self._make_folders(cgroup)
                (cgroup / file).write_text(value)
        except OSError as error:
            log.warning("limits of a pod are not set", cgroup=path, cause=str(error))

    def _values(self, pod: Pod) -> list[CgroupValue]:
        machine = self._machine
        return pod_cgroup_values(pod, has_cgroup_v2=machine.has_cgroup_v2, max_pids=machine.max_pids)

    def remove(self, uid: str) -> None:
        """Take away what is empty of a pod's cgroup, in all hierarchies."""
        if self._machine.cgroup_driver != CGROUPFS:
            return
        hierarchies = [self._mounted] if self._machine.has_cgroup_v2 else [*self._mounted.iterdir()]
        for path in possible_pod_cgroups(uid, driver=CGROUPFS, root=self._machine.cgroup_root):
            for hierarchy in hierarchies:
                # Not there, or somebody is still in it.
                with suppress(OSError):
                    Path(f"{hierarchy}{path}").rmdir()

    def _cgroup(self, controller: str, path: str) -> Path:
        return Path(f"{self._mounted / controller}{path}")

    def _make_folders(self, cgroup: Path) -> None:
        """All folders down to it; in the newer hierarchy each must hand on its controllers."""
        cgroup.mkdir(parents=True, exist_ok=True)
        if self._machine.has_cgroup_v2:
            above = [one for one in cgroup.parents if one.is_relative_to(self._mounted)]
            for folder in reversed(above):
                for controller in ("cpu", "memory", "pids"):
                    (folder / "cgroup.subtree_control").write_text(f"+{controller}")
