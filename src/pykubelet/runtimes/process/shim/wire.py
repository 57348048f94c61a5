"""State files that the kubelet and the shims exchange, and where they talk.

Closing a connection ends the conversation. State files contain JSON, are replaced atomically and
readable only by their owner. A full disk must not hide the end of a container: files that have to be written then get a
spare, which is as large as they may become.
"""

import errno
import os
from contextlib import suppress

CONTROL = "control"
"""The name of the shim's socket in the container's state folder."""

_SPARE = ".spare"
_SPARE_BYTES = 8192
"""Two blocks: enough for the record of a sandbox, or of an exit with a message of some thousand characters."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(path: str, content: bytes) -> None:
    """Writes or replaces a file atomically: a reader sees the old or the new content. On a full disk it uses the spare."""
    try:
        temporary = _write_temporary(path, content)
    except OSError as error:
        temporary = path + _SPARE
        if error.errno not in _FULL or len(content) > _SPARE_BYTES or not os.path.exists(temporary):
            raise
        handle = os.open(temporary, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(handle, content.ljust(_SPARE_BYTES))
        finally:
            os.close(handle)
    os.rename(temporary, path)


def make_spare(path: str) -> None:
    """Keeps space on the disk, so that the file can be replaced once when the disk is full."""
    os.rename(_write_temporary(path + _SPARE, b" " * _SPARE_BYTES), path + _SPARE)


def remove_spare(path: str) -> None:
    """Removes the spare of a file that is not written any more."""
    with suppress(OSError):
        os.unlink(path + _SPARE)


def create_file(path: str, content: bytes) -> bool:
    """Writes a file unless it exists; of several concurrent writers exactly one gets True."""
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
        # Left by a killed process with the same PID.
        os.unlink(temporary)
    handle = os.open(temporary, _NEW, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]
    except OSError:
        os.unlink(temporary)
        raise
    finally:
        os.close(handle)
    return temporary


def make_durable(path: str) -> None:
    """Flushes a file and its directory entry to disk, so that they survive a power loss."""
    for target in (path, os.path.dirname(path) or "."):
        handle = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
