"""The files of one container's log as one stream of lines, while it grows and is rotated.

Everything here waits for the disk, so it is for a thread; one call at a time.
"""

import gzip
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from pykubelet.runtime.log_open import open_log
from pykubelet.runtime.log_rotation import COMPRESSED, rotated_names
from pykubelet.runtime.loglines import last_lines, split_lines

BLOCK_BYTES = 256 * 1024
# Many times what a log has when it is moved away; one who puts another file there cannot make it more.
_MOST_UNPACKED_BYTES = 256 * 1024 * 1024


class LogFiles:
    """The files of a log, all open: none can be taken away before it is read."""

    def __init__(self, path: Path) -> None:
        """FileNotFoundError if there is no log."""
        self._path = path
        # The newest first: one that is moved away meanwhile is then found twice, not lost.
        current = open_log(path)
        self._files: deque[BinaryIO] = deque((*_older_files(path, current), current))
        self._rest = b""

    def close(self) -> None:
        """Leave the files alone."""
        for file in self._files:
            file.close()

    def next_lines(self) -> list[bytes]:
        """Some more whole lines; none at the end of the log, as it is now."""
        while True:
            block = self._files[0].read(BLOCK_BYTES)
            if block:
                whole, newline, self._rest = (self._rest + block).rpartition(b"\n")
                if newline:
                    return list(split_lines(whole + newline))
            elif len(self._files) == 1:
                return []
            else:
                self._files.popleft().close()
                if self._rest:
                    return [self.take_rest()]

    def take_rest(self) -> bytes:
        """A last line that has no end yet."""
        rest, self._rest = self._rest, b""
        return rest

    def skip_to_tail(self, count: int) -> list[bytes]:
        """The last lines of the log; what follows them comes next."""
        *older, current = self._files
        end = current.seek(0, os.SEEK_END)
        lines = last_lines(_blocks_backwards(current, end, older), count)
        for file in older:
            file.close()
        self._files = deque((current,))
        # What was added meanwhile comes next.
        current.seek(end)
        if lines and not lines[-1].endswith(b"\n"):
            self._rest = lines.pop()
        return lines

    def follow_rotation(self) -> None:
        """If the log was moved away and begun anew, go on there after the end of this one."""
        with suppress(FileNotFoundError):
            if not os.path.samestat(self._path.stat(), os.fstat(self._files[-1].fileno())):
                self._files.append(open_log(self._path))


class _Unpacked(gzip.GzipFile):
    """A compressed file, which is closed with its reader."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file)
        self._packed = file

    def close(self) -> None:
        super().close()
        self._packed.close()


def _blocks_backwards(current: BinaryIO, end: int, older: Sequence[BinaryIO]) -> Iterator[bytes]:
    """The newest file up to `end`, then the older ones, each block before the one that it follows in the file."""
    yield from _plain_backwards(current, end)
    for file in reversed(older):
        if isinstance(file, gzip.GzipFile):
            yield file.read(_MOST_UNPACKED_BYTES)
        else:
            yield from _plain_backwards(file, file.seek(0, os.SEEK_END))


def _plain_backwards(file: BinaryIO, end: int) -> Iterator[bytes]:
    for start in range((end - 1) // BLOCK_BYTES * BLOCK_BYTES, -1, -BLOCK_BYTES):
        file.seek(start)
        yield file.read(min(BLOCK_BYTES, end - start))


def _older_files(path: Path, current: BinaryIO) -> Iterator[BinaryIO]:
    status = os.fstat(current.fileno())
    for name in rotated_names(path.name, [entry.name for entry in path.parent.iterdir()]):
        older = path.with_name(name)
        # A rotation under way may take the oldest, or compress one, while we look.
        with suppress(FileNotFoundError):
            if name.endswith(COMPRESSED):
                yield cast("BinaryIO", _Unpacked(open_log(older)))
            elif not os.path.samestat(older.stat(), status):
                yield open_log(older)
