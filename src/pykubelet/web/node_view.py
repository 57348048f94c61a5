"""What the page reads of its node: Protocols for pods, logs, probes and problems, and the history of pod usage.

Pods are measured every few seconds while a browser is connected; each keeps a bounded history.
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
"""The number of points kept for each pod: a few minutes."""
Write = Callable[[bytes], Awaitable[None]]
"""Sends a part of a response; ConnectionError or TimeoutError if the browser does not read it."""
PERIOD_SECONDS = 3.0


class Point(Struct, frozen=True, gc=False, rename="camel"):
    """Usage at a time in milliseconds since 1970: CPU in millicores and memory in bytes; None if unknown."""

    at: int
    milli_cores: float | None
    bytes: int | None


class UsageReading(Struct, frozen=True):
    """The CPU time a pod has used so far, and its present memory; None if unknown."""

    at: datetime
    cpu_nanoseconds: int | None
    memory_bytes: int | None


class UsageHistory:
    """The points of each pod."""

    def __init__(self) -> None:
        self._last: dict[str, UsageReading] = {}
        self._points: dict[str, deque[Point]] = {}

    def note(self, key: str, reading: UsageReading) -> None:
        """Record a reading; CPU usage needs two of them."""
        before, self._last[key] = self._last.get(key), reading
        rate = _milli_cores(before, reading)
        if rate is not None or reading.cpu_nanoseconds is None:
            point = Point(int(reading.at.timestamp() * 1000), rate, reading.memory_bytes)
            self._points.setdefault(key, deque(maxlen=POINTS)).append(point)

    def keep(self, keys: Collection[str]) -> None:
        """Drop all other pods."""
        for gone in self._last.keys() - set(keys):
            del self._last[gone]
            self._points.pop(gone, None)

    def points(self, key: str) -> tuple[Point, ...]:
        """The points of a pod, oldest first."""
        return tuple(self._points.get(key, ()))


def _milli_cores(before: UsageReading | None, now: UsageReading) -> float | None:
    if before is None or before.cpu_nanoseconds is None or now.cpu_nanoseconds is None:
        return None
    seconds = (now.at - before.at).total_seconds()
    used = now.cpu_nanoseconds - before.cpu_nanoseconds
    # The counter of a restarted container starts at zero.
    return round(used / seconds / 1e6, 2) if seconds > 0 and used >= 0 else None


class SourceUnavailable(Exception):
    """The requested data is unavailable; the message says why."""


class NodePod(NamedTuple):
    """A pod of this node with its newest status."""

    pod: Pod
    status: PodStatus
    standing: PodProgress


class PageNode(Protocol):
    def keys(self) -> Iterable[str]:
        """The keys of all pods, as `namespace/name`."""

    def key_of(self, uid: str) -> str | None:
        """The key of the pod with this UID; None if it is unknown."""

    def pod(self, key: str) -> NodePod | None:
        """A pod of this node; None if it is not on this node."""

    def sources(self) -> tuple["SourceState", ...]:
        """The sources of pods and whether each has delivered all its pods."""


class SourceState(Struct, frozen=True, rename="camel"):
    name: str
    is_ready: bool


class ReportedProblem(Protocol):
    @property
    def where(self) -> str:
        """The path or URL of the manifest."""

    @property
    def message(self) -> str:
        """The text of the problem."""


class PageExplainer(Protocol):
    """Explains the state of pods."""

    async def explain(self, namespace: str, name: str) -> Document | None:
        """The decisions about a pod and what it waits for; None if there is no such pod."""


class PageProbeHistory(Protocol):
    """The recent results of probes."""

    def findings(self, key: str) -> Iterable[Struct]:
        """The last results of each probe of a pod."""


class PageLogOptions(NamedTuple):
    """Selects a container's log and how much of its past to show."""

    namespace: str
    pod: str
    container: str
    previous: bool = False
    tail_lines: int = 500


class PodLogs(Protocol):
    async def open(self, options: PageLogOptions) -> Callable[[Write], Awaitable[None]]:
        """A function that copies a log and follows it; SourceUnavailable if there is none."""


class UsageSource(Protocol):
    """Measures the resource usage of pods."""

    async def read(self) -> Mapping[str, UsageReading]:
        """A reading of every running pod by key; SourceUnavailable if the runtime does not measure."""


class UsageView(Protocol):
    """The recent resource usage of pods."""

    def points(self, key: str) -> tuple[Point, ...]:
        """The points of the last minutes of a pod."""


class PageObjectReader(Reader, Protocol):
    """Reads objects and the list of served resources."""

    async def served(self) -> tuple[Resource, ...]:
        """Every resource that can be listed."""


class LiveState(Protocol):
    """The state that all browsers show, and its changes."""

    def reading(self) -> AbstractContextManager[tuple[bytes, Subscription[bytes]]]:
        """Subscribe: the whole state now, and the changes from now on."""

    def everything(self) -> bytes:
        """The whole state now."""


class PodUsageHistory:
    """Measures pods while a browser is connected; a `UsageView`."""

    def __init__(self, measures: UsageSource) -> None:
        self._measures, self._history = measures, UsageHistory()

    def points(self, key: str) -> tuple[Point, ...]:
        return self._history.points(key)

    async def run(self, wanted: asyncio.Event) -> None:
        """Measure periodically while a browser is connected, until cancelled."""
        while True:
            await wanted.wait()
            try:
                readings = await self._measures.read()
            except SourceUnavailable:
                # The chart stays empty; the node's condition says why.
                readings = {}
            for key, reading in readings.items():
                self._history.note(key, reading)
            self._history.keep(readings)
            await asyncio.sleep(PERIOD_SECONDS)
