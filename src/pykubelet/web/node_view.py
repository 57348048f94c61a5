"""What the page reads of its node and API server, and the history of pod usage.

Pods are measured every few seconds while a browser is connected; each keeps a bounded history.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.client.interface import Reader, Watcher
from pykubelet.client.node_view import NodePod, SourceState, UsageReading
from pykubelet.httpserver.response import HttpStream

POINTS = 60
"""The number of points kept for each pod: a few minutes."""
Explain = Callable[[str, str], Awaitable[Document | None]]
"""Explains the pod with this namespace and name; None if there is no such pod."""
PERIOD_SECONDS = 3.0


class Point(Struct, frozen=True, gc=False, rename="camel"):
    """Usage at a time in milliseconds since 1970: CPU in millicores and memory in bytes; None if unknown."""

    at: int
    milli_cores: float | None
    bytes: int | None


class UsageHistory:
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


class PageNode(Protocol):
    """The pods of this node; the kubelet's `NodeView`."""

    def keys(self) -> Iterable[str]:
        """The keys of all pods, as `namespace/name`."""

    def key_of(self, uid: str) -> str | None:
        """The key of the pod with this UID; None if it is unknown."""

    def pod(self, key: str) -> NodePod | None:
        """A pod of this node; None if it is not on this node."""

    def sources(self) -> tuple[SourceState, ...]:
        """The sources of pods and whether each has delivered all its pods."""

    def probe_results(self, key: str) -> Iterable[Struct]:
        """The last results of each probe of a pod."""


class OpenLog(Protocol):
    """Opens the log of a container and follows it; HttpError if there is none."""

    async def __call__(self, namespace: str, pod: str, container: str, *, previous: bool) -> HttpStream:
        """The log as a stream."""


class PageClient(Reader, Watcher, Protocol):
    """The part of a client that the page needs."""

    async def served(self) -> tuple[Resource, ...]:
        """Every resource that can be listed."""


class PodUsageHistory(UsageHistory):
    """Measures pods while a browser is connected."""

    def __init__(self, read: Callable[[], Awaitable[Mapping[str, UsageReading]]]) -> None:
        super().__init__()
        self._read = read

    async def run(self, wanted: asyncio.Event) -> None:
        """Measure periodically while a browser is connected, until cancelled."""
        while True:
            await wanted.wait()
            readings = await self._read()
            for key, reading in readings.items():
                self.note(key, reading)
            self.keep(readings)
            await asyncio.sleep(PERIOD_SECONDS)
