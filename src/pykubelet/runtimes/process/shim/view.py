"""What a container sees: all of the machine, its volumes on top, also where there is no such path.

The container gets a new root, in memory, into which everything of the old one is bound. A folder that lacks a mount point
is made anew in memory too, with all it holds bound into it; so nothing is ever made on the machine's own disk. Only a volume
that lacks one gets it, for all that is written there must stay. What the machine adds to such a folder later is not seen, and what the container adds to it is gone with it. Of /dev, made anew, only
the devices are left that every container has. Pure: values in, steps out.

Upstream: rootfs_linux.go of runc, which makes mount points in the image

How a container gets a view of the machine of its own, and mounts with it.
"""

import posixpath
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

FOLDER = "folder"
FILE = "file"
LINK = "link"
NOTHING = ""

# What the OCI runtime specification promises every container.
_DEVICES = {"null", "zero", "full", "random", "urandom", "tty", "console", "pts", "ptmx", "shm", "mqueue"}
_DEVICES |= {"fd", "stdin", "stdout", "stderr"}
# No part of an image, so writable also where the rest must not be.
_NEVER_LOCKED = {"/dev", "/proc", "/sys"}
_MAX_LINKS = 40
# Each of them is a mount, and the kernel allows 100,000 of those.
_MAX_NAMES = 5000


class ImpossibleView(Exception):
    """The container cannot see what it should; the message says why."""


class HostFiles(Protocol):
    """The machine's files, as they are."""

    def kind(self, path: str) -> str:
        """What is right there; a link is not followed."""

    def names(self, path: str) -> Sequence[str]:
        """What is in a folder."""

    def link(self, path: str) -> str:
        """Where a link points to."""


class ViewMount(NamedTuple):
    """A file or folder of the machine, without links in its path, to be seen at a path of the container."""

    host_path: str
    container_path: str
    read_only: bool = False
    propagation: str = "None"


class ViewStep(NamedTuple):
    """One thing to do at a path of the new root: "memory", "folder", "file", "link", "bind" or "lock"."""

    action: str
    path: str
    source: str = ""
    read_only: bool = False
    is_private: bool = False


class _MountPoint(NamedTuple):
    """Where a mount goes: the folders to be made for it, and the path itself, which may have to be made too."""

    folders: tuple[str, ...]
    path: str
    is_missing: bool
    is_in_volume: bool = False

    def steps(self, kind: str) -> list[ViewStep]:
        """What makes it, for a mount of this kind."""
        made = [ViewStep(FOLDER, folder) for folder in self.folders]
        return [*made, ViewStep(kind, self.path)] if self.is_missing else made


def plan_view(
    mounts: Iterable[ViewMount], disk: HostFiles, *, read_only: bool = False, spare: ViewMount | None = None
) -> list[ViewStep]:
    """The steps that lead to the view, in order; with `read_only` all is locked but the mounts.

    A `spare` folder is mounted where nothing would be else; but not into a volume, where it can be made.
    """
    ordered = sorted(mounts, key=lambda mount: posixpath.normpath(mount.container_path).count("/"))
    ground = _ViewBuilder(disk)
    places = [ground.place(mount) for mount in ordered]
    if spare is not None and ground.lacks(spare.container_path):
        ordered.append(spare)
        places.append(ground.place(spare))
    steps: list[ViewStep] = []
    for folder in sorted({"/", *ground.rebuilt}):
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
    return steps


class _ViewBuilder:
    """What is where in the view as it grows, mount by mount."""

    def __init__(self, disk: HostFiles) -> None:
        self._disk = disk
        self._mounted: dict[str, ViewMount] = {}
        self._made: set[str] = set()
        self.rebuilt: set[str] = set()

    def place(self, mount: ViewMount) -> _MountPoint:
        """Find the place of a mount, and note what has to change for it."""
        source = self._disk.kind(mount.host_path)
        if source == NOTHING:
            raise ImpossibleView(f"{mount.host_path} does not exist")
        here, missing = self._walk(mount.container_path)
        if here == "/" and not missing:
            raise ImpossibleView(f"{mount.container_path} is the root, and nothing can be mounted over all there is")
        if not missing:
            found = self._kind(here)
            if (found == FOLDER) != (source == FOLDER):
                raise ImpossibleView(
                    f"{mount.container_path} is a {found}, and what is to be mounted there is a {source}"
                )
            self._mounted[here] = mount
            return _MountPoint((), here, is_missing=False)
        volume = self._volume(here)
        if volume and self._mounted[volume].read_only:
            raise ImpossibleView(f"{mount.container_path} does not exist in the read-only volume at {volume}")
        if not volume and here not in self._made and here != "/":
            self.rebuilt.add(here)
        paths = [posixpath.join(here, *missing[: index + 1]) for index in range(len(missing))]
        self._made.update(paths[:-1])
        self._mounted[paths[-1]] = mount
        return _MountPoint(tuple(paths[:-1]), paths[-1], is_missing=True, is_in_volume=bool(volume))

    def lacks(self, path: str) -> bool:
        """Whether nothing is at a path that is not in a volume."""
        here, missing = self._walk(path)
        return bool(missing) and not self._volume(here)

    def _walk(self, path: str) -> tuple[str, list[str]]:
        """How far a path leads, links followed, and the names that are missing then."""
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
                    raise ImpossibleView(f"{path} leads back from what does not exist")
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
        """Where on the machine is what the view has at a path."""
        volume = self._volume(path)
        return self._mounted[volume].host_path + path[len(volume) :] if volume else path

    def _volume(self, path: str) -> str:
        """Where the mount is that holds a path; empty if none does."""
        while path != "/" and path not in self._mounted:
            path = posixpath.dirname(path)
        return path if path != "/" else ""


def _names_reversed(path: str) -> list[str]:
    return [name for name in reversed(path.split("/")) if name not in {"", "."}]


def _rebuild(folder: str, disk: HostFiles) -> list[ViewStep]:
    """A folder in memory with all that is in the real one."""
    names = [name for name in disk.names(folder) if folder != "/dev" or name in _DEVICES]
    if len(names) > _MAX_NAMES:
        raise ImpossibleView(f"{folder} holds too much to add a mount point to it")
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


BY_ROOT = "root"
"""Root makes a mount namespace."""
BY_USER = "user"
"""A user makes a user namespace, in which it stays who it is, and in that a mount namespace."""
BY_BUBBLEWRAP = "bubblewrap"
"""A user may make no user namespace, but may run a program that does: bwrap."""
NO_NAMESPACE = "none"
"""The machine allows none of it: the container sees what everybody sees."""
