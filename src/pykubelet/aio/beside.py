"""A task that runs beside what its starter does, and ends with it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def beside(coroutine: Coroutine[Any, Any, None], name: str) -> AsyncIterator[asyncio.Task[None]]:
    """Runs what never raises while the context lasts; what the context raises comes out as it is, in no group."""
    group = asyncio.TaskGroup()
    await group.__aenter__()
    task = group.create_task(coroutine, name=name)
    try:
        yield task
    finally:
        task.cancel()
        await group.__aexit__(None, None, None)
