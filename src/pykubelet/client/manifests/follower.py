"""Follows manifests on disk: folders of files, or single files, in any number.

In: paths, looked at when the kernel hints at a change and every 20 s, and how to read a file. Out: after each look, all
that the files say. A look lists the paths and reads only files that changed; a burst of changes is one look.

Upstream: pkg/kubelet/config/{file,file_linux}.go. On purpose otherwise: see `last_known_good`; several paths; only files
with the extension of a manifest are read.

Which files are still being changed, and when they may be read.

In: hints that a name changed, each with how long it must then stay quiet. Out: the names that have been quiet long
enough. So a burst of edits is read once, and a file in the middle of being written is not read at all. Times are
numbers from one clock that only grows.

Hints from the kernel that something changed at a path; the door to inotify.

In: a path that may be a folder or a file, and need not exist. Out: calls of `hint(name, quiet_seconds)`: something of
this name changed, and how long it should then stay quiet before it is read. A hint may be false and may be missing; who
listens looks for itself, and now and then without a hint.

Both the path and the folder it is in are watched: the second tells when the path appears, is swapped, or is a file. There,
names like `..data` count too: a mounted config map swaps that link to swap all its files.
Upstream: pkg/kubelet/config/file_linux.go, which watches the path alone and tries again each second.
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


TOGETHER_SECONDS = 0.1
"""What becomes due within this of the first is taken with it: the two halves of a rename are one change."""


class SettlingFiles:
    """Names that changed; owned by one task."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def note(self, name: str, now: float, quiet_seconds: float) -> None:
        """The name changed; it is due after so long without another change."""
        self._due[name] = now + quiet_seconds

    def take_due(self, now: float) -> frozenset[str]:
        """The names that are due by now; they are forgotten."""
        due = frozenset(name for name, at in self._due.items() if at <= now)
        for name in due:
            del self._due[name]
        return due

    def unsettled(self) -> AbstractSet[str]:
        """The names that are not due yet."""
        return frozenset(self._due)

    def next_due(self) -> float | None:
        """When to take the next names, those that are due soon after included; None if none waits."""
        if not self._due:
            return None
        first = min(self._due.values())
        return max(at for at in self._due.values() if at <= first + TOGETHER_SECONDS)


T = TypeVar("T")

PERIOD_SECONDS = 20.0
"""Between two looks without a hint; catches what the kernel does not tell, as on a network file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestContent(Generic[T]):
    """What is to be found in files."""

    noun: str
    """The user's word for it, in the plural."""
    read: Callable[[bytes, str], FileReading[T]]
    """What the bytes of a file, given with its path, say; called in a thread."""
    name_of: Callable[[T], Hashable]
    """What tells one item of a file from the others, however it is edited."""


class ManifestFollower(Generic[T]):
    """Follows paths. One that is missing at the start holds nothing yet, and has a problem."""

    def __init__(
        self,
        *,
        paths: Sequence[str | Path],
        content: ManifestContent[T],
        extensions: tuple[str, ...] = MANIFEST_EXTENSIONS,
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        """In a folder only files with one of the `extensions` count; "" admits any file that no editor left behind."""
        # Made absolute without following links: a path is part of what identifies its pods.
        absolute = dict.fromkeys(Path(os.path.abspath(path)) for path in paths)  # noqa: PTH100  resolve follows links
        self._hinted = asyncio.Event()
        self._paths = tuple(_Path(path, content, extensions, self._hinted) for path in absolute)
        self._period_seconds = period_seconds

    async def run(self, looked: Callable[[FoundManifests[T]], Awaitable[None]]) -> None:
        """Follow the paths until cancelled; `looked` gets what each look has found, whether or not it is news."""
        async with asyncio.TaskGroup() as tasks:
            for path in self._paths:
                tasks.create_task(path.watch(), name=f"watch {path.path}")
            while True:
                await looked(FoundManifests(tuple([await path.look() for path in self._paths])))
                await self._wait()

    async def _wait(self) -> None:
        """Return when a change has settled, or it is time to look anyway."""
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
    """One of the paths: what is known of it, and what changes there."""

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

    async def look(self) -> PathView[T]:
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
        """Note that something changed, if it may concern a manifest."""
        if name.startswith(".."):
            # A mounted config map: its files are links through `..data`, which is swapped for a new version.
            name = EVERYTHING
        if name in {EVERYTHING, self.path.name} or is_manifest_name(name, self._scanner.extensions):
            self._settling.note(name, asyncio.get_running_loop().time(), quiet_seconds)
            self._hinted.set()
