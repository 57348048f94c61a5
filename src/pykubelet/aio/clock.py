"""The one place that reads the clock.

Delays are plain `asyncio.sleep` and `asyncio.timeout`; a `Clock` is only asked for timestamps. On virtual time both
agree (`pykubelet.testing.virtual_time`).
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What time it is. Never blocks."""

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""

    def monotonic(self) -> float:
        """Seconds that only grow; for measuring how long something took."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251  this is the door

    def monotonic(self) -> float:
        return time.monotonic()  # noqa: TID251  this is the door
