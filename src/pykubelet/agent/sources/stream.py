"""The ordered stream of updates between PodConfig and the loop.

Many may push, one reads. Pushing never waits, so that the updates of one merge stay together without a lock; instead
a source waits for room before it merges the next message. That holds the stream at its limit plus what one merge
adds.

Upstream: the updates channel of pkg/kubelet/config/config.go.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

from pykubelet.agent.flow import PodUpdate

LIMIT = 50
"""Upstream's capacity: a burst of watch events passes, a stuck loop stops its sources soon."""


class UpdateStream:
    """Updates in the order of their merges; iterate to take them out. It never ends."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._updates: deque[PodUpdate] = deque()
        self._limit = limit
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def push(self, updates: Iterable[PodUpdate]) -> None:
        """Append updates, at once and whatever the limit."""
        self._updates.extend(updates)
        self._note()

    async def wait_for_room(self) -> None:
        """Return when fewer updates wait than the limit; whoever pushes should ask first."""
        while len(self._updates) >= self._limit:
            await self._room.wait()

    def __len__(self) -> int:
        return len(self._updates)

    def __aiter__(self) -> AsyncIterator[PodUpdate]:
        return self

    async def __anext__(self) -> PodUpdate:
        while not self._updates:
            await self._filled.wait()
        update = self._updates.popleft()
        self._note()
        return update

    def _note(self) -> None:
        for event, holds in ((self._filled, bool(self._updates)), (self._room, len(self._updates) < self._limit)):
            if holds:
                event.set()
            else:
                event.clear()
