"""What the page asks of the rest of the program, as narrow as its use.

Measures pods every few seconds while somebody looks at the page.

In: readings of the runtime. Out: the points of the last minutes, for each pod.

What the containers of pods used lately, as a small picture shows it.

In: readings of what a pod has used in all. Out: points of what it used per second. Bounded for each pod.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import NamedTuple, Protocol

from msgspec import Struct

from pykubelet.aio.queues import Subscription
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.client.interface import Reader
from pykubelet.web.rows import PodProgress

POINTS = 60
"""Of each pod; a reading every few seconds, so the last minutes."""


class Point(Struct, frozen=True, gc=False, rename="camel"):
    """At a time, in milliseconds since 1970: thousandths of a core, and bytes; None if that is not known."""

    at: int
    milli_cores: float | None
    bytes: int | None


class UsageReading(Struct, frozen=True):
    """What a pod has used of the processor since it started, and of memory now; None if that is not known."""

    at: datetime
    cpu_nanoseconds: int | None
    memory_bytes: int | None


class UsageHistory:
    """The points of each pod."""

    def __init__(self) -> None:
        self._last: dict[str, UsageReading] = {}
        self._points: dict[str, deque[Point]] = {}

    def note(self, key: str, reading: UsageReading) -> None:
        """A pod was measured; what it uses of the processor takes two readings."""
        before, self._last[key] = self._last.get(key), reading
        rate = _milli_cores(before, reading)
        if rate is not None or reading.cpu_nanoseconds is None:
            point = Point(int(reading.at.timestamp() * 1000), rate, reading.memory_bytes)
            self._points.setdefault(key, deque(maxlen=POINTS)).append(point)

    def keep(self, keys: Collection[str]) -> None:
        """Forget all others."""
        for gone in self._last.keys() - set(keys):
            del self._last[gone]
            self._points.pop(gone, None)

    def points(self, key: str) -> tuple[Point, ...]:
        """What is known of a pod, oldest first."""
        return tuple(self._points.get(key, ()))


def _milli_cores(before: UsageReading | None, now: UsageReading) -> float | None:
    if before is None or before.cpu_nanoseconds is None or now.cpu_nanoseconds is None:
        return None
    seconds = (now.at - before.at).total_seconds()
    used = now.cpu_nanoseconds - before.cpu_nanoseconds
    # A container that was started anew begins at nothing.
    return round(used / seconds / 1e6, 2) if seconds > 0 and used >= 0 else None


Write = Callable[[bytes], Awaitable[None]]
"""Sends a part of an answer; ConnectionError or TimeoutError if nobody takes it."""


class SourceUnavailable(Exception):
    """What was asked for is not to be had; the message says why."""


class NodePod(NamedTuple):
    """A pod of this node with its newest status."""

    pod: Pod
    status: PodStatus
    standing: PodProgress


class PageNode(Protocol):
    """The pods of this node."""

    def keys(self) -> Iterable[str]:
        """All of them, as `namespace/name`."""

    def key_of(self, uid: str) -> str | None:
        """The key of a pod by its UID; None if it is not known."""

    def pod(self, key: str) -> NodePod | None:
        """A pod of this node; None if it is none of this node, or no more."""

    def sources(self) -> tuple["SourceState", ...]:
        """Where pods come from, and whether all of each are known."""


class SourceState(Struct, frozen=True, rename="camel"):
    """One source of pods."""

    name: str
    is_ready: bool


class ReportedProblem(Protocol):
    """What is wrong with a manifest."""

    @property
    def where(self) -> str:
        """Which."""

    @property
    def message(self) -> str:
        """What."""


class PageExplainer(Protocol):
    """Why pods are where they are."""

    async def explain(self, namespace: str, name: str) -> Document | None:
        """What was decided about a pod and what it waits for; None if there is no such pod."""


class PageProbeHistory(Protocol):
    """What probes found lately."""

    def findings(self, key: str) -> Iterable[Struct]:
        """The last findings of each probe of a pod."""


class PageLogOptions(NamedTuple):
    """Which log, and how much of its past."""

    namespace: str
    pod: str
    container: str
    previous: bool = False
    tail_lines: int = 500


class PodLogs(Protocol):
    """The logs of containers."""

    async def open(self, options: PageLogOptions) -> Callable[[Write], Awaitable[None]]:
        """What copies a log, and goes on as long as the container writes; Unavailable if there is none."""


class UsageSource(Protocol):
    """What pods use of the machine."""

    async def read(self) -> Mapping[str, UsageReading]:
        """A reading of every pod that runs, by key; Unavailable if nobody can tell."""


class UsageView(Protocol):
    """What pods used lately."""

    def points(self, key: str) -> tuple[Point, ...]:
        """The last minutes of a pod."""


class PageObjectReader(Reader, Protocol):
    """What an API server has."""

    async def served(self) -> tuple[Resource, ...]:
        """Every resource whose objects can be listed."""


class LiveState(Protocol):
    """What all browsers show, and its changes."""

    def reading(self) -> AbstractContextManager[tuple[bytes, Subscription[bytes]]]:
        """Everything now, and what changes from now on."""

    def everything(self) -> bytes:
        """Everything now."""


PERIOD_SECONDS = 3.0


class PodUsageHistory:
    """What pods used while somebody looked; a `Usage`."""

    def __init__(self, measures: UsageSource) -> None:
        self._measures, self._history = measures, UsageHistory()

    def points(self, key: str) -> tuple[Point, ...]:
        """The last minutes of a pod."""
        return self._history.points(key)

    async def run(self, wanted: asyncio.Event) -> None:
        """Measure whenever it is wanted, until cancelled."""
        while True:
            await wanted.wait()
            try:
                readings = await self._measures.read()
            except SourceUnavailable:
                # The picture shows that there is nothing; the node's condition says why.
                readings = {}
            for key, reading in readings.items():
                self._history.note(key, reading)
            self._history.keep(readings)
            await asyncio.sleep(PERIOD_SECONDS)
