"""Runs background components during a test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import pytest


class Runs(Protocol):
    """A component with a background task."""

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
    """Runs a component for the duration of a context, which starts once it is ready."""
    return _running
