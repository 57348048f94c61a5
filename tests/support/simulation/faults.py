"""What goes wrong in a simulation, and how often: each seed chooses the kinds of faults and their rates."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from pykubelet.api.errors import (
    ApiError,
    Conflict,
    InternalError,
    NotReached,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
)
from pykubelet.apiserver.storage.sqlite import CommitFailed
from pykubelet.testing.virtual_time import VirtualClock
from simulation.loop import Program
from simulation.trace import Trace, random_for

RATES = {
    "refused": 0.02,
    "lost": 0.02,
    "error": 0.02,
    "slow": 0.01,
    "cut": 0.01,
    "late": 0.02,
    "twice": 0.03,
    "runtime": 0.02,
    "effect": 0.02,
    "pause": 0.03,
    "disk": 0.01,
    "full": 0.01,
}
"""The probability of each kind of fault at one opportunity: a call, an event, an operation on a disk."""
ANSWERS: tuple[Callable[[], ApiError], ...] = (
    lambda: Conflict("the object has been modified"),
    lambda: TooManyRequests("slow down", retry_after_seconds=1),
    lambda: InternalError("the database is on fire"),
    lambda: ServiceUnavailable("not ready"),
    lambda: ServerTimeout("the request did not complete in time"),
)


class FaultPlan:
    """Decides at each opportunity whether a fault happens. Calm by default; `storm` switches the faults on."""

    def __init__(self, seed: int, trace: Trace, programs: Sequence[str]) -> None:
        self._trace, self._is_on = trace, False
        chooser = random_for(seed, "rates")
        self.random = random_for(seed, "faults")
        self.rates = {kind: rate * chooser.choice((0, 0.5, 1, 1, 2)) for kind, rate in RATES.items()}
        self.crash_seconds = {name: chooser.choice((15.0, 40.0, 120.0)) for name in programs}
        """The mean time between crashes of a program."""
        self.jump_seconds = chooser.choice((20.0, 60.0, 1e9))
        self.loss_seconds = chooser.choice((15.0, 40.0, 120.0))
        """The mean time between losses of a node."""

    def storm(self, *, is_on: bool) -> None:
        self._is_on = is_on

    @property
    def is_on(self) -> bool:
        return self._is_on

    def happens(self, kind: str, what: str) -> bool:
        """Whether this fault happens now; then it is recorded."""
        if not self._is_on or self.random.random() >= self.rates[kind]:
            return False
        self._trace.fault(kind, what)
        return True

    def error(self) -> ApiError:
        """An error answer of the server, or of what is in front of it."""
        return self.random.choice(ANSWERS)()

    def disk(self, program: Program | None, function: Callable[[], Any]) -> Any:
        """Runs a blocking function, unless the disk fails."""
        if program is not None and program.name == "server":
            if self.happens("full", "the disk of the store"):
                raise CommitFailed("storage is full")
        elif program is not None and self.happens("disk", f"a file of {program.name}"):
            raise OSError(28, "No space left on device")
        return function()

    def disk_delay(self, _: Program | None) -> float:
        return 0.0001 + self.random.random() * 0.002

    async def network_delay(self) -> None:
        """The time that a message is on its way."""
        await asyncio.sleep(0.0001 + self.random.random() * 0.003)

    def lost(self) -> NotReached:
        return NotReached(self.random.choice(("connection reset by peer", "timed out")))


class JumpingClock(VirtualClock):
    """The wall clock of all programs; somebody may set it. Monotonic time never jumps."""

    def __init__(self) -> None:
        super().__init__()
        self.offset_seconds = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.offset_seconds)
