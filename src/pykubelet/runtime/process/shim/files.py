"""State files of containers: whole or not there, and for nobody else to read."""

import os
from contextlib import suppress

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(path: str, content: bytes) -> None:
    """Write a file, in place of one that may be there: a reader sees the old one or the new one."""
    temporary = _write_temporary(path, content)
    os.rename(temporary, path)


def create_file(path: str, content: bytes) -> bool:
    """Write a file unless there is one: of several who try, one is told that it did."""
    temporary = _write_temporary(path, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    return True


def _write_temporary(path: str, content: bytes) -> str:
    temporary = f"{path}.{os.getpid()}"
    with suppress(FileNotFoundError):
        # Left by a process of the same number that was killed here.
        os.unlink(temporary)
    handle = os.open(temporary, _NEW, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)
    return temporary


def make_durable(path: str) -> None:
    """Have a file and its name survive a loss of power; takes as long as the disk does."""
    for target in (path, os.path.dirname(path) or "."):
        handle = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
