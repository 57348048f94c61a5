"""Finds the process that has a port or a file, from /proc, for messages about what is in use."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pykubelet.runtimes.folder_lock import FolderInUse

_PROC = Path("/proc")
_LISTENING = "0A"
"""The state of a listening socket in /proc/net/tcp."""
NODE_LOCK = "kubelet.lock"
"""The file in a node's root directory that its kubelet locks."""
_KEPT_OPEN = ("/state.db", f"/{NODE_LOCK}")
"""Files that an API server and a node keep open in their folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process; `folder` is the data folder, if it is one of our programs and has one open."""

    pid: int
    program: str
    folder: Path | None = None

    def __str__(self) -> str:
        place = "" if self.folder is None else f", folder {self.folder}"
        return f"{self.program} (process {self.pid}{place})"


def port_holder(port: int) -> Holder | None:
    """The process that listens on a TCP port; None if it cannot be found, as that of another user."""
    inodes = {fields[9] for fields in _sockets() if fields[3] == _LISTENING and _port(fields[1]) == port}
    return _find(lambda link: link.startswith("socket:[") and link[len("socket:[") : -1] in inodes)


def file_holder(path: Path) -> Holder | None:
    """Another process that has a file open; None if it cannot be found, as that of another user."""
    place = os.path.realpath(path)
    return _find(place.__eq__)


def _sockets() -> Iterator[list[str]]:
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                yield line.split()


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _find(is_it: Callable[[str], bool]) -> Holder | None:
    for folder in _PROC.glob("[0-9]*"):
        pid = int(folder.name)
        # A process may end at any time, and those of other users cannot be read.
        with suppress(OSError):
            if pid != os.getpid() and any(is_it(link) for link in _open_files(folder)):
                return _holder(pid, folder)
    return None


def _open_files(process: Path) -> Iterator[str]:
    for handle in (process / "fd").iterdir():
        with suppress(OSError):
            yield str(handle.readlink())


def _holder(pid: int, process: Path) -> Holder:
    words = (process / "cmdline").read_text(errors="replace").split("\0")
    ours = next((place for place, word in enumerate(words) if Path(word).name == "pykubelet"), None)
    if ours is None:
        return Holder(pid=pid, program=(process / "comm").read_text().strip())
    files = tuple(_open_files(process))
    folders = (Path(file.removesuffix(end)) for end in _KEPT_OPEN for file in files if file.endswith(end))
    folder = next(folders, None)
    return Holder(pid=pid, program=" ".join(["pykubelet", *words[ours + 1 : ours + 2]]).strip(), folder=folder)


def folder_taken(folder: Path, in_use: FolderInUse) -> str:
    """The message for a node's folder that another kubelet has locked."""
    holder = file_holder(Path(in_use.filename))
    user = "another kubelet" if holder is None else str(holder)
    return f"{folder} is in use by {user}: stop it, or choose another folder"


def port_taken(port: int, bind: str, *, data_dir: Path | None = None) -> str:
    """The message for a port that is taken; `data_dir` is the API server's own folder."""
    holder = port_holder(port)
    if holder is not None and data_dir is not None and holder.folder == data_dir.resolve():
        return f"{holder} runs on this folder already: stop it first"
    user = "another program" if holder is None else str(holder)
    return f"port {port} of {bind} is in use by {user}: stop it, or choose another port with --port (0: any free one)"
