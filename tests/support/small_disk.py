"""A small disk (tmpfs) that a test fills and frees."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from requirements import missing

_BLOCK = bytes(4096)


class SmallDisk:
    """A mounted tmpfs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Write until no byte is left; again, this takes what was freed since."""
        handle = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while True:
                os.write(handle, _BLOCK)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        finally:
            os.close(handle)

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path, mebibytes: int) -> Iterator[SmallDisk]:
    """Mount a disk of this size while the context lasts; skips the test where nothing can be mounted."""
    path.mkdir(parents=True, exist_ok=True)
    command = ("mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0700", "none", str(path))
    if subprocess.run(command, check=False, capture_output=True).returncode:
        missing("nothing can be mounted here")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(("umount", "--lazy", str(path)), check=True)
