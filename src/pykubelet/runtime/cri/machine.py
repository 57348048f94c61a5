"""Looks at the machine: what decides how containers are described to the runtime."""

import os
from pathlib import Path

from pykubelet.runtime.cri.cgroup_names import CGROUPFS
from pykubelet.runtime.cri.dns import ClusterDns, Resolver, parse_resolver
from pykubelet.runtime.cri.facts import Machine, page_size_name

_CGROUPS = Path("/sys/fs/cgroup")
_HUGE_PAGES = Path("/sys/kernel/mm/hugepages")
_PROCESSORS = Path("/sys/devices/system/cpu")
_APP_ARMOR = Path("/sys/module/apparmor/parameters/enabled")
_STUB = "127.0.0.53"
"""Where systemd's resolver listens; from the network of a pod nobody gets there."""
_RESOLVER = Path("/etc/resolv.conf")
_SYSTEMD_RESOLVER = Path("/run/systemd/resolve/resolv.conf")


def read_machine(
    *,
    cgroup_driver: str = CGROUPFS,
    cgroup_root: str = "/",
    seccomp_root: str,
    seccomp_default: bool,
    max_pids: int,
    cluster_dns: ClusterDns,
) -> Machine:
    """Look at the machine. Blocks for a moment."""
    return Machine(
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
