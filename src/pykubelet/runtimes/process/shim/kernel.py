"""System calls that Python 3.11 does not offer: namespaces, mounts, prctl."""

import ctypes
import os

NEW_MOUNTS = 0x00020000
NEW_HOST_NAME = 0x04000000
NEW_USERS = 0x10000000
NEW_NETWORK = 0x40000000

READ_ONLY = 1
BIND = 4096
RECURSIVE = 16384
UNBINDABLE = 1 << 17
PRIVATE = 1 << 18
SLAVE = 1 << 19

_DETACH = 2
_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000

_PARENT_DEATH_SIGNAL = 1
_SET_NAME = 15
_BOUNDING_READ = 23
_BOUNDING_DROP = 24
_CHILD_SUBREAPER = 36
_NO_NEW_PRIVILEGES = 38

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Moves this process into new namespaces."""
    _check(_libc.unshare(flags))


def join(namespace: int, kind: int) -> None:
    """Moves this process into an open namespace."""
    _check(_libc.setns(namespace, kind))


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mounts a file system, or changes an existing mount."""
    arguments = (os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _check(_libc.mount(*arguments), target)


def make_read_only(path: str, *, recursive: bool = True) -> None:
    """Makes the mount at a path read-only, and those below it."""
    # struct mount_attr: what to set, what to clear, propagation, user namespace.
    attributes = (ctypes.c_uint64 * 4)(READ_ONLY, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    _check(_libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, attributes, size), path)


def enter_root(path: str) -> None:
    """Makes a mounted directory the root of this mount namespace and unmounts the old root."""
    os.chdir(path)
    # The old root is stacked on the new one and then unmounted, so it needs no directory of its own.
    _check(_libc.pivot_root(b".", b"."), path)
    _check(_libc.umount2(b".", _DETACH), path)
    os.chdir("/")


def adopt_orphans() -> None:
    """Makes this process the parent of orphaned descendants."""
    _prctl(_CHILD_SUBREAPER, 1)


def die_with_parent(signal: int) -> None:
    """Requests a signal when the parent ends. A change of user resets it."""
    _prctl(_PARENT_DEATH_SIGNAL, signal)


def name_process(name: str) -> None:
    """Sets the process name that `ps` and `top` show, up to 15 characters."""
    _check(_libc.prctl(_SET_NAME, name.encode(), 0, 0, 0))


def forbid_new_privileges() -> None:
    """Keeps programs from gaining privileges, for instance through setuid."""
    _prctl(_NO_NEW_PRIVILEGES, 1)


def drop_capability(number: int) -> None:
    """Drops a capability of this process and all its descendants; ignores unknown ones."""
    if _libc.prctl(_BOUNDING_READ, number, 0, 0, 0) == 1:
        _prctl(_BOUNDING_DROP, number)


def _prctl(option: int, value: int) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def _check(result: int, path: str = "") -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path or None)
