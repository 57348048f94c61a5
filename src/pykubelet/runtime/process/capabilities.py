"""Which of root's rights a container of root has: the usual ones, unless its pod says otherwise.

Upstream: containerd's default set, and WithCapabilities in its CRI plugin
"""

from collections.abc import Iterable

from pykubelet.api.generated.core import SecurityContext

_NAMES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
]
"""In the kernel's order, which is their number."""

_DEFAULT = frozenset(
    [
        "CHOWN",
        "DAC_OVERRIDE",
        "FSETID",
        "FOWNER",
        "MKNOD",
        "NET_RAW",
        "SETGID",
        "SETUID",
        "SETFCAP",
        "SETPCAP",
        "NET_BIND_SERVICE",
        "SYS_CHROOT",
        "KILL",
        "AUDIT_WRITE",
    ]
)
_ALL = "ALL"


def dropped_capabilities(context: SecurityContext | None) -> tuple[int, ...]:
    """The numbers of the capabilities that a container gives up before it starts."""
    if context is not None and context.privileged:
        return ()
    asked = context.capabilities if context is not None else None
    added = _names(asked.add if asked is not None else ())
    dropped = _names(asked.drop if asked is not None else ())
    start = frozenset(_NAMES) if _ALL in added else frozenset() if _ALL in dropped else _DEFAULT
    kept = (start | added) - dropped
    return tuple(number for number, name in enumerate(_NAMES) if name not in kept)


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.upper().removeprefix("CAP_") for name in names)
