"""What of the machine and the node's settings decides how containers are described to CRI."""

from dataclasses import dataclass, field

from pykubelet.runtime.cri.cgroup_names import CGROUPFS
from pykubelet.runtime.cri.dns import ClusterDns


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
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
