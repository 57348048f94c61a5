"""Converts requests and limits to kernel values for containers, sandboxes and pod cgroups.

Pod cgroups are created here only with the cgroupfs driver; with systemd the runtime creates and removes them. Limits of a
pod cgroup also cover what belongs to no container, such as files in memory.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, pkg/kubelet/kuberuntime/kuberuntime_sandbox_linux.go,
pkg/kubelet/cm/helpers_linux.go, pkg/kubelet/cm/pod_container_manager_linux.go
"""

import posixpath
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cri_api.v1 import api_pb2 as cri

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod
from pykubelet.api.pod_resources import BEST_EFFORT, HUGE_PAGES_PREFIX, container_sums, is_huge_page, is_pod_level
from pykubelet.api.pods import CPU, MEMORY, AnyContainer, PodUid, amount, pod_requests, qos_class_of
from pykubelet.api.quantity import Quantity, parse_quantity
from pykubelet.api.serializer import to_document
from pykubelet.runtimes.cgroup_removal import destroy_cgroups
from pykubelet.runtimes.cri.host import CGROUPFS, CriHost, page_size_name, pod_cgroup, possible_pod_cgroups
from pykubelet.runtimes.qos import CPU_PERIOD_MICROSECONDS, cpu_quota, cpu_shares, cpu_weight, oom_score_adjustment

log = get_logger(__name__)

_CGROUPS = Path("/sys/fs/cgroup")
_V1_CPU, _V1_MEMORY, _V1_PIDS = "cpu", "memory", "pids"

_NOTHING = Quantity()
Quantities = Mapping[str, Quantity]


def container_resources(pod: Pod, container: AnyContainer, host: CriHost) -> cri.LinuxContainerResources:
    """The resources of one container; limits it does not set are those of the pod."""
    limits = {**_pod_level(pod, "limits"), **_set(_quantities(container.resources.limits))}
    found = _resources(_quantities(container.resources.requests), limits, host)
    found.oom_score_adj = oom_score_adjustment(pod, container, host.memory_bytes)
    found.hugepage_limits.extend(_huge_pages(limits, host))
    if host.has_swap_control and host.has_cgroup_v2:
        found.unified["memory.swap.max"] = "0"
    elif host.has_swap_control:
        # The limit of memory and swap together: the same number disables swap.
        found.memory_swap_limit_in_bytes = found.memory_limit_in_bytes
    return found


def sandbox_resources(pod: Pod, host: CriHost) -> cri.LinuxContainerResources:
    """The resources of all containers of a pod together, without the pod overhead."""
    spec = to_document(pod.spec)
    requests = {**container_sums(spec, "requests"), **_pod_level(pod, "requests")}
    return _resources(requests, {**container_sums(spec, "limits"), **_pod_level(pod, "limits")}, host)


def sandbox_overhead(pod: Pod, host: CriHost) -> cri.LinuxContainerResources:
    """The pod overhead, as both request and limit."""
    if not pod.spec.overhead:
        return cri.LinuxContainerResources()
    overhead = {CPU: _NOTHING, **_quantities(pod.spec.overhead)}
    return _resources(overhead, overhead, host)


def _resources(requests: Quantities, limits: Quantities, host: CriHost) -> cri.LinuxContainerResources:
    limit = limits.get(CPU, _NOTHING)
    return cri.LinuxContainerResources(
        cpu_shares=cpu_shares(requests.get(CPU, limit).milli_value()),
        cpu_quota=cpu_quota(limit.milli_value()),
        cpu_period=CPU_PERIOD_MICROSECONDS,
        memory_limit_in_bytes=limits.get(MEMORY, _NOTHING).value(),
        # The OOM killer kills the whole container: it rarely works with one process missing.
        unified={"memory.oom.group": "1"} if host.has_cgroup_v2 else {},
    )


def _huge_pages(limits: Quantities, host: CriHost) -> list[cri.HugepageLimit]:
    """The limit for each huge page size of the host; 0 for sizes without a limit in the spec."""
    limited = {
        page_size_name(parse_quantity(name.removeprefix(HUGE_PAGES_PREFIX)).value()): quantity.value()
        for name, quantity in limits.items()
        if is_huge_page(name)
    }
    return [cri.HugepageLimit(page_size=size, limit=limited.get(size, 0)) for size in host.huge_page_sizes]


def _pod_level(pod: Pod, side: str) -> Quantities:
    given = getattr(pod.spec.resources, side, {})
    return {name: quantity for name, quantity in _quantities(given).items() if is_pod_level(name)}


def _quantities(given: Mapping[str, str]) -> Quantities:
    return {name: parse_quantity(text) for name, text in given.items()}


def _set(quantities: Quantities) -> Quantities:
    """Drops zero quantities, which count as not set."""
    return {name: quantity for name, quantity in quantities.items() if quantity.sign() or is_huge_page(name)}


class CgroupValue(NamedTuple):
    """A value for a file of a cgroup; in cgroup v1 the controller selects the hierarchy."""

    controller: str
    file: str
    value: str


def pod_cgroup_values(pod: Pod, *, has_cgroup_v2: bool, max_pids: int = 0) -> list[CgroupValue]:
    """The values of a pod's cgroup files; `max_pids` less than 1 means no limit."""
    pids = [CgroupValue("" if has_cgroup_v2 else _V1_PIDS, "pids.max", str(max_pids))] if max_pids > 0 else []
    return [*_shares(pod, has_cgroup_v2=has_cgroup_v2), *pids]


def _shares(pod: Pod, *, has_cgroup_v2: bool) -> list[CgroupValue]:
    shares = cpu_shares(0 if qos_class_of(pod) == BEST_EFFORT else pod_requests(pod).get(CPU, 0))
    quota, memory = cpu_quota(_limit(pod, CPU)), _limit(pod, MEMORY)
    if has_cgroup_v2:
        found = [CgroupValue("", "cpu.weight", str(cpu_weight(shares)))]
        found += [CgroupValue("", "cpu.max", f"{quota} {CPU_PERIOD_MICROSECONDS}")] if quota else []
        return found + ([CgroupValue("", "memory.max", str(memory))] if memory else [])
    found = [CgroupValue(_V1_CPU, "cpu.shares", str(shares))]
    if quota:
        found.append(CgroupValue(_V1_CPU, "cpu.cfs_period_us", str(CPU_PERIOD_MICROSECONDS)))
        found.append(CgroupValue(_V1_CPU, "cpu.cfs_quota_us", str(quota)))
    return found + ([CgroupValue(_V1_MEMORY, "memory.limit_in_bytes", str(memory))] if memory else [])


def _limit(pod: Pod, resource: str) -> int:
    """The limit of a pod; 0 if neither the pod nor all of its containers have one."""
    whole = _amount(resource, pod.spec.resources.limits.get(resource, "0")) if pod.spec.resources is not None else 0
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    if not whole and not all(_amount(resource, one.resources.limits.get(resource, "0")) for one in containers):
        return 0
    limit = whole or amount(resource, container_sums(to_document(pod.spec), "limits")[resource])
    return limit + _amount(resource, pod.spec.overhead.get(resource, "0"))


def _amount(resource: str, text: str) -> int:
    return amount(resource, parse_quantity(text))


class PodCgroups:
    """Creates, finds and removes the cgroups of pods below `mounted`. All methods block briefly."""

    def __init__(self, host: CriHost, mounted: Path = _CGROUPS, own: Path = Path("/proc/self/cgroup")) -> None:
        self._host, self._mounted, self._own = host, mounted, own

    def make(self, pod: Pod) -> None:
        """Create a pod's cgroup with its limits. A failure is only logged, because containers have their own limits."""
        if self._host.cgroup_driver != CGROUPFS:
            return
        path = pod_cgroup(pod, driver=CGROUPFS, root=self._host.cgroup_root)
        try:
            values = pod_cgroup_values(pod, has_cgroup_v2=self._host.has_cgroup_v2, max_pids=self._host.max_pids)
            for controller, file, value in values:
                cgroup = Path(f"{self._mounted / controller}{path}")
                self._make_folders(cgroup)
                (cgroup / file).write_text(value)
        except OSError as error:
            log.warning("pod cgroup limits not set", cgroup=path, cause=str(error))

    def remove(self, uid: str) -> None:
        """Remove a pod's empty cgroups in all hierarchies; the sweep removes what is still in use now."""
        for cgroup in self._places(uid):
            # It does not exist or is not empty.
            with suppress(OSError):
                cgroup.rmdir()

    def pods(self) -> set[PodUid]:
        """The pods that have a cgroup.

        None if this process runs in one of them: the tree then belongs to the kubelet that runs this one.
        """
        root = posixpath.dirname(possible_pod_cgroups("", driver=CGROUPFS, root=self._host.cgroup_root)[0])
        own = (line.split(":", 2)[2] for line in self._own.read_text().splitlines())
        if any(path.startswith(f"{root}/") for path in own):
            return set()
        parents = {cgroup.parent for cgroup in self._places("")}
        names = (found.name for parent in parents if parent.is_dir() for found in parent.iterdir())
        return {PodUid(name.removeprefix("pod")) for name in names if name.startswith("pod")}

    def destroy(self, uid: PodUid) -> int:
        """Kill everything in a pod's cgroups and remove them; the number of processes killed. OSError if one stays."""
        return destroy_cgroups(self._places(uid))

    def _places(self, uid: str) -> list[Path]:
        """The possible places of a pod's cgroup; none with systemd."""
        if self._host.cgroup_driver != CGROUPFS:
            return []
        hierarchies = [self._mounted] if self._host.has_cgroup_v2 else [*self._mounted.iterdir()]
        paths = possible_pod_cgroups(uid, driver=CGROUPFS, root=self._host.cgroup_root)
        return [Path(f"{hierarchy}{path}") for hierarchy in hierarchies for path in paths]

    def _make_folders(self, cgroup: Path) -> None:
        """Create all directories of a cgroup; in cgroup v2 each parent must enable the controllers."""
        cgroup.mkdir(parents=True, exist_ok=True)
        if self._host.has_cgroup_v2:
            for folder in reversed([one for one in cgroup.parents if one.is_relative_to(self._mounted)]):
                for controller in ("cpu", "memory", "pids"):
                    (folder / "cgroup.subtree_control").write_text(f"+{controller}")
