"""Runs the long-lived parts of a program: named, supervised, all for as long as a context lasts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from pykubelet.aio.supervise import start_supervised

Runner = Callable[[], Awaitable[None]]
"""Runs until it is cancelled."""


def with_event(run: Callable[[asyncio.Event], Awaitable[None]], ready: asyncio.Event | None = None) -> Runner:
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
