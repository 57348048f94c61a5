"""Single files of a pod's containers: the hosts file, and what a container writes its last words into.

All of it blocks, so it runs in a thread.

Upstream: ensureHostsFile in pkg/kubelet/kubelet_pods.go, makeMounts and getTerminationMessage in
pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/util/tail
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pykubelet.agent.volumes import trees
from pykubelet.agent.volumes.directories import make_pod_folders
from pykubelet.runtime.loglines import last_lines

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
    with trees.opened(path, trees.FILE) as handle:
        size = os.fstat(handle).st_size
        os.lseek(handle, max(0, size - limit), os.SEEK_SET)
        return trees.read_at_most(handle, limit)


def read_last_lines(path: str, count: int) -> list[bytes]:
    """The last lines of a log file; OSError likewise."""
    with trees.opened(path, trees.FILE) as handle:
        return last_lines(_blocks_backwards(handle), count)


def _blocks_backwards(handle: int) -> Iterator[bytes]:
    end = os.fstat(handle).st_size
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        os.lseek(handle, start, os.SEEK_SET)
        yield trees.read_at_most(handle, end - start)
        end = start


def _write(path: str, data: bytes, mode: int) -> None:
    with trees.opened(path, _WRITE) as handle:
        trees.write_all(handle, data)
        # Whatever the process' umask is.
        os.fchmod(handle, mode)
