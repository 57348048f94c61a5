"""Calls blocking functions in threads, without leaving them running behind a cancelled caller."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def in_thread(function: Callable[[*Ts], T], *arguments: *Ts, executor: Executor | None = None) -> T:
    """Call a blocking function in a thread; when cancelled, wait until it has finished."""
    future = asyncio.get_running_loop().run_in_executor(executor, function, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        # The caller is cancelled, so the result is irrelevant.
        future.exception()
        raise
