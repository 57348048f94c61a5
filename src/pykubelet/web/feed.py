"""The live feed: keeps the rows and counts of the page and sends each change to every browser.

A message is made once for all browsers; a burst of changes is one message. While no browser is connected, hints cost
next to nothing and nothing is computed. Broken manifests are shown with the lines around each mistake, except those of
files that contain a Secret.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from pykubelet.aio.clock import Clock
from pykubelet.aio.queues import Broadcast, Subscription
from pykubelet.api.serializer import encode
from pykubelet.client.manifests.last_known_good import SourceProblem
from pykubelet.client.manifests.scanner import DocumentProblem, parse_problems
from pykubelet.web.node_view import PageNode
from pykubelet.web.routes import message
from pykubelet.web.rows import PodRow, RowTone, pod_row
from pykubelet.web.tables import ApiTables, RowTable

_FIELD = re.compile(r"([A-Za-z_$][\w$/-]*(?:\.[\w$/-]+|\[[^\]]*\])*): (.+)", re.DOTALL)
_SECRET = re.compile(r"""kind["']?\s*:\s*["']?Secret\b""")
_AROUND = 2
_LONGEST_LINE = 200
MOST_MISTAKES = 50
"""The maximum of mistakes shown for one file."""
PACE_SECONDS = 0.2
"""The least time between two messages: collects a burst of changes."""
TICK_SECONDS = 1.0
"""The period of checks for broken manifests, which send no hints."""
SWEEP_SECONDS = 10.0
"""The period of recomputing all rows, for changes without a hint."""
MOST_PROBLEMS = 50
# A browser that falls this many messages behind starts over.
_BEHIND = 100
_LARGEST_MANIFEST = 1 << 20


class Line(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A line of the file, truncated if it is very long."""

    number: int
    text: str
    is_meant: bool = False


class Mistake(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One mistake; line and column are 0 if unknown."""

    reason: str
    line: int = 0
    column: int = 0
    field: str = ""
    lines: tuple[Line, ...] = ()


class BrokenManifest(Struct, frozen=True, rename="camel", omit_defaults=True):
    """All mistakes of one file or URL."""

    where: str
    mistakes: tuple[Mistake, ...]
    hides_lines: bool = False
    """Whether its lines are hidden because it contains a Secret."""


def broken_manifest(where: str, message: str, text: str | None) -> BrokenManifest:
    """The mistakes of a manifest with the lines around them; without lines if the text is None."""
    hides = text is not None and _SECRET.search(text) is not None
    lines = text.splitlines() if text is not None and not hides else ()
    found = parse_problems(message)[:MOST_MISTAKES]
    return BrokenManifest(where, tuple(_mistake(one, lines) for one in found), hides)


def _mistake(problem: DocumentProblem, lines: Sequence[str]) -> Mistake:
    named = _FIELD.fullmatch(problem.message)
    field, reason = named.groups() if named is not None else ("", problem.message)
    return Mistake(reason, problem.line, problem.column, field, _around(problem.line, lines))


def _around(number: int, lines: Sequence[str]) -> tuple[Line, ...]:
    if not 1 <= number <= len(lines):
        return ()
    first, last = max(number - _AROUND, 1), min(number + _AROUND, len(lines))
    return tuple(Line(place, lines[place - 1][:_LONGEST_LINE], place == number) for place in range(first, last + 1))


class PodTallyCounts(Struct, frozen=True, kw_only=True, rename="camel"):
    """The number of pods at each stage of their path, and of rows by tone."""

    sources: dict[str, int]
    desired: int
    mirrors: int
    workers: dict[str, int]
    running: int
    waiting: int
    exited: int
    sent: int
    pending: int
    in_api: int
    tones: dict[str, int]


class PodTally:
    """Counts rows incrementally: a change costs the same however many pods there are."""

    def __init__(self) -> None:
        self._sources: Counter[str] = Counter()
        self._workers: Counter[str] = Counter()
        self._tones: Counter[str] = Counter()
        self._totals: Counter[str] = Counter()

    def replace(self, old: PodRow | None, new: PodRow | None) -> None:
        """Replace one row by another; None stands for no row."""
        if old is not None:
            self._add(old, -1)
        if new is not None:
            self._add(new, 1)

    def counts(self) -> PodTallyCounts:
        totals = self._totals
        return PodTallyCounts(
            sources=_some(self._sources),
            desired=totals["desired"],
            mirrors=totals["mirrors"],
            workers=_some(self._workers),
            running=totals["running"],
            waiting=totals["waiting"],
            exited=totals["exited"],
            sent=totals["sent"],
            pending=totals["pending"],
            in_api=totals["in_api"],
            tones={tone.value: self._tones[tone] for tone in RowTone},
        )

    def _add(self, row: PodRow, sign: int) -> None:
        totals = self._totals
        self._tones[row.tone] += sign
        totals["in_api"] += sign * row.in_api
        if not row.source:
            # Not on this node: only the API server knows the pod.
            return
        self._sources[row.source] += sign
        totals["desired"] += sign
        totals["mirrors"] += sign * row.has_mirror
        totals["running"] += sign * row.running
        totals["waiting"] += sign * row.waiting
        totals["exited"] += sign * row.exited
        totals["pending" if row.is_unsent else "sent"] += sign
        if row.worker:
            self._workers[row.worker] += sign


def _some(counter: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in sorted(counter.items()) if count}


class PageFeed:
    """Keeps the rows while a browser is connected; `run` must be running."""

    def __init__(
        self,
        *,
        node: PageNode,
        tables: ApiTables,
        problems: Callable[[], Iterable[SourceProblem]],
        about: dict[str, Any],
        clock: Clock,
    ) -> None:
        self._node, self._tables, self._problems, self._about, self._clock = node, tables, problems, about, clock
        self._pods: RowTable[PodRow] = RowTable()
        self._tally = PodTally()
        self._broken: tuple[BrokenManifest, ...] = ()
        self._said: dict[str, Any] = {}
        self._hinted: set[str] = set()
        self._news, self._is_read = asyncio.Event(), asyncio.Event()
        self._readers: Broadcast[bytes] = Broadcast(limit=_BEHIND)
        tables.on_pod(self._hint)

    @property
    def is_read(self) -> asyncio.Event:
        """An event that is set while a browser is connected."""
        return self._is_read

    def pod_changed(self, uid: str) -> None:
        """Record a hint that a pod of the node changed."""
        if self._is_read.is_set() and (key := self._node.key_of(uid)) is not None:
            self._hint(key)

    @contextmanager
    def reading(self) -> Iterator[tuple[bytes, Subscription[bytes]]]:
        """Subscribe: the whole state now, and the changes from now on."""
        if not len(self._readers):
            self._sweep()
        # Before subscribing: the new reader gets the whole state anyway.
        self._publish()
        with self._readers.subscribe() as subscription:
            self._is_read.set()
            try:
                yield self.everything(), subscription
            finally:
                # This reader is still subscribed.
                if len(self._readers) == 1:
                    self._is_read.clear()

    def everything(self) -> bytes:
        """The message with the whole state."""
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
                await self._read_problems()
                if self._clock.monotonic() - swept_at > SWEEP_SECONDS:
                    swept_at = self._clock.monotonic()
                    self._sweep()
                self._publish()
                await asyncio.sleep(PACE_SECONDS)

    async def _wait_for_news(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(TICK_SECONDS):
                await self._news.wait()
        self._news.clear()

    def _hint(self, key: str) -> None:
        self._hinted.add(key)
        self._news.set()

    def _sweep(self) -> None:
        self._hinted.update(self._pods.keys(), self._node.keys(), self._tables.pod_keys())

    def _publish(self) -> None:
        """Recompute the rows that changed and send the differences."""
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
            row = pod_row(found.pod, found.status, found.progress)
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

    async def _read_problems(self) -> None:
        """Read the files with problems, which may change while the problem stays the same."""
        problems = tuple({(one.where, one.message): one for one in self._problems()}.values())
        self._broken = await asyncio.to_thread(_with_lines, problems[:MOST_PROBLEMS]) if problems else ()


def _with_lines(problems: tuple[SourceProblem, ...]) -> tuple[BrokenManifest, ...]:
    return tuple(broken_manifest(one.where, one.message, _text(Path(one.where))) for one in problems)


def _text(path: Path) -> str | None:
    """The text of a manifest; None if it is not a file or too large."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_MANIFEST:
            return None
        return path.read_text(errors="replace")
    except (OSError, ValueError):
        return None
