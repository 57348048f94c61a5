"""Opens, lists and removes files that containers may change concurrently, and mounts file systems.

Paths are walked through open directories, one name at a time, without following links: the content of a volume can
neither lead out of it nor block the kubelet. Removal never crosses a mount, not even one of the same file system as
upstream would, and works at any depth. Mounting needs privileges; callers decide what to do on `NoRightToMount`.

Upstream: pkg/util/removeall/removeall.go, staging/src/k8s.io/mount-utils/mount_linux.go
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

_MS_BIND = 4096
_UMOUNT_NOFOLLOW = 8

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe in place of a file would block forever.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class NoRightToMount(PermissionError):
    """The process lacks the privilege to mount."""


class Mounter(Protocol):
    """Mounts and unmounts synchronously."""

    def mount_memory(self, path: str, *, size_bytes: int, mode: int, group: int | None) -> None:
        """Mount a tmpfs on a directory; size 0 means the kernel's default."""

    def bind(self, source: str, target: str) -> None:
        """Bind-mount a file or directory to another path."""

    def unmount(self, path: str) -> None:
        """Unmount the topmost mount of a path."""


class SystemMounter:
    """Mounts with the system calls of Linux."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def mount_memory(self, path: str, *, size_bytes: int, mode: int, group: int | None) -> None:
        options = [f"mode={mode:o}"]
        options += [f"size={size_bytes}"] if size_bytes else []
        options += [f"gid={group}"] if group is not None else []
        try:
            # Memory must not be swapped to disk, where the kernel supports that option.
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


class CrossesMount(OSError):
    """A directory to be removed contains a mount."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EXDEV, "something is mounted there", path)


@contextmanager
def opened(path: str, flags: int = FOLDER, *, within: int | None = None) -> Iterator[int]:
    """Open a file or directory for the duration of the context; a relative path starts at the open directory `within`."""
    handle = os.open(path, flags, dir_fd=within)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def opened_below(folder: int, path: str, flags: int = FOLDER) -> Iterator[int]:
    """Open a relative path without following links; an empty path is the directory itself."""
    handle = os.dup(folder)
    try:
        names = path.split("/") if path else []
        for index, name in enumerate(names):
            inner = os.open(name, flags if index == len(names) - 1 else FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def names_in(folder: int) -> list[str]:
    """The sorted names of the entries of an open directory."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


def paths_below(folder: int, above: str = "") -> Iterator[str]:
    """The relative paths of everything in a directory, lazily and without following links."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        yield above + name
        if is_folder:
            with opened(name, within=folder) as inner:
                yield from paths_below(inner, f"{above}{name}/")


class Walk:
    """Opens the directories of sorted paths below a root, each only once and without following links; `make` creates them."""

    def __init__(self, root: int, make: Callable[[str, int], None] | None = None) -> None:
        self._root, self._make = root, make
        self._way: list[tuple[str, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._back_to(0)

    def folder_of(self, path: str) -> int:
        """The open directory of a path; valid until the next call."""
        names = path.split("/")[:-1]
        shared = 0
        while shared < min(len(names), len(self._way)) and names[shared] == self._way[shared][0]:
            shared += 1
        self._back_to(shared)
        for name in names[shared:]:
            here = self._way[-1][1] if self._way else self._root
            if self._make is not None:
                self._make(name, here)
            self._way.append((name, os.open(name, FOLDER, dir_fd=here)))
        return self._way[-1][1] if self._way else self._root

    def _back_to(self, depth: int) -> None:
        while len(self._way) > depth:
            os.close(self._way.pop()[1])


def read_at_most(handle: int, limit: int) -> bytes:
    """The first bytes of an open file; raises OSError if it is not a regular file."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    found = bytearray()
    while len(found) < limit and (more := os.read(handle, limit - len(found))):
        found += more
    return bytes(found)


def write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def change_owner(handle: int, user: int | None, group: int | None) -> None:
    """Change the owner where permitted: an unprivileged kubelet runs containers as its own user anyway."""
    if user is not None or group is not None:
        with suppress(PermissionError):
            os.fchown(handle, -1 if user is None else user, -1 if group is None else group)


def mount_id(handle: int) -> str:
    """The ID of the mount that an open file belongs to; also distinguishes mounts of the same file system."""
    facts = Path(f"/proc/self/fdinfo/{handle}").read_text(encoding="ascii").splitlines()
    return next(fact.split()[1] for fact in facts if fact.startswith("mnt_id:"))


def is_mount_point(path: str) -> bool:
    """Whether a path is a mount point; raises OSError if it does not exist."""
    with opened(path, HANDLE) as here, opened(str(Path(path).parent)) as above:
        return mount_id(here) != mount_id(above)


@dataclass(slots=True)
class _Level:
    """A directory on the way down: its name, its identity, and its subdirectories still to be removed."""

    name: str
    identity: tuple[int, int]
    folders: list[str]


def remove_tree(folder: int, name: str, *, with_files: bool = True) -> None:
    """Remove an entry of an open directory with everything below it; a missing entry is fine.

    Without `with_files`, only directories are removed, and a file raises OSError. Raises CrossesMount if something is
    mounted below; what was removed before stays removed.
    """
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            _remove_file(name, folder, allowed=with_files)
            return
    except FileNotFoundError:
        return
    handle = os.dup(folder)
    try:
        _Removal(mount_id(folder), with_files=with_files).run(handle, name)
    finally:
        os.close(handle)


class _Removal:
    """One removal; keeps one directory open at a time and returns upwards through `..`."""

    def __init__(self, mount: str, *, with_files: bool) -> None:
        self._mount, self._with_files = mount, with_files
        self._levels: list[_Level] = []

    def run(self, start: int, name: str) -> None:
        """Remove a directory; `start`, its parent, stays open but refers to another directory afterwards."""
        top = _identity(start)
        self._descend(start, name)
        while self._levels:
            level = self._levels[-1]
            if level.folders:
                self._descend(start, level.folders.pop())
                continue
            self._levels.pop()
            above = self._levels[-1].identity if self._levels else top
            _move(start, "..")
            if _identity(start) != above:
                # The directory was moved meanwhile: `..` is not where we came from.
                raise OSError(errno.EAGAIN, "a folder was moved while it was removed", level.name)
            with suppress(FileNotFoundError):
                os.rmdir(level.name, dir_fd=start)

    def _descend(self, handle: int, name: str) -> None:
        with opened(name, HANDLE, within=handle) as target:
            if mount_id(target) != self._mount:
                raise CrossesMount(name)
            found = os.fstat(target)
            if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_IRWXU != stat.S_IRWXU:
                # The directory may deny access even to its owner.
                with suppress(PermissionError):
                    Path(f"/proc/self/fd/{target}").chmod(stat.S_IRWXU)
            with opened(".", FOLDER, within=target) as inner:
                os.dup2(inner, handle, inheritable=False)
        folders = []
        with os.scandir(handle) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    _remove_file(entry.name, handle, allowed=self._with_files)
        self._levels.append(_Level(name, _identity(handle), folders))


def _move(handle: int, path: str) -> None:
    with opened(path, FOLDER, within=handle) as other:
        os.dup2(other, handle, inheritable=False)


def _identity(handle: int) -> tuple[int, int]:
    found = os.fstat(handle)
    return found.st_dev, found.st_ino


def _remove_file(name: str, folder: int, *, allowed: bool) -> None:
    if not allowed:
        raise OSError(errno.ENOTEMPTY, "a file is left there", name)
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
