"""Things that run while a test does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import pytest


class Runs(Protocol):
    """Has a background."""

    async def run(self, ready: asyncio.Event) -> None: ...


@asynccontextmanager
async def _running(thing: Runs) -> AsyncIterator[None]:
    ready = asyncio.Event()
    task = asyncio.create_task(thing.run(ready))
    await ready.wait()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.fixture(scope="session")
def running() -> Callable[[Runs], AbstractAsyncContextManager[None]]:
    """A context in which something runs; it is ready when the context begins."""
    return _running
