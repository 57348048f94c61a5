"""Which kernel parameters a pod may set on this node.

Pure. Safe ones are allowed everywhere; an administrator may allow more, by name or by prefix. A parameter of a namespace
that the pod shares with the machine is never allowed. Upstream: pkg/kubelet/sysctl/{allowlist,safe_sysctls}.go,
k8s.io/component-helpers/node/util/sysctl.
"""

import re
from collections.abc import Iterable

from pykubelet.api.generated.core import PodSpec

IPC, NET = "IPC", "Net"

# The kernel from which on each is separate for every pod.
_SAFE = {
    "kernel.shm_rmid_forced": (0, 0),
    "net.ipv4.ip_local_port_range": (0, 0),
    "net.ipv4.tcp_syncookies": (0, 0),
    "net.ipv4.ping_group_range": (0, 0),
    "net.ipv4.ip_unprivileged_port_start": (0, 0),
    "net.ipv4.ip_local_reserved_ports": (3, 16),
    "net.ipv4.tcp_keepalive_time": (4, 5),
    "net.ipv4.tcp_fin_timeout": (4, 6),
    "net.ipv4.tcp_keepalive_intvl": (4, 5),
    "net.ipv4.tcp_keepalive_probes": (4, 5),
    "net.ipv4.tcp_rmem": (4, 15),
    "net.ipv4.tcp_wmem": (4, 15),
}
_IPC_NAMES = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm", "msgmax", "msgmnb", "msgmni", "msg")
)
_MAX_LENGTH = 253
_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_PATTERN = rf"({_SEGMENT}[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]"
_SWAPPED = str.maketrans("./", "/.")


def safe_sysctls(kernel: tuple[int, int]) -> tuple[str, ...]:
    """Those that touch no other pod under a kernel of this version."""
    return tuple(name for name, since in _SAFE.items() if kernel >= since)


def kernel_version(release: str) -> tuple[int, int]:
    """The first two numbers of a kernel's release, `6.1.0-13-amd64`; zeros if it has none."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


class SysctlAllowlist:
    """What is allowed: names, and prefixes that end in `*`.

    ValueError for one that is neither, or is not known to be separate for each pod.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}
        for pattern in patterns:
            if len(pattern) > _MAX_LENGTH or not re.fullmatch(_PATTERN, pattern):
                raise ValueError(
                    f'sysctl "{pattern}" must have at most {_MAX_LENGTH} characters and match regex {_PATTERN}'
                )
            name, star, _ = normal_name(pattern).partition("*")
            namespace = _namespace(name)
            if not namespace:
                raise ValueError(f'the sysctls "{name}" are not known to be namespaced')
            (self._prefixes if star else self._names)[name] = namespace

    def refusal(self, spec: PodSpec) -> str:
        """Why a pod may not set what it wants to set; empty if it may."""
        wanted = spec.security_context.sysctls if spec.security_context is not None else ()
        shared = {namespace for namespace, is_shared in ((IPC, spec.host_ipc), (NET, spec.host_network)) if is_shared}
        for sysctl in wanted:
            name = normal_name(sysctl.name)
            namespace = self._allowed(name)
            if not namespace:
                return f'"{name}" not allowlisted'
            if namespace in shared:
                return f'"{name}" not allowed with host {namespace} enabled'
        return ""

    def _allowed(self, name: str) -> str:
        if name in self._names:
            return self._names[name]
        return next((namespace for prefix, namespace in self._prefixes.items() if name.startswith(prefix)), "")


def normal_name(text: str) -> str:
    """A name with dots between its parts; where slashes stand between them, dots within a part become slashes."""
    separator = re.search(r"[./]", text)
    return text if separator is None or separator[0] == "." else text.translate(_SWAPPED)


def _namespace(name: str) -> str:
    if name in _IPC_NAMES or name.startswith("fs.mqueue."):
        return IPC
    return NET if name.startswith("net.") else ""
