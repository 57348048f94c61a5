"""Plans the file system of a container: the machine's files with the volumes mounted on top.

The container gets a new root in memory, into which everything of the old root is bound. A directory that lacks a mount
point is rebuilt in memory too, with its content bound into it, so nothing is created on the machine's disk. Missing mount
points are created on disk only inside volumes, because their content must persist. The container does not see files that the machine
adds later to a rebuilt directory; files that the container adds there end with it. A rebuilt /dev has only the devices
that every container has.
"""

import os
import posixpath
import stat
from collections.abc import Iterable, Sequence
from typing import NamedTuple

BY_ROOT = "root"
"""Root creates a mount namespace."""
BY_USER = "user"
"""An ordinary user creates a user namespace, in which its id stays the same, and a mount namespace in it."""
BY_BUBBLEWRAP = "bubblewrap"
"""An ordinary user may not create user namespaces, but bwrap may."""
NO_NAMESPACE = "none"
"""No method works: the container sees the machine's file system, and mounts are refused."""

FOLDER = "folder"
FILE = "file"
LINK = "link"
NOTHING = ""

# The devices that the OCI runtime specification requires.
_DEVICES = {"null", "zero", "full", "random", "urandom", "tty", "console", "pts", "ptmx", "shm", "mqueue"}
_DEVICES |= {"fd", "stdin", "stdout", "stderr"}
# Not part of an image, so they stay writable under a read-only root.
_NEVER_LOCKED = {"/dev", "/proc", "/sys"}
_MAX_LINKS = 40
# Each name becomes a mount, and the kernel allows 100,000.
_MAX_NAMES = 5000


class ImpossibleView(Exception):
    """A mount of the container is not possible; the message says why."""


class HostFiles:
    """The files of the machine."""

    def kind(self, path: str) -> str:
        """The kind of file at a path; does not follow a link."""
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return NOTHING
        if stat.S_ISLNK(mode):
            return LINK
        return FOLDER if stat.S_ISDIR(mode) else FILE

    def names(self, path: str) -> Sequence[str]:
        return sorted(os.listdir(path))

    def link(self, path: str) -> str:
        return os.readlink(path)


class ViewMount(NamedTuple):
    """A file or directory of the machine, with its links resolved, and its path in the container."""

    host_path: str
    container_path: str
    read_only: bool = False
    propagation: str = "None"


class ViewStep(NamedTuple):
    """One action at a path of the new root: "memory", "folder", "file", "link", "bind" or "lock"."""

    action: str
    path: str
    source: str = ""
    read_only: bool = False
    is_private: bool = False


class _MountPoint(NamedTuple):
    """The path of a mount, which may have to be created, and its missing parent directories."""

    folders: tuple[str, ...]
    path: str
    is_missing: bool
    is_in_volume: bool = False

    def steps(self, kind: str) -> list[ViewStep]:
        """The steps that create it, for a mount of this kind."""
        made = [ViewStep(FOLDER, folder) for folder in self.folders]
        return [*made, ViewStep(kind, self.path)] if self.is_missing else made


def plan_view(
    mounts: Iterable[ViewMount], disk: HostFiles, *, read_only: bool = False, spare: ViewMount | None = None
) -> list[ViewStep]:
    """The steps that build the file system, in order; with `read_only` everything but the mounts is read-only.

    `spare` is mounted only if its path is missing and outside every volume; inside a volume the path is created.
    """
    ordered = sorted(mounts, key=lambda mount: posixpath.normpath(mount.container_path).count("/"))
    builder = _ViewBuilder(disk)
    places = [builder.place(mount) for mount in ordered]
    if spare is not None and builder.lacks(spare.container_path):
        ordered.append(spare)
        places.append(builder.place(spare))
    steps: list[ViewStep] = []
    for folder in sorted({"/", *builder.rebuilt}):
        steps += _rebuild(folder, disk)
    for mount, place in zip(ordered, places, strict=True):
        if not place.is_in_volume:
            steps += place.steps(disk.kind(mount.host_path))
    if read_only:
        steps += _lock(disk)
    for mount, place in zip(ordered, places, strict=True):
        if place.is_in_volume:
            steps += place.steps(disk.kind(mount.host_path))
        is_private = mount.propagation != "HostToContainer"
        steps.append(ViewStep("bind", place.path, mount.host_path, mount.read_only, is_private))
    if spare is not None:
        steps += [ViewStep(FOLDER, path) for path in builder.missing_in_volume(spare.container_path)]
    return steps


class _ViewBuilder:
    """The file system of the container as it grows, mount by mount."""

    def __init__(self, disk: HostFiles) -> None:
        self._disk = disk
        self._mounted: dict[str, ViewMount] = {}
        self._made: set[str] = set()
        self.rebuilt: set[str] = set()

    def place(self, mount: ViewMount) -> _MountPoint:
        """Find the path of a mount and record what has to be created for it."""
        source = self._disk.kind(mount.host_path)
        if source == NOTHING:
            raise ImpossibleView(f"{mount.host_path} does not exist")
        here, missing = self._walk(mount.container_path)
        if here == "/" and not missing:
            raise ImpossibleView(f"{mount.container_path} is the root, where nothing can be mounted")
        if not missing:
            found = self._kind(here)
            if (found == FOLDER) != (source == FOLDER):
                raise ImpossibleView(f"{mount.container_path} is a {found}, so a {source} cannot be mounted there")
            self._mounted[here] = mount
            return _MountPoint((), here, is_missing=False)
        volume = self._writable_volume(here, mount.container_path)
        if not volume and here not in self._made and here != "/":
            self.rebuilt.add(here)
        paths = _paths_below(here, missing)
        self._made.update(paths[:-1])
        self._mounted[paths[-1]] = mount
        return _MountPoint(tuple(paths[:-1]), paths[-1], is_missing=True, is_in_volume=bool(volume))

    def lacks(self, path: str) -> bool:
        """Whether a path does not exist and is not in a volume."""
        here, missing = self._walk(path)
        return bool(missing) and not self._volume(here)

    def missing_in_volume(self, path: str) -> list[str]:
        """The missing folders of a path, with links followed, if it is inside a volume; else none."""
        here, missing = self._walk(path)
        return _paths_below(here, missing) if missing and self._writable_volume(here, path) else []

    def _writable_volume(self, here: str, path: str) -> str:
        """The volume in which something is missing of a path; empty outside volumes."""
        volume = self._volume(here)
        if volume and self._mounted[volume].read_only:
            raise ImpossibleView(f"{path} does not exist in the read-only volume at {volume}")
        return volume

    def _walk(self, path: str) -> tuple[str, list[str]]:
        """The existing part of a path, with links followed, and the missing names after it."""
        here, links = "/", 0
        names = _names_reversed(path)
        while names:
            name = names.pop()
            if name == "..":
                here = posixpath.dirname(here)
                continue
            next_path = posixpath.join(here, name)
            kind = self._kind(next_path)
            if kind == NOTHING:
                missing = [name, *reversed(names)]
                if ".." in missing:
                    raise ImpossibleView(f"{path} has .. after a name that does not exist")
                return here, missing
            if kind == LINK:
                links += 1
                if links > _MAX_LINKS:
                    raise ImpossibleView(f"{path} leads through too many links")
                target = self._disk.link(self._origin(next_path))
                here = "/" if target.startswith("/") else here
                names += _names_reversed(target)
                continue
            if kind == FILE and names:
                raise ImpossibleView(f"{path} leads through the file {next_path}")
            here = next_path
        return here, []

    def _kind(self, path: str) -> str:
        return FOLDER if path in self._made else self._disk.kind(self._origin(path))

    def _origin(self, path: str) -> str:
        """The path on the machine of what the container sees at a path."""
        volume = self._volume(path)
        return self._mounted[volume].host_path + path[len(volume) :] if volume else path

    def _volume(self, path: str) -> str:
        """The path of the mount that contains a path; empty if none does."""
        while path != "/" and path not in self._mounted:
            path = posixpath.dirname(path)
        return path if path != "/" else ""


def _paths_below(folder: str, names: Sequence[str]) -> list[str]:
    return [posixpath.join(folder, *names[: index + 1]) for index in range(len(names))]


def _names_reversed(path: str) -> list[str]:
    return [name for name in reversed(path.split("/")) if name not in {"", "."}]


def _rebuild(folder: str, disk: HostFiles) -> list[ViewStep]:
    """Rebuilds a directory in memory with the content of the real one."""
    names = [name for name in disk.names(folder) if folder != "/dev" or name in _DEVICES]
    if len(names) > _MAX_NAMES:
        raise ImpossibleView(f"{folder} has too many entries to add a mount point")
    steps = [ViewStep("memory", folder, folder)]
    for name in names:
        path = posixpath.join(folder, name)
        kind = disk.kind(path)
        if kind == LINK:
            steps.append(ViewStep(LINK, path, disk.link(path)))
        elif kind != NOTHING:
            steps += [ViewStep(kind, path), ViewStep("bind", path, path)]
    return steps


def _lock(disk: HostFiles) -> list[ViewStep]:
    paths = [f"/{name}" for name in disk.names("/")]
    return [
        *(ViewStep("lock", path) for path in paths if path not in _NEVER_LOCKED and disk.kind(path) == FOLDER),
        ViewStep("lock", "/"),
    ]
