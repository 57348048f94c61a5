"""The directories and files of a pod on disk, and a lock for each pod. Blocking calls run in threads.

    <root>/pods/<uid>/etc-hosts                                        the hosts file
                      containers/<container>/<attempt>                 termination messages
                      plugins/                                         unused; upstream creates it
                      volume-subpaths/<volume>/<container>/<index>     bind mounts of sub-paths
                      volumes/<plugin>/<name>                          volumes, `/` in a plugin's name as `~`

Every name is checked to be a single path component, so no path leads out of the pod's directory. Other than upstream, a
volume has no marker of readiness: its directory gets its name only when it is ready.

Upstream: pkg/kubelet/kubelet_getters.go, pkg/kubelet/kubelet_pods.go, pkg/volume/emptydir/empty_dir.go,
pkg/kubelet/kuberuntime/kuberuntime_container.go
"""

import asyncio
import itertools
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.logs.log_lines import last_lines
from pykubelet.kubelet.volumemanager import filesystem
from pykubelet.kubelet.volumemanager.desired_state_of_world import PlannedVolume
from pykubelet.kubelet.volumemanager.filesystem import Mounter, NoRightToMount

# Any user of any container may write there; the pod's directory keeps other processes out.
_MODE = 0o777
_PARENT_MODE = 0o750

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK_BYTES = 4096
# The last lines of a log are read from so many bytes at most: 80 lines of 16 KiB, the longest that runtimes write.
_MAX_TAIL_BYTES = 2 * 1024 * 1024
VOLUMES = "volumes"
SUB_PATHS = "volume-subpaths"


def make_pod_folders(*paths: str) -> None:
    """Create directories of a pod that only the kubelet enters, with their parents."""
    for path in map(Path, paths):
        missing = itertools.takewhile(lambda folder: not folder.exists(), (path, *path.parents))
        # One by one: `parents=True` would create the parents for everybody.
        for folder in (*reversed(list(missing)), path):
            folder.mkdir(_PARENT_MODE, exist_ok=True)


def make_volume_folder(path: str, planned: PlannedVolume, *, group: int | None, mounter: Mounter) -> bool:
    """Create the directory of a volume; an existing one is left as its containers have made it.

    Returns True if it was created on disk although it should be in memory, because the kubelet may not mount.
    """
    mode = _MODE if group is None else _MODE | stat.S_ISGID
    make_pod_folders(str(Path(path).parent))
    is_new = not Path(path).exists()
    if is_new:
        _make_folder(path, mode, group)
    if not planned.in_memory or filesystem.is_mount_point(path):
        return False
    try:
        mounter.mount_memory(path, size_bytes=planned.size_bytes, mode=mode, group=group)
    except NoRightToMount:
        return is_new
    return False


def make_mount_points(path: str, relative_paths: tuple[str, ...]) -> None:
    """Create directories inside a volume for nested mounts; existing entries are left alone."""
    with filesystem.opened(path) as volume:
        for relative in relative_paths:
            above = ""
            for name in relative.split("/"):
                with suppress(FileExistsError, NotADirectoryError), filesystem.opened_below(volume, above) as parent:
                    os.mkdir(name, 0o755, dir_fd=parent)
                above = f"{above}/{name}" if above else name


def _make_folder(path: str, mode: int, group: int | None) -> None:
    """Create it under a temporary name first, so that it never has other permissions, not even after a crash."""
    parent, name = str(Path(path).parent), Path(path).name
    with filesystem.opened(parent) as above:
        # Not the name of a volume: those start with a letter or digit.
        unfinished = f".{name}"
        filesystem.remove_tree(above, unfinished)
        os.mkdir(unfinished, 0o700, dir_fd=above)
        with filesystem.opened(unfinished, within=above) as made:
            filesystem.change_owner(made, None, group)
            os.fchmod(made, mode)
        os.rename(unfinished, name, src_dir_fd=above, dst_dir_fd=above)


def write_hosts_file(path: str, text: str) -> None:
    """Write a pod's hosts file in place: running containers have this file mounted and must not see it empty."""
    data = text.encode()
    with suppress(OSError):
        if read_end(path, len(data) + 1) == data:
            return
    _write(path, data, 0o644)


def make_termination_file(path: str) -> None:
    """Create the empty termination message file of a container that is about to start."""
    make_pod_folders(str(Path(path).parent))
    # A container may run as any user and must be able to write its message.
    _write(path, b"", 0o666)


def read_end(path: str, limit: int) -> bytes:
    """The last bytes of a file; raises OSError if it is missing or not a regular file."""
    with filesystem.opened(path, filesystem.FILE) as handle:
        size = os.fstat(handle).st_size
        os.lseek(handle, max(0, size - limit), os.SEEK_SET)
        return filesystem.read_at_most(handle, limit)


def read_last_lines(path: str, count: int) -> list[bytes]:
    """The last lines of a log file; raises OSError if it is missing or not a regular file."""
    with filesystem.opened(path, filesystem.FILE) as handle:
        return last_lines(_blocks_backwards(handle), count)


def _blocks_backwards(handle: int) -> Iterator[bytes]:
    end = os.fstat(handle).st_size
    limit = end - _MAX_TAIL_BYTES
    while end > max(limit, 0):
        start = max(0, end - _BLOCK_BYTES)
        os.lseek(handle, start, os.SEEK_SET)
        yield filesystem.read_at_most(handle, end - start)
        end = start


def _write(path: str, data: bytes, mode: int) -> None:
    with filesystem.opened(path, _WRITE) as handle:
        # Not truncated before: on a full disk a file keeps its content.
        filesystem.write_all(handle, data)
        os.ftruncate(handle, len(data))
        # Independent of the umask.
        os.fchmod(handle, mode)


def pods_dir(root: str) -> str:
    return f"{root}/pods"


class PodDir(NamedTuple):
    path: str

    @property
    def hosts_file(self) -> str:
        return f"{self.path}/etc-hosts"

    @property
    def termination_files(self) -> str:
        """The directory of the termination message files of all containers."""
        return f"{self.path}/containers"

    @property
    def volumes(self) -> str:
        return f"{self.path}/{VOLUMES}"

    @property
    def sub_paths(self) -> str:
        return f"{self.path}/{SUB_PATHS}"

    def volume(self, plugin: str, name: str) -> str:
        return f"{self.volumes}/{_name(plugin.replace('/', '~'))}/{_name(name)}"

    def sub_path(self, volume: str, container: str, index: int) -> str:
        """The path where a sub-path of a volume is bound for one mount of a container."""
        return f"{self.sub_paths}/{_name(volume)}/{_name(container)}/{index}"

    def termination_file(self, container: str, attempt: int) -> str:
        return f"{self.termination_files}/{_name(container)}/{attempt}"


def pod_dir(root: str, uid: str) -> PodDir:
    """The directory of a pod; raises OSError if the UID is not a single path component."""
    return PodDir(f"{pods_dir(root)}/{_name(uid)}")


def _name(text: str) -> str:
    """The text if it is a single path component; raises OSError otherwise."""
    if text in {"", ".", ".."} or "/" in text or "\0" in text:
        raise OSError(f"{text!r} is not a name that a file can have")
    return text


class PodLocks:
    """Serializes work on the disk of a pod; a lock exists only while it is held or awaited."""

    def __init__(self) -> None:
        self._locks: dict[PodUid, asyncio.Lock] = {}
        self._interested: dict[PodUid, int] = {}

    @asynccontextmanager
    async def hold(self, uid: PodUid) -> AsyncIterator[None]:
        """Hold the lock of a pod; waiters get it in order."""
        self._interested[uid] = self._interested.get(uid, 0) + 1
        try:
            async with self._locks.setdefault(uid, asyncio.Lock()):
                yield
        finally:
            self._interested[uid] -= 1
            if not self._interested[uid]:
                del self._interested[uid], self._locks[uid]

    def __len__(self) -> int:
        """The number of pods whose lock is held or awaited."""
        return len(self._locks)
