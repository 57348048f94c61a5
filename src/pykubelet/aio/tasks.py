"""Long-lived tasks: named, supervised, restarted after a crash with backoff.

A failing child of a TaskGroup cancels its siblings, and on Python 3.11 a child of an inner group must not raise. So
every long-lived coroutine runs under `supervise`, which lets out only cancellation and the final failure.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/wait/backoff.go,
staging/src/k8s.io/apimachinery/pkg/util/runtime/runtime.go
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.log import get_logger

log = get_logger(__name__)

RESTART = Backoff(first_seconds=0.1, limit_seconds=30, jitter=0.5)
"""The delays between restarts of a crashing task."""
Runner = Callable[[], Awaitable[None]]
"""The main coroutine of a long-lived part; runs until cancelled."""


@asynccontextmanager
async def background_task(coroutine: Coroutine[Any, Any, None], name: str) -> AsyncIterator[asyncio.Task[None]]:
    """Runs a coroutine for the duration of a `with` block and cancels it at the end.

    Exceptions raised in the block propagate unwrapped, not as an ExceptionGroup. The coroutine itself must not raise.
    """
    group = asyncio.TaskGroup()
    await group.__aenter__()
    task = group.create_task(coroutine, name=name)
    try:
        yield task
    finally:
        task.cancel()
        await group.__aexit__(None, None, None)


class GaveUpError(RuntimeError):
    """A supervised task crashed too often; the program ends with this error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLimit:
    """A supervisor gives up after more than `crashes` crashes within `within_seconds`."""

    crashes: int = 20
    within_seconds: float = 300.0


UNLIMITED_RESTARTS = RestartLimit(crashes=2**62)
"""Restart for ever: the work on one pod must not end the node."""


async def supervise(
    name: str,
    start: Callable[[], Awaitable[object]],
    *,
    limit: RestartLimit = UNLIMITED_RESTARTS,
    backoff: Backoff = RESTART,
) -> None:
    """Run `start()` until it returns; log a crash, wait, and start it again.

    Cancellation propagates at once. After `limit.within_seconds` without a crash the delays start over.
    """
    loop = asyncio.get_running_loop()
    retries = Retries(backoff)
    crashes: list[float] = []
    while True:
        try:
            await start()
        except Exception as error:
            now = loop.time()
            crashes = [at for at in crashes if now - at <= limit.within_seconds]
            if not crashes:
                retries.reset()
            crashes.append(now)
            if len(crashes) > limit.crashes:
                log.error("task crashed too often", error=error, task=name, crashes=len(crashes))
                raise GaveUpError(f"{name} crashed {len(crashes)} times in {limit.within_seconds:g} s") from error
            delay = retries.next_delay_seconds()
            log.error("task crashed", error=error, task=name, restart_in_seconds=round(delay, 3))
            # Bounds the memory of a task that is restarted for ever.
            del crashes[:-64]
            await asyncio.sleep(delay)
        else:
            return


def start_supervised(
    group: asyncio.TaskGroup,
    name: str,
    start: Callable[[], Awaitable[object]],
    *,
    limit: RestartLimit = UNLIMITED_RESTARTS,
) -> asyncio.Task[None]:
    """Start a named, supervised task in a group."""
    return group.create_task(supervise(name, start, limit=limit), name=name)


def with_ready_event(run: Callable[[asyncio.Event], Awaitable[None]], ready: asyncio.Event | None = None) -> Runner:
    """The runner of a part whose `run` sets an event when it is ready."""
    event = ready or asyncio.Event()
    return lambda: run(event)


@asynccontextmanager
async def running(runners: Mapping[str, Runner]) -> AsyncIterator[None]:
    """Run supervised tasks for the duration of the context."""
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
