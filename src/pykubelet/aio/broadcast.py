"""Fan one stream out to many readers, each bounded; a slow reader is told to start over.

A publisher never waits and never drops silently: a reader that falls `limit` values behind gets `Lagged` and must
read the state anew before it goes on.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Lagged(Exception):
    """The reader was too slow: values were lost, and the state must be read anew."""


class Subscription(Generic[T]):
    """One reader's view of a broadcast."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: deque[T] = deque()
        self._lagged = False
        self._wake = asyncio.Event()

    def _offer(self, value: T) -> None:
        if len(self._values) >= self._limit:
            self._values.clear()
            self._lagged = True
        if not self._lagged:
            self._values.append(value)
        self._wake.set()

    async def next(self) -> T:
        """The next value; waits for it. After `Lagged` the values published from then on follow."""
        while not self._values and not self._lagged:
            self._wake.clear()
            await self._wake.wait()
        if self._lagged:
            self._lagged = False
            raise Lagged
        return self._values.popleft()

    def __len__(self) -> int:
        """How many values wait."""
        return len(self._values)


class Broadcast(Generic[T]):
    """A stream of values without memory: a reader sees what is published while it is subscribed."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._subscriptions: set[Subscription[T]] = set()

    @contextmanager
    def subscribe(self) -> Iterator[Subscription[T]]:
        """A reader for as long as the context lasts."""
        subscription: Subscription[T] = Subscription(self._limit)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def publish(self, value: T) -> None:
        """Hand a value to every reader; never waits."""
        for subscription in self._subscriptions:
            subscription._offer(value)  # noqa: SLF001  the two classes are one thing

    def __len__(self) -> int:
        """How many readers there are."""
        return len(self._subscriptions)
