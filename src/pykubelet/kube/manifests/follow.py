"""Follows manifests on disk: folders of files, or single files, in any number.

In: paths, looked at when the kernel hints at a change and every 20 s, and how to read a file. Out: after each look, all
that the files say. A look lists the paths and reads only files that changed; a burst of changes is one look.

Upstream: pkg/kubelet/config/{file,file_linux}.go. On purpose otherwise: see `last_known_good`; several paths; only files
with the extension of a manifest are read.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pykubelet.kube.manifests.last_known_good import Found, PathView, Reading, advance
from pykubelet.kube.manifests.path_watch import EVERYTHING, UNCLEAR_SECONDS, PathWatch
from pykubelet.kube.manifests.scan import MANIFEST_EXTENSIONS, Hints, Scanner, is_manifest_name
from pykubelet.kube.manifests.settling import Settling

T = TypeVar("T")

PERIOD_SECONDS = 20.0
"""Between two looks without a hint; catches what the kernel does not tell, as on a network file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content(Generic[T]):
    """What is to be found in files."""

    noun: str
    """The user's word for it, in the plural."""
    read: Callable[[bytes, str], Reading[T]]
    """What the bytes of a file, given with its path, say; called in a thread."""
    name_of: Callable[[T], Hashable]
    """What tells one item of a file from the others, however it is edited."""


class Follower(Generic[T]):
    """Follows paths. One that is missing at the start holds nothing yet, and has a problem."""

    def __init__(
        self,
        *,
        paths: Sequence[str | Path],
        content: Content[T],
        extensions: tuple[str, ...] = MANIFEST_EXTENSIONS,
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        """In a folder only files with one of the `extensions` count; "" admits any file that no editor left behind."""
        # Made absolute without following links: a path is part of what identifies its pods.
        absolute = dict.fromkeys(Path(os.path.abspath(path)) for path in paths)  # noqa: PTH100  resolve follows links
        self._hinted = asyncio.Event()
        self._paths = tuple(_Path(path, content, extensions, self._hinted) for path in absolute)
        self._period_seconds = period_seconds

    async def run(self, looked: Callable[[Found[T]], Awaitable[None]]) -> None:
        """Follow the paths until cancelled; `looked` gets what each look has found, whether or not it is news."""
        async with asyncio.TaskGroup() as tasks:
            for path in self._paths:
                tasks.create_task(path.watch(), name=f"watch {path.path}")
            while True:
                await looked(Found(tuple([await path.look() for path in self._paths])))
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

    def __init__(self, path: Path, content: Content[T], extensions: tuple[str, ...], hinted: asyncio.Event) -> None:
        self.path = path
        self._content, self._hinted = content, hinted
        self._scanner = Scanner(path=path, read=content.read, extensions=extensions)
        self._watch = PathWatch(path)
        self._settling = Settling()
        self._view: PathView[T] = PathView(path=str(path))

    async def watch(self) -> None:
        await self._watch.run(self._hint)

    def next_due(self) -> float | None:
        return self._settling.next_due()

    async def look(self) -> PathView[T]:
        changed = self._settling.take_due(asyncio.get_running_loop().time())
        hints = Hints(changed=changed, unsettled=self._settling.unsettled())
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
