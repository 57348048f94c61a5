"""Copies a container's log to a reader and follows it until the container ends.

Reads the rotated files too, and waits for inotify events while following; upstream reads one file and polls the container
state every second.

Upstream: staging/src/k8s.io/cri-client/pkg/logs/logs.go
"""

import asyncio
import gzip
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from asyncinotify import Inotify, Mask

from pykubelet.aio.log import get_logger
from pykubelet.kubelet.logs.container_log_manager import COMPRESSED, open_log, rotated_names
from pykubelet.kubelet.logs.log_lines import LogFilter, LogQuery, split_lines

log = get_logger(__name__)

Write = Callable[[bytes], Awaitable[object]]
Ended = Callable[[], Awaitable[object]]

BLOCK_BYTES = 256 * 1024
# Many times the size at which logs are rotated; bounds the time that a forged file can take.
_MAX_UNPACKED_BYTES = 256 * 1024 * 1024
# Runtimes split lines at 16 KiB. A longer one is passed on in pieces, of which the filter drops all but the first.
_MAX_LINE_BYTES = 1024 * 1024
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
                if len(self._rest) > _MAX_LINE_BYTES:
                    return [self.take_rest()]
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

    def skip_to_tail(self, count: int) -> None:
        """Continues with the last `count` lines of the log. Only counts lines, so that memory does not depend on it."""
        *older, current = self._files
        count = _skip_to_tail(current, count)
        for file in reversed(older):
            if not count:
                file.close()
                self._files.popleft()
            elif isinstance(file, gzip.GzipFile):
                count = _skip_packed_to_tail(file, count)
            else:
                count = _skip_to_tail(file, count)

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


def _skip_to_tail(file: BinaryIO, count: int) -> int:
    """Moves to the start of the file's last `count` lines; returns how many lines it lacks."""
    end = file.seek(0, os.SEEK_END)
    for start in range((end - 1) // BLOCK_BYTES * BLOCK_BYTES, -1, -BLOCK_BYTES) if count > 0 else ():
        file.seek(start)
        block = file.read(min(BLOCK_BYTES, end - start))
        # The newline of the last line starts no other line.
        at = len(block) - (start + len(block) == end and block.endswith(b"\n"))
        newlines = block.count(b"\n", 0, at)
        if newlines >= count:
            for _ in range(count):
                at = block.rfind(b"\n", 0, at)
            file.seek(start + at + 1)
            return 0
        count -= newlines
    if end and count > 0:
        file.seek(0)
        count -= 1
    return max(count, 0)


def _skip_packed_to_tail(file: gzip.GzipFile, count: int) -> int:
    """The same for a compressed file, which can only be read forward: first to count its lines."""
    lines, skipped = sum(newlines for newlines, _ in _packed_blocks(file)), 0
    file.seek(0)
    start = 0
    for newlines, block in _packed_blocks(file) if lines > count else ():
        if skipped + newlines < lines - count:
            skipped, start = skipped + newlines, start + len(block)
            continue
        at = -1
        for _ in range(lines - count - skipped):
            at = block.find(b"\n", at + 1)
        start += at + 1
        break
    file.seek(start)
    return max(count - lines, 0)


def _packed_blocks(file: gzip.GzipFile) -> Iterator[tuple[int, bytes]]:
    """The blocks of a compressed file, each with its number of newlines."""
    unpacked = 0
    while unpacked < _MAX_UNPACKED_BYTES and (block := file.read(BLOCK_BYTES)):
        yield block.count(b"\n"), block
        unpacked += len(block)


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
            await asyncio.to_thread(files.skip_to_tail, query.tail_lines)
        if query.follow:
            await _follow(path, copy, ended)
        else:
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
