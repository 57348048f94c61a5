"""Runs the long-lived parts of a program: named, supervised, all for as long as a context lasts."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from pykubelet.aio.supervise import start_supervised

THREADS = 512
"""So many blocking calls at once, each of which may hang on a dead file system; they are made as they are needed."""
PATIENCE_SECONDS = 10.0
"""How long a program that was told to end may take."""

Runner = Callable[[], Awaitable[None]]
"""Runs until it is cancelled."""


def with_event(run: Callable[[asyncio.Event], Awaitable[None]], ready: asyncio.Event | None = None) -> Runner:
    """A part that says when it is ready: by this event, or by one that nobody waits for."""
    event = ready or asyncio.Event()
    return lambda: run(event)


def told_to_stop() -> asyncio.Event:
    """Set by SIGINT or SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


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


def widen_threads() -> None:
    """Have blocking calls that hang, as on a dead file system, not hold up all others."""
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="blocking")
    asyncio.get_running_loop().set_default_executor(threads)


def end_in_time(seconds: float = PATIENCE_SECONDS) -> None:
    """End the program soon even if a thread hangs, which nobody can stop; what containers do is not its business."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()
