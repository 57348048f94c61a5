"""The lock by which one proxy at a time owns the rules of a network namespace.

The file lives where only root can make files, is named after the network namespace, and contains the process id of its
owner. The kernel releases the lock when the owner ends, however it ends.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

FOLDER = Path("/run/pykubelet")
_NAMESPACE = Path("/proc/self/ns/net")


class LockHeldError(Exception):
    """Another process has the lock; the message names it."""


class ProxyLock:
    """The lock of this process's network namespace. OSError if it cannot be made."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder, self._file = folder, -1

    def acquire(self) -> Self:
        """Hold the lock from now on; LockHeldError if another process does."""
        if self._file >= 0:
            return self
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        path = self._folder / f"proxy-{_NAMESPACE.stat().st_ino}.lock"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(file, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(file)
            if isinstance(error, BlockingIOError):
                raise LockHeldError(f"process {owner} runs a service proxy in this network namespace") from error
            raise
        os.truncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file
        return self

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)
        self._file = -1
