"""What the containers of pods used lately, as a small picture shows it.

In: readings of what a pod has used in all. Out: points of what it used per second. Bounded for each pod.
"""

from collections import deque
from collections.abc import Collection
from datetime import datetime

from msgspec import Struct

POINTS = 60
"""Of each pod; a reading every few seconds, so the last minutes."""


class Point(Struct, frozen=True, gc=False, rename="camel"):
    """At a time, in milliseconds since 1970: thousandths of a core, and bytes; None if that is not known."""

    at: int
    milli_cores: float | None
    bytes: int | None


class Reading(Struct, frozen=True):
    """What a pod has used of the processor since it started, and of memory now; None if that is not known."""

    at: datetime
    cpu_nanoseconds: int | None
    memory_bytes: int | None


class UsageHistory:
    """The points of each pod."""

    def __init__(self) -> None:
        self._last: dict[str, Reading] = {}
        self._points: dict[str, deque[Point]] = {}

    def note(self, key: str, reading: Reading) -> None:
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


def _milli_cores(before: Reading | None, now: Reading) -> float | None:
    if before is None or before.cpu_nanoseconds is None or now.cpu_nanoseconds is None:
        return None
    seconds = (now.at - before.at).total_seconds()
    used = now.cpu_nanoseconds - before.cpu_nanoseconds
    # A container that was started anew begins at nothing.
    return round(used / seconds / 1e6, 2) if seconds > 0 and used >= 0 else None
