"""Opens the log files of containers, and nothing else that may have been put in their place.

A pod that may write where logs are could put a link there, to have the node read or write any file of the machine, or a
pipe, to have it wait for ever. So neither the file nor the two folders above it, its container's and its pod's, may be
links, and only a regular file is a log.

Upstream opens whatever is there.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LEVELS = 2


def open_log(path: Path) -> BinaryIO:
    """A log file to read; FileNotFoundError if there is none, whatever else is there."""
    try:
        with _folder_of(path) as folder:
            # Without O_NONBLOCK a pipe would hold us up.
            handle = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise FileNotFoundError(error.errno, "there is no log", str(path)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileNotFoundError(0, "is not a log", str(path))
    return os.fdopen(handle, "rb")


def create_beside(path: Path, mode: int) -> BinaryIO:
    """A new file in the folder of a log, to write; what has its name already goes first."""
    with _folder_of(path) as folder:
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(path.name, flags, mode, dir_fd=folder), "wb")


@contextmanager
def _folder_of(path: Path) -> Iterator[int]:
    """The folder a log is in; OSError if it, or the one above it, is a link."""
    *_, pod, container = ("", *path.parent.parts)[-_LEVELS:]
    handle = os.open(path.parents[_LEVELS], _FOLDER)
    try:
        for name in (pod, container):
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)
