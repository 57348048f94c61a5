"""The frame of a program that serves: its limits, and its end when it is told to stop."""

import asyncio
import gc
import os
import resource
import signal
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from pykubelet.aio.clock import Clock, SystemClock

THREADS = 512
"""So many blocking calls at once, each of which may hang on a dead file system; they are made as they are needed."""
READY_THREADS = 16
"""So many of them are there from the beginning."""
PATIENCE_SECONDS = 10.0
"""How long a program that was told to end may take."""
# Allocations that are not freed at once, a few thousand in each request or sync under way, before the first look.
_GARBAGE_THRESHOLDS = (20_000, 20, 50)

Say = Callable[[str], None]
"""Tells a person something, in a line."""
Main = Callable[[Clock, asyncio.Event], Awaitable[None]]
"""What a program does until the event is set."""


def run(main: Main) -> None:
    """Run it until SIGINT or SIGTERM."""
    asyncio.run(_until_told(main, SystemClock()))


async def _until_told(main: Main, clock: Clock) -> None:
    raise_file_limit()
    forbid_core_dumps()
    widen_threads()
    await main(clock, _told_to_stop())
    end_in_time()


def _told_to_stop() -> asyncio.Event:
    """Set by SIGINT or SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def widen_threads() -> None:
    """Have blocking calls that hang, as on a dead file system, not hold up all others."""
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="blocking")
    # Before there is work: the loop stands still while a thread starts, and on a busy machine that takes its time.
    meeting = threading.Barrier(READY_THREADS)
    for _ in range(READY_THREADS):
        threads.submit(meeting.wait)
    asyncio.get_running_loop().set_default_executor(threads)


def tune_garbage_collection() -> None:
    """Leave alone what stays for good, and look for cycles less often: documents are trees and go by themselves.

    For a program that has started.
    """
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    gc.enable()


def raise_file_limit() -> None:
    """Have as many files and connections open as the machine allows: the usual limit is for programs that use select."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Where it says that there is no limit, the kernel has one all the same and refuses; then all stays as it is.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def forbid_core_dumps() -> None:
    """Have no crash write this process' memory to disk: it holds keys, tokens and secrets of pods."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end_in_time(seconds: float = PATIENCE_SECONDS) -> None:
    """End the program soon even if a thread hangs, which nobody can stop; what containers do is not its business."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()
