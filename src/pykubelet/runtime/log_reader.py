"""Copies a container's log to whoever asked for it, and what is added to it until the container ends.

In: the path of the log, a query, where to write. While following, the kernel says when to look again.

Upstream: staging/src/k8s.io/cri-client/pkg/logs/logs.go. On purpose otherwise: rotated files are read too, and nobody looks
every second whether the container still runs.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from asyncinotify import Inotify, Mask

from pykubelet.aio.log import get_logger
from pykubelet.runtime.log_files import LogFiles
from pykubelet.runtime.loglines import LogCut, LogQuery

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
        copy = _Copy(files, LogCut(query), write)
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

    def __init__(self, files: LogFiles, cut: LogCut, write: Write) -> None:
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
