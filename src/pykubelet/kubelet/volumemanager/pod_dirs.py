"""Where on disk the things of a pod are.

    <root>/pods/<uid>/etc-hosts                                        its hosts file
                      containers/<container>/<attempt>                 termination messages
                      plugins/                                         nothing of ours; upstream makes it
                      volume-subpaths/<volume>/<container>/<index>     parts of volumes, bound there to be mounted
                      volumes/<plugin>/<name>                          its volumes, `/` in a plugin's name as `~`

Every name on the way comes from outside, so each is checked to be one: no path leads out of the pod's folder.

Upstream: pkg/kubelet/kubelet_getters.go

One at a time per pod, and blocking work in threads that outlast nobody's turn.

Single files of a pod's containers: the hosts file, and what a container writes its last words into.

All of it blocks, so it runs in a thread.

Upstream: ensureHostsFile in pkg/kubelet/kubelet_pods.go, makeMounts and getTerminationMessage in
pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/util/tail

The folder that a volume is: on disk, or in memory where we may mount.

Upstream: pkg/volume/emptydir/empty_dir.go, also underneath every volume whose files come from the API. On purpose
otherwise: there is no marker of readiness, because a folder appears under its name only when it is ready.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar, TypeVarTuple

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.logs.log_lines import last_lines
from pykubelet.kubelet.volumemanager import filesystem
from pykubelet.kubelet.volumemanager.desired_state_of_world import PlannedVolume
from pykubelet.kubelet.volumemanager.filesystem import Mounter, NoRightToMount

# Any user of any container may write there; the pod's own folder keeps others out.
_MODE = 0o777
_PARENT_MODE = 0o750


def make_pod_folders(*paths: str) -> None:
    """Folders of a pod that only the node looks into, and those above them."""
    for path in paths:
        Path(path).mkdir(_PARENT_MODE, parents=True, exist_ok=True)


def make_volume_folder(path: str, planned: PlannedVolume, *, group: int | None, mounter: Mounter) -> bool:
    """Make the folder of a volume, unless it is there: then it is left as its containers have made it.

    True if it has just been made on disk although it should be in memory, because we have no right to mount.
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
    """Folders inside a volume for what containers mount there; what is there already is left, whatever it is."""
    with filesystem.opened(path) as volume:
        for relative in relative_paths:
            above = ""
            for name in relative.split("/"):
                with suppress(FileExistsError, NotADirectoryError), filesystem.opened_below(volume, above) as parent:
                    os.mkdir(name, 0o755, dir_fd=parent)
                above = f"{above}/{name}" if above else name


def _make_folder(path: str, mode: int, group: int | None) -> None:
    """Under another name first, so that nobody ever sees it with other rights, not even after a crash."""
    parent, name = str(Path(path).parent), Path(path).name
    with filesystem.opened(parent) as above:
        # No volume is called so: their names start with a letter or digit.
        unfinished = f".{name}"
        filesystem.remove_tree(above, unfinished)
        os.mkdir(unfinished, 0o700, dir_fd=above)
        with filesystem.opened(unfinished, within=above) as made:
            if group is not None:
                # An ordinary user may not, but then runs the containers as itself.
                with suppress(PermissionError):
                    os.fchown(made, -1, group)
            os.fchmod(made, mode)
        os.rename(unfinished, name, src_dir_fd=above, dst_dir_fd=above)


_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_HOSTS_MODE = 0o644
# Whatever user a container runs as, it may say why it ends.
_TERMINATION_MODE = 0o666
_BLOCK_BYTES = 4096


def write_hosts_file(path: str, text: str) -> None:
    """Write a pod's hosts file in place: running containers have this very file mounted, and should not see it empty."""
    data = text.encode()
    with suppress(OSError):
        if read_end(path, len(data) + 1) == data:
            return
    _write(path, data, _HOSTS_MODE)


def make_termination_file(path: str) -> None:
    """An empty file for a container that is about to start."""
    make_pod_folders(str(Path(path).parent))
    _write(path, b"", _TERMINATION_MODE)


def read_end(path: str, limit: int) -> bytes:
    """The last bytes of a file; OSError if there is none, or it is something else by now."""
    with filesystem.opened(path, filesystem.FILE) as handle:
        size = os.fstat(handle).st_size
        os.lseek(handle, max(0, size - limit), os.SEEK_SET)
        return filesystem.read_at_most(handle, limit)


def read_last_lines(path: str, count: int) -> list[bytes]:
    """The last lines of a log file; OSError likewise."""
    with filesystem.opened(path, filesystem.FILE) as handle:
        return last_lines(_blocks_backwards(handle), count)


def _blocks_backwards(handle: int) -> Iterator[bytes]:
    end = os.fstat(handle).st_size
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        os.lseek(handle, start, os.SEEK_SET)
        yield filesystem.read_at_most(handle, end - start)
        end = start


def _write(path: str, data: bytes, mode: int) -> None:
    with filesystem.opened(path, _WRITE) as handle:
        filesystem.write_all(handle, data)
        # Whatever the process' umask is.
        os.fchmod(handle, mode)


VOLUMES = "volumes"
SUB_PATHS = "volume-subpaths"
CONTAINERS = "containers"
PLUGINS = "plugins"


def pods_dir(root: str) -> str:
    """Where all pods are."""
    return f"{root}/pods"


def is_one_name(text: str) -> bool:
    """Whether the text can be the name of a file: not empty, no way up, no way down."""
    return text not in {"", ".", ".."} and "/" not in text and "\0" not in text


class PodDir(NamedTuple):
    """The folder of one pod."""

    path: str

    @property
    def hosts_file(self) -> str:
        return f"{self.path}/etc-hosts"

    @property
    def termination_files(self) -> str:
        """The folder of all that containers write their last words into."""
        return f"{self.path}/{CONTAINERS}"

    @property
    def volumes(self) -> str:
        return f"{self.path}/{VOLUMES}"

    @property
    def sub_paths(self) -> str:
        return f"{self.path}/{SUB_PATHS}"

    def volume(self, plugin: str, name: str) -> str:
        """Where a volume of a plugin is."""
        return f"{self.volumes}/{_name(plugin.replace('/', '~'))}/{_name(name)}"

    def sub_path(self, volume: str, container: str, index: int) -> str:
        """Where the part of a volume that a container mounts, as its how-manieth mount, is bound."""
        return f"{self.sub_paths}/{_name(volume)}/{_name(container)}/{index}"

    def termination_file(self, container: str, attempt: int) -> str:
        """What a container writes its last words into."""
        return f"{self.termination_files}/{_name(container)}/{attempt}"


def pod_dir(root: str, uid: str) -> PodDir:
    """The folder of a pod; OSError if the UID is no name, likewise for all other names here."""
    return PodDir(f"{pods_dir(root)}/{_name(uid)}")


def _name(text: str) -> str:
    if not is_one_name(text):
        raise OSError(f"{text!r} is not a name that a file can have")
    return text


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class PodLocks:
    """Whoever works on the disk of a pod has its turn alone; a lock exists only while somebody has or awaits it."""

    def __init__(self) -> None:
        self._locks: dict[PodUid, asyncio.Lock] = {}
        self._interested: dict[PodUid, int] = {}

    @asynccontextmanager
    async def of(self, uid: PodUid) -> AsyncIterator[None]:
        """The turn of a pod, in the order asked for."""
        self._interested[uid] = self._interested.get(uid, 0) + 1
        try:
            async with self._locks.setdefault(uid, asyncio.Lock()):
                yield
        finally:
            self._interested[uid] -= 1
            if not self._interested[uid]:
                del self._interested[uid], self._locks[uid]

    def __len__(self) -> int:
        """Of how many pods somebody has or awaits the turn."""
        return len(self._locks)


async def in_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Call a blocking function in a thread; when cancelled, wait until it has ended, for nobody can stop it."""
    future = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        # Whatever it was, the caller is not interested any more.
        future.exception()
        raise
