"""Copies a container's log to a reader and follows it until the container ends.

Reads the rotated files too, and waits for inotify events while following; upstream reads one file and polls the container
state every second.

Upstream: staging/src/k8s.io/cri-client/pkg/logs/logs.go
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

log = get_logger(__name__)

Write = Callable[[bytes], Awaitable[object]]
Ended = Callable[[], Awaitable[object]]

BLOCK_BYTES = 256 * 1024
# Many times the size at which logs are rotated; bounds the memory that a forged file can use.
_MAX_UNPACKED_BYTES = 256 * 1024 * 1024
_CHANGES = Mask.MODIFY | Mask.CREATE | Mask.MOVED_TO | Mask.CLOSE_WRITE
# The poll interval if the kernel has no inotify watch left.
_UNWATCHED_SECONDS = 1.0


class LogFiles:
    """The files of one container's log as one stream of lines, while it grows and is rotated.

    All files stay open, so none disappears before it is read. Methods block on the disk: call them in a thread, one at a
    time. The constructor raises FileNotFoundError if there is no log.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # The newest first: a file that is renamed meanwhile is then found twice, not lost.
        current = open_log(path)
        self._files: deque[BinaryIO] = deque((*_older_files(path, current), current))
        self._rest = b""

    def close(self) -> None:
        for file in self._files:
            file.close()

    def next_lines(self) -> list[bytes]:
        """The next complete lines; empty at the current end of the log."""
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
        """The last line, if it has no newline yet."""
        rest, self._rest = self._rest, b""
        return rest

    def skip_to_tail(self, count: int) -> list[bytes]:
        """The last lines of the log; `next_lines` continues after them."""
        *older, current = self._files
        end = current.seek(0, os.SEEK_END)
        lines = last_lines(_blocks_backwards(current, end, older), count)
        for file in older:
            file.close()
        self._files = deque((current,))
        current.seek(end)
        if lines and not lines[-1].endswith(b"\n"):
            self._rest = lines.pop()
        return lines

    def follow_rotation(self) -> None:
        """If the log was rotated, continue with the new file after the end of this one."""
        with suppress(FileNotFoundError):
            if not os.path.samestat(self._path.stat(), os.fstat(self._files[-1].fileno())):
                self._files.append(open_log(self._path))


class _Unpacked(gzip.GzipFile):
    """A gzip reader that closes the underlying file too."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file)
        self._packed = file

    def close(self) -> None:
        super().close()
        self._packed.close()


def _blocks_backwards(current: BinaryIO, end: int, older: Sequence[BinaryIO]) -> Iterator[bytes]:
    """The blocks of all files from the last to the first; of the newest file, only up to `end`."""
    yield from _plain_backwards(current, end)
    for file in reversed(older):
        if isinstance(file, gzip.GzipFile):
            yield file.read(_MAX_UNPACKED_BYTES)
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
        # A rotation in progress may remove or compress a file meanwhile.
        with suppress(FileNotFoundError):
            if name.endswith(COMPRESSED):
                yield cast("BinaryIO", _Unpacked(open_log(older)))
            elif not os.path.samestat(older.stat(), status):
                yield open_log(older)


async def copy_log(path: Path, query: LogQuery, write: Write, *, ended: Ended | None = None) -> None:
    """Write the lines that match a query. With `query.follow`, until `ended` returns; FileNotFoundError without a log."""
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
    """Reads lines from the files, filters and writes them."""

    def __init__(self, files: LogFiles, filter: LogFilter, write: Write) -> None:
        self.files, self.filter, self._write = files, filter, write

    async def send(self, lines: list[bytes]) -> None:
        if output := self.filter.take(lines):
            await self._write(output)

    async def send_all(self) -> None:
        """Send everything up to the current end of the log."""
        while not self.filter.is_full and (lines := await asyncio.to_thread(self.files.next_lines)):
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
            # Raised outside of the group, where it is not wrapped in an ExceptionGroup.
            failure = error
        for task in tasks:
            task.cancel()
    if failure is not None:
        raise failure


async def _send_until(is_over: asyncio.Event, wake: asyncio.Event, copy: _Copy) -> None:
    is_last_round = False
    while not is_last_round and not copy.filter.is_full:
        # Another round after the end: the last lines may have been written just before it.
        is_last_round = is_over.is_set()
        wake.clear()
        await asyncio.to_thread(copy.files.follow_rotation)
        await copy.send_all()
        if not is_last_round and not is_over.is_set() and not copy.filter.is_full:
            await wake.wait()
    await copy.send([copy.files.take_rest()])


async def _watch(directory: Path, wake: asyncio.Event) -> None:
    try:
        with Inotify() as inotify:
            inotify.add_watch(directory, _CHANGES)
            # Read once more: the watch does not report earlier changes.
            wake.set()
            async for _ in inotify:
                wake.set()
    except OSError as error:
        log.warning("log cannot be watched, polling every second", path=directory, cause=error.strerror)
    while True:
        await asyncio.sleep(_UNWATCHED_SECONDS)
        wake.set()
