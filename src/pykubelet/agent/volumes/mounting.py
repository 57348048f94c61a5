"""The one door to mount(2).

Mounting takes more rights than most users have: `NoRightToMount` says so, and callers decide what to do without.

Upstream: k8s.io/mount-utils
"""

import ctypes
import errno
import os
from typing import Protocol

_MS_BIND = 4096
_UMOUNT_NOFOLLOW = 8


class NoRightToMount(PermissionError):
    """This process may not mount anything."""


class Mounter(Protocol):
    """Mounts and unmounts; each call is done when it returns."""

    def mount_memory(self, path: str, *, size_bytes: int, mode: int, group: int | None) -> None:
        """Put a file system in memory over a folder; size 0 is the system's bound."""

    def bind(self, source: str, target: str) -> None:
        """Let a file or folder be seen at another place as well."""

    def unmount(self, path: str) -> None:
        """Take away what was mounted last at a path."""


class SystemMounter:
    """The kernel's mounts."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def mount_memory(self, path: str, *, size_bytes: int, mode: int, group: int | None) -> None:
        options = [f"mode={mode:o}"]
        options += [f"size={size_bytes}"] if size_bytes else []
        options += [f"gid={group}"] if group is not None else []
        try:
            # What is in memory must not reach the disk by way of swap, where the kernel can promise that.
            self._mount("tmpfs", path, "tmpfs", 0, ",".join([*options, "noswap"]))
        except NoRightToMount:
            raise
        except OSError:
            self._mount("tmpfs", path, "tmpfs", 0, ",".join(options))

    def bind(self, source: str, target: str) -> None:
        self._mount(source, target, "", _MS_BIND, "")

    def unmount(self, path: str) -> None:
        if self._libc.umount2(os.fsencode(path), _UMOUNT_NOFOLLOW) != 0:
            raise _error(path)

    def _mount(self, source: str, target: str, kind: str, flags: int, options: str) -> None:
        arguments = (os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode())
        if self._libc.mount(*arguments) != 0:
            raise _error(target)


def _error(path: str) -> OSError:
    code = ctypes.get_errno()
    kind = NoRightToMount if code in {errno.EPERM, errno.EACCES} else OSError
    return kind(code, os.strerror(code), path)
