"""Runs a controller: workers take keys off its queue, once everything it looks at has been listed.

In: a controller, which puts keys into its queue when it hears of changes. Out: its `process_next`, over and over, by
several workers; the queue sees to it that no two have the same key.
Upstream: Run in any of pkg/controller.
"""

import asyncio
from collections.abc import Awaitable, Callable

from pykubelet.aio.supervise import start_supervised

WORKERS = 5
"""Upstream's, for most controllers."""


class ControllerLoop:
    """One controller at work."""

    def __init__(
        self, *, name: str, process_next: Callable[[], Awaitable[None]], informed: asyncio.Event, workers: int = WORKERS
    ) -> None:
        """`informed` is set once the informers have listed everything."""
        self._name, self._process_next, self._informed, self._workers = name, process_next, informed, workers

    async def run(self, ready: asyncio.Event) -> None:
        """Work until cancelled; `ready` is set when work begins."""
        await self._informed.wait()
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                start_supervised(group, f"{self._name} worker {number}", self._work)
            ready.set()

    async def _work(self) -> None:
        while True:
            await self._process_next()
