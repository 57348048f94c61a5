"""Looks at the machine: what decides how containers are described to the runtime.

Where container runtimes listen. It is looked up without importing gRPC, which is heavy.

What of the machine and the node's settings decides how containers are described to CRI.

The cgroup that a pod's containers are in, by its quality of service.

Pure. Upstream: GetPodContainerName in pkg/kubelet/cm/pod_container_manager_linux.go, cgroup_manager_linux.go
"""

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from pykubelet.api.generated.core import Pod
from pykubelet.api.pod_resources import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from pykubelet.api.serializer import to_document
from pykubelet.runtimes.cri.dns import ClusterDns, Resolver, parse_resolver

SYSTEMD = "systemd"
CGROUPFS = "cgroupfs"
"""Who makes cgroups: the runtime and the node must agree on it."""


def pod_cgroup(pod: Pod, *, driver: str, root: str = "/") -> str:
    """The path below the cgroup hierarchies, as the runtime's driver spells it."""
    return _place(pod.metadata.uid, qos_class_of(pod), driver, root)


def possible_pod_cgroups(uid: str, *, driver: str, root: str = "/") -> list[str]:
    """Where the cgroup of a pod may be of which nothing else is known."""
    return [_place(uid, quality, driver, root) for quality in (GUARANTEED, BURSTABLE, BEST_EFFORT)]


def qos_class_of(pod: Pod) -> str:
    """The pod's class; a static pod has none in its status."""
    return pod.status.qos_class or qos_class(to_document(pod.spec))


def _place(uid: str, quality: str, driver: str, root: str) -> str:
    above = () if quality == GUARANTEED else (quality.lower(),)
    names = [part for part in (*root.split("/"), "kubepods", *above, f"pod{uid}") if part]
    return _slices(names) if driver == SYSTEMD else "/" + "/".join(names)


def _slices(names: list[str]) -> str:
    """Each slice bears the names of all above it; within a name a dash would stand for another level."""
    escaped = [name.replace("-", "_") for name in names]
    return "".join(f"/{'-'.join(escaped[: depth + 1])}.slice" for depth in range(len(escaped)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CriHost:
    """The machine, and what the node was told about itself."""

    memory_bytes: int = 0
    has_cgroup_v2: bool = False
    has_swap_control: bool = False
    has_selinux: bool = False
    huge_page_sizes: tuple[str, ...] = ()
    """As the kernel's cgroups call them: 2MB, 1GB."""
    throttle_paths: tuple[str, ...] = ()
    """Files of the processors that tell when it is hot, which tells what others compute."""
    cgroup_driver: str = CGROUPFS
    cgroup_root: str = "/"
    seccomp_root: str = "/var/lib/kubelet/seccomp"
    seccomp_default: bool = False
    """Whether containers that say nothing have the runtime's seccomp profile; else they have none."""
    max_pids: int = 0
    """So many processes all of a pod may have; less than 1: as many as the machine takes."""
    cluster_dns: ClusterDns = field(default_factory=ClusterDns)


def page_size_name(size_bytes: int) -> str:
    """How the kernel's cgroups call huge pages of this size: in the largest unit it is a whole number of."""
    units = ("B", "KB", "MB", "GB", "TB", "PB")
    place = 0
    while size_bytes >= 1024 and place < len(units) - 1:
        size_bytes, place = size_bytes // 1024, place + 1
    return f"{size_bytes}{units[place]}"


_CGROUPS = Path("/sys/fs/cgroup")
_HUGE_PAGES = Path("/sys/kernel/mm/hugepages")
_PROCESSORS = Path("/sys/devices/system/cpu")
_APP_ARMOR = Path("/sys/module/apparmor/parameters/enabled")
_STUB = "127.0.0.53"
"""Where systemd's resolver listens; from the network of a pod nobody gets there."""
_RESOLVER = Path("/etc/resolv.conf")
_SYSTEMD_RESOLVER = Path("/run/systemd/resolve/resolv.conf")


def read_cri_host(
    *,
    cgroup_driver: str = CGROUPFS,
    cgroup_root: str = "/",
    seccomp_root: str,
    seccomp_default: bool,
    max_pids: int,
    cluster_dns: ClusterDns,
) -> CriHost:
    """Look at the machine. Blocks for a moment."""
    return CriHost(
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        has_cgroup_v2=(_CGROUPS / "cgroup.controllers").exists(),
        has_swap_control=_has_swap_control(),
        has_selinux=Path("/sys/fs/selinux/enforce").exists(),
        huge_page_sizes=tuple(sorted(_page_size(path.name) for path in _HUGE_PAGES.glob("hugepages-*kB"))),
        throttle_paths=tuple(sorted(str(path) for path in _PROCESSORS.glob("cpu[0-9]*/thermal_throttle"))),
        cgroup_driver=cgroup_driver,
        cgroup_root=cgroup_root,
        seccomp_root=seccomp_root,
        seccomp_default=seccomp_default,
        max_pids=max_pids,
        cluster_dns=cluster_dns,
    )


def read_resolver() -> Resolver:
    """How the machine itself looks up names; nothing if nobody says. Blocks for a moment."""
    found = _resolver(_RESOLVER)
    return _resolver(_SYSTEMD_RESOLVER) if found.servers == (_STUB,) and _SYSTEMD_RESOLVER.exists() else found


def app_armor_error() -> str:
    """Why AppArmor profiles cannot be enforced here; empty if they can. Blocks for a moment."""
    try:
        is_enabled = _APP_ARMOR.read_text().startswith("Y")
    except OSError:
        is_enabled = False
    return "" if is_enabled else "AppArmor is not enabled on the host"


def _resolver(path: Path) -> Resolver:
    try:
        return parse_resolver(path.read_text(errors="replace"))
    except FileNotFoundError:
        return Resolver()


def _has_swap_control() -> bool:
    if not (_CGROUPS / "cgroup.controllers").exists():
        return (_CGROUPS / "memory/memory.memsw.limit_in_bytes").exists()
    # The root of the hierarchy has no such file, so our own cgroup is looked at.
    own = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip()
    return Path(f"{_CGROUPS}{own}/memory.swap.max").exists()


def _page_size(name: str) -> str:
    kilobytes = int(name.removeprefix("hugepages-").removesuffix("kB"))
    return page_size_name(kilobytes * 1024)


SOCKETS = ("/run/containerd/containerd.sock", "/run/crio/crio.sock", "/var/run/cri-dockerd.sock")
"""Where runtimes listen unless told otherwise."""


def find_socket(given: str) -> str:
    """The path of the socket that was given, with or without `unix://`, or of the first that is there; empty if none is."""
    if given:
        return given.removeprefix("unix://")
    return next((path for path in SOCKETS if _is_socket(path)), "")


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    except OSError:
        return False
