"""The clock: the only module that reads the time.

Delays use `asyncio.sleep` and `asyncio.timeout`; a `Clock` supplies timestamps only. On virtual time both agree
(`pykubelet.testing.virtual_time`).
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Supplies timestamps. Never blocks."""

    def now(self) -> datetime:
        """The wall clock, timezone-aware, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never decrease, for measuring durations."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251  the only module that may

    def monotonic(self) -> float:
        return time.monotonic()  # noqa: TID251  the only module that may


class StoppedClock:
    """A clock whose wall time stands still, for work that is repeated with the same result."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._now = clock, clock.now()

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._clock.monotonic()
