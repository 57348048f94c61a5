"""Locks a folder for one kubelet.

Two with the same folder would start everything twice and stop each other's pods.
"""

import fcntl
import os
from pathlib import Path


class FolderInUse(OSError):
    """Another kubelet uses the folder; `filename` is the lock that it holds."""


class FolderLock:
    """A locked file in the folder; a process that ends, however it ends, loses its locks."""

    def __init__(self, path: Path) -> None:
        self._path, self._handle = path, -1

    def acquire(self) -> None:
        """Create the file if need be, and lock it; FolderInUse if another kubelet has the lock."""
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            raise FolderInUse(error.errno, "another kubelet uses this folder", str(self._path)) from error

    def release(self) -> None:
        """Unlock the file, if it is locked by this lock."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
