"""Work by key: the newest value wins, one worker per key, delays and priorities.

`put` replaces what waits under the same key. A key that was handed out by `get` is not handed out again before
`done`; what is put meanwhile waits for that. So each key's work happens in order and never twice at once, and many
keys go on side by side. Owned by one loop; not for threads.

Fan one stream out to many readers, each bounded; a slow reader is told to start over.

A publisher never waits and never drops silently: a reader that falls `limit` values behind gets `Lagged` and must
read the state anew before it goes on.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


K = TypeVar("K")
V = TypeVar("V")


class KeyedQueue(Generic[K, V]):
    """A queue of at most one value per key."""

    def __init__(self) -> None:
        self._waiting: dict[K, tuple[int, V]] = {}
        self._tickets: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._delayed: dict[K, asyncio.TimerHandle] = {}
        self._busy: set[K] = set()
        self._count = itertools.count()
        self._idle: deque[asyncio.Future[None]] = deque()

    def put(self, key: K, value: V, *, priority: int = 0) -> None:
        """Have `key` worked on with `value`, now; the lowest priority number goes first, then the oldest.

        A value that waits already is replaced; it keeps its place unless the new priority is more urgent.
        """
        self._forget_delay(key)
        if key in self._waiting:
            waiting_priority, _ = self._waiting[key]
            self._waiting[key] = (min(priority, waiting_priority), value)
            if priority >= waiting_priority:
                return
        else:
            self._waiting[key] = (priority, value)
        if key not in self._busy:
            self._offer(key, self._waiting[key][0])

    def put_later(self, key: K, value: V, delay_seconds: float, *, priority: int = 0) -> None:
        """Have `key` worked on after a delay, unless something is put for it before; the last call counts."""
        if key in self._waiting:
            return
        self._forget_delay(key)
        loop = asyncio.get_running_loop()
        self._delayed[key] = loop.call_later(delay_seconds, lambda: self.put(key, value, priority=priority))

    def discard(self, key: K) -> None:
        """Drop what waits under `key`, if anything; work under way goes on."""
        self._forget_delay(key)
        self._waiting.pop(key, None)
        self._tickets.pop(key, None)

    async def get(self) -> tuple[K, V]:
        """The most urgent key and its value; waits for one. Every get needs its `done`."""
        while True:
            while self._heap:
                _, ticket, key = heapq.heappop(self._heap)
                if self._tickets.get(key) == ticket:
                    del self._tickets[key]
                    self._busy.add(key)
                    return key, self._waiting.pop(key)[1]
            await self._next_offer()

    def done(self, key: K) -> None:
        """Say that the work on a key handed out by `get` is over."""
        self._busy.discard(key)
        if key in self._waiting:
            self._offer(key, self._waiting[key][0])

    def __len__(self) -> int:
        """How many keys wait, delayed ones included."""
        return len(self._waiting) + len(self._delayed)

    def __contains__(self, key: object) -> bool:
        return key in self._waiting or key in self._delayed

    def _offer(self, key: K, priority: int) -> None:
        # A key offered again leaves its older entry in the heap; the ticket tells which one counts.
        ticket = next(self._count)
        self._tickets[key] = ticket
        heapq.heappush(self._heap, (priority, ticket, key))
        self._wake_one()

    def _wake_one(self) -> None:
        # Not all: of many that wait for work one can have it.
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return

    async def _next_offer(self) -> None:
        idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(idle)
        try:
            await idle
        except asyncio.CancelledError:
            if idle.cancelled():
                with suppress(ValueError):
                    self._idle.remove(idle)
            else:
                # Woken in the same moment: another has to take what there is.
                self._wake_one()
            raise

    def _forget_delay(self, key: K) -> None:
        if handle := self._delayed.pop(key, None):
            handle.cancel()
