"""Hints from the kernel that something changed at a path; the door to inotify.

In: a path that may be a folder or a file, and need not exist. Out: calls of `hint(name, quiet_seconds)`: something of
this name changed, and how long it should then stay quiet before it is read. A hint may be false and may be missing; who
listens looks for itself, and now and then without a hint.

Both the path and the folder it is in are watched: the second tells when the path appears, is swapped, or is a file. There,
names like `..data` count too: a mounted config map swaps that link to swap all its files.
Upstream: pkg/kubelet/config/file_linux.go, which watches the path alone and tries again each second.
"""

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from asyncinotify import Event, Inotify, Mask, Watch

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.log import get_logger

log = get_logger(__name__)

Hint = Callable[[str, float], None]

EVERYTHING = ""
"""The name in a hint that is not about one file."""

COMPLETE_SECONDS = 0.03
"""After a file was closed or renamed into place it is whole; the rest lets a burst of files come in together."""
UNCLEAR_SECONDS = 0.1
"""After a removal a new version may follow (vim moves the old one away first); after a creation, its content."""
WRITING_SECONDS = 1.0
"""After a write by someone who has not closed the file yet: more will come, unless the writer has stalled."""

_MASK = (
    Mask.CREATE
    | Mask.MODIFY
    | Mask.CLOSE_WRITE
    | Mask.ATTRIB
    | Mask.MOVE
    | Mask.DELETE
    | Mask.DELETE_SELF
    | Mask.MOVE_SELF
    | Mask.ONLYDIR
)
_LOST = Mask.Q_OVERFLOW | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.UNMOUNT | Mask.IGNORED

_BACKOFF = Backoff(first_seconds=1.0, limit_seconds=20.0)


class PathWatch:
    """Watches one path; owned by one task."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inotify: Inotify | None = None
        self._folder: Watch | None = None
        self._parent: Watch | None = None

    async def run(self, hint: Hint) -> None:
        """Give hints until cancelled. Where the kernel cannot watch, tries again and again."""
        retries = Retries(_BACKOFF)
        while True:
            try:
                with Inotify() as inotify:
                    self._inotify = inotify
                    self._follow(inotify)
                    # What happened before the watch was set has left no trace in it.
                    hint(EVERYTHING, 0)
                    retries.reset()
                    async for event in inotify:
                        self._handle(inotify, event, hint)
            except OSError as error:
                write = log.debug if error.errno == errno.ENOENT else log.warning
                write("manifests are listed from time to time, but not watched", path=self._path, error=error.strerror)
            finally:
                self._inotify = self._folder = self._parent = None
            await asyncio.sleep(retries.next_delay_seconds())

    def follow(self) -> None:
        """The path may lead elsewhere than before: watch what is there now."""
        if self._inotify:
            with suppress(OSError):
                self._follow(self._inotify)

    def _follow(self, inotify: Inotify) -> None:
        before = (self._parent, self._folder)
        self._parent, self._folder = inotify.add_watch(self._path.parent, _MASK), None
        with suppress(FileNotFoundError, NotADirectoryError):
            self._folder = inotify.add_watch(self._path, _MASK)
        for watch in before:
            if watch and watch not in {self._parent, self._folder}:
                with suppress(OSError):
                    inotify.rm_watch(watch)

    def _handle(self, inotify: Inotify, event: Event, hint: Hint) -> None:
        watch, name = event.watch, str(event.name or "")
        if event.mask & _LOST:
            if watch is None or watch in {self._parent, self._folder}:
                self._follow(inotify)
                hint(EVERYTHING, UNCLEAR_SECONDS)
        elif watch is not None and watch is self._folder:
            hint(name, _quiet_seconds(event.mask))
        elif watch is self._parent and (name == self._path.name or name.startswith("..")):
            self._follow(inotify)
            hint(name, _quiet_seconds(event.mask))


def _quiet_seconds(mask: Mask) -> float:
    if mask & (Mask.CLOSE_WRITE | Mask.MOVED_TO):
        return COMPLETE_SECONDS
    return WRITING_SECONDS if mask & Mask.MODIFY else UNCLEAR_SECONDS
