"""Copies a container's log to whoever asked for it, and what is added to it until the container ends.

In: the path of the log, a query, where to write. While following, the kernel says when to look again.

Upstream: staging/src/k8s.io/cri-client/pkg/logs/logs.go. On purpose otherwise: rotated files are read too, and nobody looks
every second whether the container still runs.

The files of one container's log as one stream of lines, while it grows and is rotated.

Everything here waits for the disk, so it is for a thread; one call at a time.
"""

import asyncio
import gzip
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from asyncinotify import Inotify, Mask

from pykubelet.aio.log import get_logger
from pykubelet.kubelet.logs.container_log_manager import COMPRESSED, open_log, rotated_names
from pykubelet.kubelet.logs.log_lines import LogFilter, LogQuery, last_lines, split_lines

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


log = get_logger(__name__)

Write = Callable[[bytes], Awaitable[object]]
Ended = Callable[[], Awaitable[object]]

_CHANGES = Mask.MODIFY | Mask.CREATE | Mask.MOVED_TO | Mask.CLOSE_WRITE
# How often to look where the kernel has no watch left to give.
_UNWATCHED_SECONDS = 1.0


async def copy_log(path: Path, query: LogQuery, write: Write, *, ended: Ended | None = None) -> None:
    """Write what was asked for. With `query.follow`, goes on until `ended` returns; FileNotFoundError without a log."""
    files = await asyncio.to_thread(LogFiles, path)
    try:
        copy = _Copy(files, LogFilter(query), write)
        if query.tail_lines is not None:
            await copy.send(await asyncio.to_thread(files.skip_to_tail, query.tail_lines))
        if query.follow:
            await _follow(path, copy, ended)
        else:
            if query.tail_lines is None:
                await copy.send_all()
            await copy.send([files.take_rest()])
    finally:
        await asyncio.to_thread(files.close)


class _Copy:
    """What is read from the files, cut, written."""

    def __init__(self, files: LogFiles, cut: LogFilter, write: Write) -> None:
        self.files, self.cut, self._write = files, cut, write

    async def send(self, lines: list[bytes]) -> None:
        wanted = self.cut.take(lines)
        if wanted:
            await self._write(wanted)

    async def send_all(self) -> None:
        """All there is up to now."""
        while not self.cut.is_full and (lines := await asyncio.to_thread(self.files.next_lines)):
            await self.send(lines)


async def _follow(path: Path, copy: _Copy, ended: Ended | None) -> None:
    wake, is_over = asyncio.Event(), asyncio.Event()

    async def wait_for_end() -> None:
        if ended is not None:
            await ended()
            is_over.set()
            wake.set()

    failure: OSError | None = None
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_watch(path.parent, wake), name=f"watch log {path}"),
            group.create_task(wait_for_end(), name=f"end of log {path}"),
        ]
        try:
            await _send_until(is_over, wake, copy)
        except OSError as error:
            # Out of the group it would come wrapped; whoever writes to a socket wants it as it is.
            failure = error
        for task in tasks:
            task.cancel()
    if failure is not None:
        raise failure


async def _send_until(is_over: asyncio.Event, wake: asyncio.Event, copy: _Copy) -> None:
    is_last_look = False
    while not is_last_look and not copy.cut.is_full:
        # What was written before the end is read after it.
        is_last_look = is_over.is_set()
        wake.clear()
        await asyncio.to_thread(copy.files.follow_rotation)
        await copy.send_all()
        if not is_last_look and not is_over.is_set() and not copy.cut.is_full:
            await wake.wait()
    await copy.send([copy.files.take_rest()])


async def _watch(directory: Path, wake: asyncio.Event) -> None:
    try:
        with Inotify() as inotify:
            inotify.add_watch(directory, _CHANGES)
            # What happened before the watch was set has left no trace in it.
            wake.set()
            async for _ in inotify:
                wake.set()
    except OSError as error:
        log.warning("log is looked at every second, but not watched", path=directory, cause=error.strerror)
    while True:
        await asyncio.sleep(_UNWATCHED_SECONDS)
        wake.set()
