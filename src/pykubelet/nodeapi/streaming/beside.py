"""A task that runs beside what its starter does, and ends with it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def beside(coroutine: Coroutine[Any, Any, None], name: str) -> AsyncIterator[asyncio.Task[None]]:
    """Runs what never raises while the context lasts; a ConnectionError in the context comes out as it is."""
    lost: ConnectionError | None = None
    async with asyncio.TaskGroup() as group:
        task = group.create_task(coroutine, name=name)
        try:
            yield task
        except ConnectionError as error:
            # Out of the group it would come wrapped.
            lost = error
        task.cancel()
    if lost is not None:
        raise lost
