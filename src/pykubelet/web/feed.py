"""What all browsers show, rows and counts; what changes goes out to every browser at once.

In: hints that something is about a pod, and objects of the API server. Out: one message for everything, and one for each
bundle of changes, made once for all browsers. While nobody looks, hints cost next to nothing and nothing is computed.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pykubelet.aio.broadcast import Broadcast, Subscription
from pykubelet.aio.clock import Clock
from pykubelet.api.wire import encode
from pykubelet.web.api_tables import ApiTables
from pykubelet.web.collaborators import NodeView, SourceProblem
from pykubelet.web.manifest_problems import BrokenManifest, broken_manifest
from pykubelet.web.messages import message
from pykubelet.web.pod_row import PodRow, pod_row
from pykubelet.web.table import Table
from pykubelet.web.tally import Tally

PACE_SECONDS = 0.2
"""Between two messages: faster than this nobody sees it, and a burst becomes one bundle."""
TICK_SECONDS = 1.0
"""How often to look for broken manifests, of which nobody tells."""
SWEEP_SECONDS = 10.0
"""How often all rows are made anew, for changes that no hint told of."""
MOST_PROBLEMS = 50
# A browser that takes nothing for so many bundles starts over.
_BEHIND = 100
_LARGEST_MANIFEST = 1 << 20


class Feed:
    """Keeps the rows while somebody looks; `run` must be running."""

    def __init__(
        self,
        *,
        node: NodeView,
        tables: ApiTables,
        problems: Callable[[], Iterable[SourceProblem]],
        about: dict[str, Any],
        clock: Clock,
    ) -> None:
        self._node, self._tables, self._problems, self._about, self._clock = node, tables, problems, about, clock
        self._pods: Table[PodRow] = Table()
        self._tally = Tally()
        self._broken: tuple[BrokenManifest, ...] = ()
        self._said: dict[str, Any] = {}
        self._hinted: set[str] = set()
        self._news, self._is_read = asyncio.Event(), asyncio.Event()
        self._readers: Broadcast[bytes] = Broadcast(limit=_BEHIND)
        tables.on_pod(self._hint)

    @property
    def is_read(self) -> asyncio.Event:
        """Set while a browser looks."""
        return self._is_read

    def heard(self, uid: str) -> None:
        """Something was said about a pod of the node."""
        if self._is_read.is_set() and (key := self._node.key_of(uid)) is not None:
            self._hint(key)

    @contextmanager
    def reading(self) -> Iterator[tuple[bytes, Subscription[bytes]]]:
        """Everything now, and what changes from now on."""
        if not len(self._readers):
            self._sweep()
        # Before it is among the readers: it is about to get everything.
        self._publish()
        with self._readers.subscribe() as subscription:
            self._is_read.set()
            try:
                yield self.everything(), subscription
            finally:
                # This one is still among them.
                if len(self._readers) == 1:
                    self._is_read.clear()

    def everything(self) -> bytes:
        """The message with which a browser starts, or starts over."""
        self._publish()
        tables = {"nodes": self._tables.nodes.rows(), "events": self._tables.events.rows()}
        return message("start", encode({"about": self._about, "pods": self._pods.rows(), **tables, **self._summary()}))

    async def run(self, ready: asyncio.Event) -> None:
        """Send changes until cancelled."""
        ready.set()
        while True:
            await self._is_read.wait()
            swept_at = self._clock.monotonic()
            while self._is_read.is_set():
                await self._wait_for_news()
                await self._look_at_problems()
                if self._clock.monotonic() - swept_at > SWEEP_SECONDS:
                    swept_at = self._clock.monotonic()
                    self._sweep()
                self._publish()
                await asyncio.sleep(PACE_SECONDS)

    async def _wait_for_news(self) -> None:
        try:
            async with asyncio.timeout(TICK_SECONDS):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    def _hint(self, key: str) -> None:
        self._hinted.add(key)
        self._news.set()

    def _sweep(self) -> None:
        self._hinted.update(self._pods.keys(), self._node.keys(), self._tables.pod_keys())

    def _publish(self) -> None:
        """Make anew what was hinted at, and tell everybody what changed."""
        hinted, self._hinted = self._hinted, set()
        for key in hinted:
            self._make_row(key)
        taken = {"pods": self._pods.take(), "nodes": self._tables.nodes.take(), "events": self._tables.events.take()}
        changed: dict[str, Any] = {name: changes for name, changes in taken.items() if changes is not None}
        summary = self._summary()
        changed |= {name: value for name, value in summary.items() if self._said.get(name) != value}
        self._said = summary
        if changed:
            self._readers.publish(message("change", encode(changed)))

    def _make_row(self, key: str) -> None:
        found = self._node.pod(key)
        if found is not None:
            row = pod_row(found.pod, found.status, found.standing)
        elif (pod := self._tables.pod(key)) is not None:
            row = pod_row(pod, pod.status)
        else:
            self._tally.replace(self._pods.drop(key), None)
            return
        self._tally.replace(self._pods.put(row), row)

    def _summary(self) -> dict[str, Any]:
        return {
            "counts": self._tally.counts(),
            "problems": self._broken,
            "sources": self._node.sources(),
            "cannot": self._tables.cannot,
        }

    async def _look_at_problems(self) -> None:
        """Read the files that have problems: a few, if any, and they may change without the problem doing so."""
        told = tuple({(one.where, one.message): one for one in self._problems()}.values())
        self._broken = await asyncio.to_thread(_with_lines, told[:MOST_PROBLEMS]) if told else ()


def _with_lines(problems: tuple[SourceProblem, ...]) -> tuple[BrokenManifest, ...]:
    return tuple(broken_manifest(one.where, one.message, _text(Path(one.where))) for one in problems)


def _text(path: Path) -> str | None:
    """The text of a manifest; None if it is no file, or too large to be one."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_MANIFEST:
            return None
        return path.read_text(errors="replace")
    except (OSError, ValueError):
        return None
