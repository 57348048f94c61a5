"""Network namespaces that stay while no process is in them: each is mounted on a file of a folder.

A thread has a network namespace of its own. The functions here move the calling thread, block briefly, and must not run in
the thread of the event loop.
"""

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NEW_NETWORK = 0x40000000
_BIND, _DETACH = 1 << 12, 2
_OWN = Path("/proc/thread-self/ns/net")

_libc = ctypes.CDLL(None, use_errno=True)


class NetworkNamespaces:
    """The namespaces in a folder, by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        """The file of a namespace."""
        return self._folder / name

    def names(self) -> list[str]:
        """The names of all namespaces, also of those that an interruption has left unfinished."""
        with suppress(FileNotFoundError):
            return sorted(entry.name for entry in self._folder.iterdir())
        return []

    def make_folder(self) -> None:
        """Create the folder, only for its owner."""
        self._folder.mkdir(0o700, parents=True, exist_ok=True)

    def exist(self) -> bool:
        """Whether the folder was ever made."""
        return self._folder.exists()

    def is_complete(self, name: str) -> bool:
        """Whether there is a namespace, not only its file."""
        with suppress(FileNotFoundError):
            return self.path(name).stat().st_dev == _OWN.stat().st_dev
        return False

    @contextmanager
    def created(self, name: str) -> Iterator[None]:
        """Creates a namespace; the thread is in it for the duration of the context."""
        self.make_folder()
        self.path(name).touch(0o600, exist_ok=False)
        with _returning():
            _check(_libc.unshare(_NEW_NETWORK), "unshare")
            path = self.path(name)
            _check(_libc.mount(os.fsencode(_OWN), os.fsencode(path), b"", ctypes.c_ulong(_BIND), b""), path)
            yield

    @contextmanager
    def entered(self, name: str) -> Iterator[None]:
        """The thread is in a namespace for the duration of the context."""
        with _returning(), self.path(name).open("rb") as file:
            _check(_libc.setns(file.fileno(), _NEW_NETWORK), self.path(name))
            yield

    def remove(self, name: str) -> None:
        """Remove a namespace if it exists.

        The kernel deletes its links a moment later, when no process and no open socket is left in it.
        """
        # Unlinking also unmounts the file in the mount namespaces of containers, which would keep the namespace alive.
        _unmount(self.path(name))
        self.path(name).unlink(missing_ok=True)


@contextmanager
def _returning() -> Iterator[None]:
    """Moves this thread back into its namespace afterwards."""
    with _OWN.open("rb") as own:
        try:
            yield
        finally:
            _check(_libc.setns(own.fileno(), _NEW_NETWORK), _OWN)


def _unmount(path: Path) -> None:
    try:
        _check(_libc.umount2(os.fsencode(path), _DETACH), path)
    except OSError as error:
        # Not mounted, or not there.
        if error.errno not in {errno.EINVAL, errno.ENOENT}:
            raise


def _check(result: int, path: Path | str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(path))
