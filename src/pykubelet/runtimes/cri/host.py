"""Reads what the host offers to CRI containers: sockets, cgroups, huge pages, AppArmor.

Does not import gRPC, which is expensive: finding a runtime's socket must be cheap.

Upstream: pkg/kubelet/types/constants.go, pkg/kubelet/cm/pod_container_manager_linux.go, pkg/kubelet/cm/cgroup_manager_linux.go
"""

import os
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path

from pykubelet.api.generated.core import Pod
from pykubelet.api.pod_resources import BEST_EFFORT, BURSTABLE, GUARANTEED
from pykubelet.api.pods import qos_class_of
from pykubelet.runtimes.dns import ClusterDns

SOCKETS = ("/run/containerd/containerd.sock", "/run/crio/crio.sock", "/var/run/cri-dockerd.sock")
"""The default sockets of runtimes."""
_CGROUPS = Path("/sys/fs/cgroup")
_HUGE_PAGES = Path("/sys/kernel/mm/hugepages")
_PROCESSORS = Path("/sys/devices/system/cpu")
_APP_ARMOR = Path("/sys/module/apparmor/parameters/enabled")

SYSTEMD = "systemd"
CGROUPFS = "cgroupfs"
"""The cgroup drivers; runtime and kubelet must use the same."""


def pod_cgroup(pod: Pod, *, driver: str, root: str = "/") -> str:
    """The path of a pod's cgroup below the hierarchies, in the form of the cgroup driver."""
    return _cgroup_path(pod.metadata.uid, qos_class_of(pod), driver, root)


def possible_pod_cgroups(uid: str, *, driver: str, root: str = "/") -> list[str]:
    """The possible paths of the cgroup of a pod whose QoS class is unknown."""
    return [_cgroup_path(uid, quality, driver, root) for quality in (GUARANTEED, BURSTABLE, BEST_EFFORT)]


def _cgroup_path(uid: str, quality: str, driver: str, root: str) -> str:
    above = () if quality == GUARANTEED else (quality.lower(),)
    names = [part for part in (*root.split("/"), "kubepods", *above, f"pod{uid}") if part]
    return _slices(names) if driver == SYSTEMD else "/" + "/".join(names)


def _slices(names: list[str]) -> str:
    """The path of a systemd slice: each slice has the names of all its parents, so names must not contain dashes."""
    escaped = [name.replace("-", "_") for name in names]
    return "".join(f"/{'-'.join(escaped[: depth + 1])}.slice" for depth in range(len(escaped)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CriHost:
    """Facts of the host and settings of the node that CRI configurations depend on."""

    memory_bytes: int = 0
    has_cgroup_v2: bool = False
    has_swap_control: bool = False
    has_selinux: bool = False
    huge_page_sizes: tuple[str, ...] = ()
    """In the notation of cgroups: 2MB, 1GB."""
    throttle_paths: tuple[str, ...] = ()
    """Thermal throttle files of the processors, a side channel that containers must not read."""
    cgroup_driver: str = CGROUPFS
    cgroup_root: str = "/"
    seccomp_root: str = "/var/lib/kubelet/seccomp"
    seccomp_default: bool = False
    """Whether containers without a seccomp profile get the runtime's default; else they are unconfined."""
    max_pids: int = 0
    """The maximum number of processes of a pod; less than 1 means no limit."""
    cluster_dns: ClusterDns = field(default_factory=ClusterDns)


def page_size_name(size_bytes: int) -> str:
    """The name of a huge page size in cgroups: in the largest unit that gives a whole number."""
    units = ("B", "KB", "MB", "GB", "TB", "PB")
    place = 0
    while size_bytes >= 1024 and place < len(units) - 1:
        size_bytes, place = size_bytes // 1024, place + 1
    return f"{size_bytes}{units[place]}"


def with_host_facts(settings: CriHost) -> CriHost:
    """Reads the facts of the host and adds them to the settings of the node. Blocks briefly."""
    return replace(
        settings,
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        has_cgroup_v2=(_CGROUPS / "cgroup.controllers").exists(),
        has_swap_control=_has_swap_control(),
        has_selinux=Path("/sys/fs/selinux/enforce").exists(),
        huge_page_sizes=tuple(sorted(_page_size(path.name) for path in _HUGE_PAGES.glob("hugepages-*kB"))),
        throttle_paths=tuple(sorted(str(path) for path in _PROCESSORS.glob("cpu[0-9]*/thermal_throttle"))),
    )


def app_armor_error() -> str:
    """Why AppArmor profiles cannot be enforced; empty if they can. Blocks briefly."""
    try:
        is_enabled = _APP_ARMOR.read_text().startswith("Y")
    except OSError:
        is_enabled = False
    return "" if is_enabled else "AppArmor is not enabled on the host"


def _has_swap_control() -> bool:
    if not (_CGROUPS / "cgroup.controllers").exists():
        return (_CGROUPS / "memory/memory.memsw.limit_in_bytes").exists()
    # The root of the hierarchy has no such file, so check our own cgroup.
    own = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip()
    return Path(f"{_CGROUPS}{own}/memory.swap.max").exists()


def _page_size(name: str) -> str:
    kilobytes = int(name.removeprefix("hugepages-").removesuffix("kB"))
    return page_size_name(kilobytes * 1024)


def find_socket(given: str) -> str:
    """The given socket path without `unix://`, else the first default socket that exists; empty if none does."""
    if given:
        return given.removeprefix("unix://")
    return next((path for path in SOCKETS if _is_socket(path)), "")


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    except OSError:
        return False
