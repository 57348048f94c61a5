"""Follows manifests on disk: any number of folders and files, through inotify and a periodic scan.

A scan lists the paths and reads only changed files; a burst of changes is one scan. A file is read when it has been
quiet long enough, so that a file being written is not read. inotify events are hints: they may be false or missing.

Both a path and its parent folder are watched, so that a path may appear, be replaced, or be a single file. In the
parent, names like `..data` count too: a mounted config map replaces all its files by swapping that link. Unlike
upstream, several paths are possible, and only files with a manifest's extension are read; see `last_known_good`.

Upstream: pkg/kubelet/config/file.go, pkg/kubelet/config/file_linux.go
"""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from asyncinotify import Event, Inotify, Mask, Watch

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.log import get_logger
from pykubelet.client.manifests.last_known_good import FileReading, FoundManifests, PathView, advance
from pykubelet.client.manifests.scanner import MANIFEST_EXTENSIONS, ScanHints, Scanner, is_manifest_name

log = get_logger(__name__)

Hint = Callable[[str, float], None]
EVERYTHING = ""
"""The name in a hint that concerns the whole path."""
COMPLETE_SECONDS = 0.03
"""A file that was closed or renamed into place is complete; the delay collects a burst of files."""
UNCLEAR_SECONDS = 0.1
"""After a removal a new version may follow (vim moves the old file away first); after a creation, its content."""
WRITING_SECONDS = 1.0
"""After a write to a file that is still open: more will follow, unless the writer has stalled."""
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
TOGETHER_SECONDS = 0.1
"""Names that become due within this time are taken together: the two halves of a rename are one change."""
T = TypeVar("T")
PERIOD_SECONDS = 20.0
"""The period of scans without a hint, for changes that inotify does not report, as on network file systems."""


class PathWatch:
    """The inotify watches of one path. Owned by one task."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inotify: Inotify | None = None
        self._folder: Watch | None = None
        self._parent: Watch | None = None

    async def run(self, hint: Hint) -> None:
        """Report hints until cancelled; retries where the kernel cannot watch."""
        retries = Retries(_BACKOFF)
        while True:
            try:
                with Inotify() as inotify:
                    self._inotify = inotify
                    self._follow(inotify)
                    # Changes before the watch was added were not reported.
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
        """Renew the watches: the path may now resolve to another file or folder."""
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


class SettlingFiles:
    """Changed names and when they become due. Owned by one task."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def note(self, name: str, now: float, quiet_seconds: float) -> None:
        """A name changed; it is due after this long without another change."""
        self._due[name] = now + quiet_seconds

    def take_due(self, now: float) -> frozenset[str]:
        """Remove and return the names that are due."""
        due = frozenset(name for name, at in self._due.items() if at <= now)
        for name in due:
            del self._due[name]
        return due

    def unsettled(self) -> AbstractSet[str]:
        """The names that are not due yet."""
        return frozenset(self._due)

    def next_due(self) -> float | None:
        """When to take the next names, with those due soon after; None if none waits."""
        if not self._due:
            return None
        first = min(self._due.values())
        return max(at for at in self._due.values() if at <= first + TOGETHER_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestContent(Generic[T]):
    """How to read the items of a manifest file."""

    noun: str
    """The plural noun for the items in messages."""
    read: Callable[[bytes, str], FileReading[T]]
    """Decodes the bytes of a file, given with its path; called in a thread."""
    name_of: Callable[[T], Hashable]
    """The identity of an item, which survives edits of the file."""


class ManifestFollower(Generic[T]):
    """Follows manifest paths. A path that is missing at the start is empty and has a problem."""

    def __init__(
        self,
        *,
        paths: Sequence[str | Path],
        content: ManifestContent[T],
        extensions: tuple[str, ...] = MANIFEST_EXTENSIONS,
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        """In a folder only files with one of the `extensions` count; "" admits any file but editors' leftovers."""
        # Made absolute without resolving links: the path is part of its pods' identity.
        absolute = dict.fromkeys(Path(os.path.abspath(path)) for path in paths)  # noqa: PTH100  resolve follows links
        self._hinted = asyncio.Event()
        self._paths = tuple(_Path(path, content, extensions, self._hinted) for path in absolute)
        self._period_seconds = period_seconds

    async def run(self, scanned: Callable[[FoundManifests[T]], Awaitable[None]]) -> None:
        """Follow the paths until cancelled; `scanned` receives the result of every scan."""
        async with asyncio.TaskGroup() as tasks:
            for path in self._paths:
                tasks.create_task(path.watch(), name=f"watch {path.path}")
            while True:
                await scanned(FoundManifests(tuple([await path.scan() for path in self._paths])))
                await self._wait()

    async def _wait(self) -> None:
        """Wait until a change has settled or the next periodic scan is due."""
        period_ends = asyncio.get_running_loop().time() + self._period_seconds
        while True:
            self._hinted.clear()
            settled = [at for path in self._paths if (at := path.next_due()) is not None]
            due = min([*settled, period_ends])
            if due <= asyncio.get_running_loop().time():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._hinted.wait()


class _Path(Generic[T]):
    """One path: its last known state and its pending changes."""

    def __init__(
        self, path: Path, content: ManifestContent[T], extensions: tuple[str, ...], hinted: asyncio.Event
    ) -> None:
        self.path = path
        self._content, self._hinted = content, hinted
        self._scanner = Scanner(path=path, read=content.read, extensions=extensions)
        self._watch = PathWatch(path)
        self._settling = SettlingFiles()
        self._view: PathView[T] = PathView(path=str(path))

    async def watch(self) -> None:
        await self._watch.run(self._hint)

    def next_due(self) -> float | None:
        return self._settling.next_due()

    async def scan(self) -> PathView[T]:
        changed = self._settling.take_due(asyncio.get_running_loop().time())
        hints = ScanHints(changed=changed, unsettled=self._settling.unsettled())
        scan = await asyncio.to_thread(self._scanner.scan, self._view, hints)
        if scan.folder != self._view.folder:
            self._watch.follow()
        for name in scan.unstable:
            self._hint(name, UNCLEAR_SECONDS)
        self._view = advance(self._view, scan, name_of=self._content.name_of, noun=self._content.noun)
        return self._view

    def _hint(self, name: str, quiet_seconds: float) -> None:
        """Record a hint if it may concern a manifest."""
        if name.startswith(".."):
            # A mounted config map: its files are links through `..data`, which is replaced for a new version.
            name = EVERYTHING
        if name in {EVERYTHING, self.path.name} or is_manifest_name(name, self._scanner.extensions):
            self._settling.note(name, asyncio.get_running_loop().time(), quiet_seconds)
            self._hinted.set()
