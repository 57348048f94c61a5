"""Limits the disk space of folders by project quotas, where the file system has them.

These are ext4 and XFS mounted with prjquota. A folder gets a project of its own, which files created below inherit; `df`
in it shows its limit. ext4 exempts processes that have CAP_SYS_RESOURCE. The system call that takes an open folder
needs Linux 5.14; on older kernels folders are not limited.

Upstream: pkg/volume/util/fsquota/project.go
"""

import ctypes
import errno
import fcntl
import os
import secrets
import struct
from collections.abc import Callable

_GET_ATTRIBUTES, _SET_ATTRIBUTES = 0x801C581F, 0x401C5820
_ATTRIBUTES = struct.Struct("=5I8x")
_INHERIT = 0x200

_QUOTACTL_FD = 443
_PROJECT_QUOTA = 2
_GET_QUOTA, _SET_LIMITS = (0x5803 << 8) | _PROJECT_QUOTA, (0x5804 << 8) | _PROJECT_QUOTA
# struct fs_disk_quota: version, flags, fields that are set, project, hard and soft limit; the rest is not used here.
_QUOTA = struct.Struct("=bbHIQQ88x")
_VERSION, _OF_PROJECT, _BOTH_BLOCK_LIMITS = 1, 2, 0b1100
_BLOCK = 512

# Apart from those that container runtimes and the Go kubelet count up from small numbers.
_FIRST_PROJECT, _PROJECTS = 1 << 30, 1 << 30
_TRIES = 16
# No quotas in this file system, mount, kernel or user namespace.
_UNSUPPORTED = {
    errno.ENOTTY,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    errno.EINVAL,
    errno.ESRCH,
    errno.EPERM,
    errno.EACCES,
    errno.ENODEV,
}

_libc = ctypes.CDLL(None, use_errno=True)


def create(folder: int, size_bytes: int) -> bool:
    """Gives an open, empty folder a project and its limit; False if the file system has no project quotas."""
    return _where_supported(_create, folder, size_bytes)


def change(folder: int, size_bytes: int) -> bool:
    """Sets the limit of an open folder that got a project when it was made; False if it got none."""
    return _where_supported(_change, folder, size_bytes)


def forget(folder: int) -> None:
    """Frees the project of an open folder that is about to be removed."""
    _where_supported(_change, folder, 0)


def _where_supported(call: Callable[[int, int], bool], folder: int, size_bytes: int) -> bool:
    try:
        return call(folder, size_bytes)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise


def _create(folder: int, size_bytes: int) -> bool:
    first = secrets.randbelow(_PROJECTS)
    numbers = (_FIRST_PROJECT + (first + step) % _PROJECTS for step in range(_TRIES))
    project = next((number for number in numbers if not _limit_of(folder, number)), 0)
    if not project:
        raise OSError(errno.EUSERS, "no free project for a quota found")
    _set_limit(folder, project, size_bytes)
    _join(folder, project)
    return True


def _change(folder: int, size_bytes: int) -> bool:
    project = _attributes(folder)[3]
    if project < _FIRST_PROJECT:
        return False
    _set_limit(folder, project, size_bytes)
    return True


def _join(folder: int, project: int) -> None:
    flags, extent_size, extents, _, copied_extent_size = _attributes(folder)
    values = _ATTRIBUTES.pack(flags | _INHERIT, extent_size, extents, project, copied_extent_size)
    fcntl.ioctl(folder, _SET_ATTRIBUTES, values)


def _attributes(folder: int) -> tuple[int, ...]:
    """The struct fsxattr of an open folder."""
    return _ATTRIBUTES.unpack(fcntl.ioctl(folder, _GET_ATTRIBUTES, bytes(_ATTRIBUTES.size)))


def _limit_of(folder: int, project: int) -> int:
    buffer = ctypes.create_string_buffer(_QUOTA.size)
    try:
        _quotactl(folder, _GET_QUOTA, project, buffer)
    except FileNotFoundError:
        return 0
    *_, hard, _ = _QUOTA.unpack(buffer.raw)
    return int(hard)


def _set_limit(folder: int, project: int, size_bytes: int) -> None:
    blocks = -(-size_bytes // _BLOCK)
    values = _QUOTA.pack(_VERSION, _OF_PROJECT, _BOTH_BLOCK_LIMITS, project, blocks, blocks)
    _quotactl(folder, _SET_LIMITS, project, ctypes.create_string_buffer(values, _QUOTA.size))


def _quotactl(folder: int, command: int, project: int, values: "ctypes.Array[ctypes.c_char]") -> None:
    if _libc.syscall(_QUOTACTL_FD, folder, command, project, values) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
