"""Virtual time: an event loop and a clock whose time jumps to the next timer.

A sleep of an hour takes no time, and a test may compare elapsed time exactly. Threads run in real time while virtual
time stands still, so that a thread's result never loses against a timeout.
"""

import asyncio
import math
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class _JumpingSelector(selectors.DefaultSelector):
    """Advances the loop's time to the next deadline instead of waiting for it."""

    def __init__(self, jump: Callable[[float], None], threads: Callable[[], int]) -> None:
        super().__init__()
        self._jump, self._threads = jump, threads

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None or self._threads():
            return super().select(None)
        self._jump(timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, which starts at zero."""

    def __init__(self) -> None:
        self._virtual_seconds = 0.0
        self._busy_threads = 0
        super().__init__(_JumpingSelector(self._jump, lambda: self._busy_threads))
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._virtual_seconds

    def _jump(self, seconds: float) -> None:
        self._virtual_seconds += seconds
        # A timer runs once it is due before now plus this. From 2**24 seconds (194 days) on, adding a nanosecond to a
        # float yields the same float: the next timer would be due for ever and never run.
        self._clock_resolution = max(1e-9, math.ulp(self._virtual_seconds))

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        self._busy_threads += 1
        future = super().run_in_executor(executor, func, *args)

        def done(_: asyncio.Future[Any]) -> None:
            self._busy_threads -= 1

        future.add_done_callback(done)
        return future


class VirtualClock:
    """A Clock that shows the running loop's time, starting at `epoch`."""

    def __init__(self, epoch: datetime = EPOCH) -> None:
        self._epoch = epoch

    def now(self) -> datetime:
        return self._epoch + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class ManualClock:
    """A Clock that a test advances; needs no loop."""

    def __init__(self, at: datetime = EPOCH) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - EPOCH).total_seconds()

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
