"""What a container writes: into its log, line by line, and to whoever watches.

A line is written when it is whole, when it is longer than one entry may be, or when its stream ends. A log that cannot be
written loses lines; the container never waits for it, nor for those who watch.

Upstream: containerd's pkg/cri/io/logger.go
"""

import os
import time
from collections.abc import Callable

from pykubelet.runtime.log_write import PIECE_BYTES, format_lines

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
# Readable for a group, so that collectors need not be root.
_MODE = 0o640


class Log:
    """The log file of a container."""

    def __init__(self, path: str) -> None:
        """OSError if it cannot be opened."""
        self._path = path
        self._file = os.open(path, _APPEND, _MODE)
        self._unfinished: dict[str, bytes] = {}

    def reopen(self) -> None:
        """Go on in a new file, the old one having been moved away; OSError if there cannot be one."""
        file = os.open(self._path, _APPEND, _MODE)
        os.close(self._file)
        self._file = file

    def take(self, stream: str, output: bytes) -> None:
        """Some more output."""
        output = self._unfinished.pop(stream, b"") + output
        end = output.rfind(b"\n") + 1
        # Of a line without end only whole pieces go out, so that pieces are as large as they may be.
        end += (len(output) - end) // PIECE_BYTES * PIECE_BYTES
        if end < len(output):
            self._unfinished[stream] = output[end:]
        self._write(stream, output[:end])

    def finish(self) -> None:
        """No more output: the rest goes out as it is."""
        for stream, rest in self._unfinished.items():
            self._write(stream, rest)
        self._unfinished.clear()

    def _write(self, stream: str, output: bytes) -> None:
        rest = memoryview(format_lines(time.time_ns(), stream, output))
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            # A full disk, most likely; the container goes on.
            return


class Viewer:
    """Somebody attached to the container; one who does not keep up is left behind."""

    def __init__(self, files: dict[str, int], on_gone: Callable[["Viewer"], None]) -> None:
        self._files, self._on_gone = files, on_gone
        for file in files.values():
            os.set_blocking(file, False)

    def show(self, stream: str, output: bytes) -> None:
        """Some more output."""
        file = self._files.get(stream)
        if file is None:
            return
        try:
            is_taken = os.write(file, output) == len(output)
        except OSError:
            is_taken = False
        if not is_taken:
            self._on_gone(self)

    def close(self) -> None:
        """No more output."""
        for file in self._files.values():
            os.close(file)
        self._files = {}
