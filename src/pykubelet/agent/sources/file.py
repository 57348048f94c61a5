"""Pods from manifests on disk: a folder of files, or one file.

In: a path, looked at when the kernel hints at a change and every 20 s. Out: a SET of all pods of the path, whenever they
differ from the last one sent. Each look lists the path and reads only files that changed; a SET costs a look at every pod
of this source, which is fine for the dozens that people keep in files.

Upstream: pkg/kubelet/config/{file,file_linux}.go. On purpose otherwise: see `last_known_good`; all documents of a file
count; only files with the extension of a manifest are read; a burst of changes is one SET.
"""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from pykubelet.agent.flow import PodOp
from pykubelet.agent.sources.file_scan import MANIFEST_EXTENSIONS, Hints, Scanner, is_manifest_name
from pykubelet.agent.sources.file_watch import EVERYTHING, UNCLEAR_SECONDS, PathWatch
from pykubelet.agent.sources.last_known_good import NOTHING_KNOWN, advance
from pykubelet.agent.sources.merge import Pods
from pykubelet.agent.sources.pod_config import Channel
from pykubelet.agent.sources.problems import ProblemBook, Problems
from pykubelet.agent.sources.settling import Settling

PERIOD_SECONDS = 20.0
"""Between two looks without a hint; catches what the kernel does not tell, as on a network file system."""


class FileSource:
    """Follows one path. A path that is missing at the start is an empty source, and a problem."""

    def __init__(
        self,
        *,
        path: str | Path,
        node_name: str,
        channel: Channel,
        problems: Problems,
        period_seconds: float = PERIOD_SECONDS,
        extensions: tuple[str, ...] = MANIFEST_EXTENSIONS,
        allow_references: bool = False,
    ) -> None:
        """In a folder only files with one of the `extensions` count; "" admits any file that no editor left behind."""
        # Made absolute without following links: the path is part of what identifies a pod.
        self._path = Path(os.path.abspath(path))  # noqa: PTH100  Path.resolve would follow links
        self._scanner = Scanner(
            path=self._path, node_name=node_name, extensions=extensions, allow_references=allow_references
        )
        self._channel, self._period_seconds = channel, period_seconds
        self._book = ProblemBook(channel.source, problems)
        self._watch = PathWatch(self._path)
        self._settling = Settling()
        self._hinted = asyncio.Event()
        self._view = NOTHING_KNOWN
        self._sent: Pods | None = None

    async def run(self, ready: asyncio.Event) -> None:
        """Follow the path until cancelled; `ready` is set after the first look, whatever it found."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch.run(self._hint), name=f"watch {self._path}")
            while True:
                await self._look()
                ready.set()
                await self._wait()

    async def _look(self) -> None:
        changed = self._settling.take_due(asyncio.get_running_loop().time())
        hints = Hints(changed=changed, unsettled=self._settling.unsettled())
        scan = await asyncio.to_thread(self._scanner.scan, self._view, hints)
        if scan.folder != self._view.folder:
            self._watch.follow()
        for name in scan.unstable:
            self._hint(name, UNCLEAR_SECONDS)
        self._view = advance(self._view, scan)
        self._book.update(self._view.problems)
        if self._view.is_definite and self._view.pods != self._sent:
            await self._channel.send(PodOp.SET, self._view.pods)
            self._sent = self._view.pods

    def _hint(self, name: str, quiet_seconds: float) -> None:
        """Note that something changed, if it may concern a manifest."""
        if name.startswith(".."):
            # A mounted config map: its files are links through `..data`, which is swapped for a new version.
            name = EVERYTHING
        if name in {EVERYTHING, self._path.name} or is_manifest_name(name, self._scanner.extensions):
            self._settling.note(name, asyncio.get_running_loop().time(), quiet_seconds)
            self._hinted.set()

    async def _wait(self) -> None:
        """Return when a change has settled, or it is time to look anyway."""
        period_ends = asyncio.get_running_loop().time() + self._period_seconds
        while True:
            self._hinted.clear()
            settled_at = self._settling.next_due()
            due = period_ends if settled_at is None else min(settled_at, period_ends)
            if due <= asyncio.get_running_loop().time():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._hinted.wait()
