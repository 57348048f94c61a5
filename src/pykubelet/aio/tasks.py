"""Keep long tasks running: name them, log a crash, back off, start again.

A failing child would cancel its siblings in a TaskGroup, and on Python 3.11 a child of an inner group must never
raise. So every long-lived coroutine runs under `supervise`, which lets only cancellation and a final failure out.

Runs the long-lived parts of a program: named, supervised, all for as long as a context lasts.

A task that runs beside what its starter does, and ends with it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.log import get_logger


@asynccontextmanager
async def background_task(coroutine: Coroutine[Any, Any, None], name: str) -> AsyncIterator[asyncio.Task[None]]:
    """Runs what never raises while the context lasts; what the context raises comes out as it is, in no group."""
    group = asyncio.TaskGroup()
    await group.__aenter__()
    task = group.create_task(coroutine, name=name)
    try:
        yield task
    finally:
        task.cancel()
        await group.__aexit__(None, None, None)


log = get_logger(__name__)

# A task that keeps failing is tried again after 0.1 s, then ever later, at most every 30 s.
RESTART = Backoff(first_seconds=0.1, limit_seconds=30, jitter=0.5)


class GaveUpError(RuntimeError):
    """A supervised task crashed too often; the program should end and say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLimit:
    """How much a supervisor puts up with: more than `crashes` within `within_seconds` is final."""

    crashes: int = 20
    within_seconds: float = 300.0


UNLIMITED_RESTARTS = RestartLimit(crashes=2**62)
"""Never give up: for work on one pod, which must not take the node down."""


async def supervise(
    name: str,
    start: Callable[[], Awaitable[object]],
    *,
    patience: RestartLimit = UNLIMITED_RESTARTS,
    backoff: Backoff = RESTART,
) -> None:
    """Run `start()` until it returns; after a crash log it, wait and start anew.

    Cancellation passes through at once. After a quiet spell of `patience.within_seconds` the waits start over.
    """
    loop = asyncio.get_running_loop()
    retries = Retries(backoff)
    crashes: list[float] = []
    while True:
        try:
            await start()
        except Exception as error:
            now = loop.time()
            crashes = [at for at in crashes if now - at <= patience.within_seconds]
            if not crashes:
                retries.reset()
            crashes.append(now)
            if len(crashes) > patience.crashes:
                log.error("task crashed too often", error=error, task=name, crashes=len(crashes))
                raise GaveUpError(f"{name} crashed {len(crashes)} times in {patience.within_seconds:g} s") from error
            delay = retries.next_delay_seconds()
            log.error("task crashed", error=error, task=name, restart_in_seconds=round(delay, 3))
            # Only what must be known is kept of a task that never gives up.
            del crashes[:-64]
            await asyncio.sleep(delay)
        else:
            return


def start_supervised(
    group: asyncio.TaskGroup,
    name: str,
    start: Callable[[], Awaitable[object]],
    *,
    patience: RestartLimit = UNLIMITED_RESTARTS,
) -> asyncio.Task[None]:
    """A named, supervised task in a group."""
    return group.create_task(supervise(name, start, patience=patience), name=name)


Runner = Callable[[], Awaitable[None]]
"""Runs until it is cancelled."""


def with_ready_event(run: Callable[[asyncio.Event], Awaitable[None]], ready: asyncio.Event | None = None) -> Runner:
    """A part that says when it is ready: by this event, or by one that nobody waits for."""
    event = ready or asyncio.Event()
    return lambda: run(event)


@asynccontextmanager
async def running(runners: Mapping[str, Runner]) -> AsyncIterator[None]:
    """Tasks that run as long as the context lasts."""
    failure: Exception | None = None
    async with asyncio.TaskGroup() as group:
        tasks = [start_supervised(group, name, runner) for name, runner in runners.items()]
        try:
            yield
        except Exception as error:  # noqa: BLE001  raised again below: a group would wrap it
            failure = error
        finally:
            for task in tasks:
                task.cancel()
    if failure is not None:
        raise failure
