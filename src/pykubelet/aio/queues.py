"""Queues for one event loop: a work queue by key, and a broadcast to bounded readers.

`KeyedQueue.put` replaces the waiting value of a key. A key that `get` returned is not returned again before `done`, so
the work of one key is ordered and never concurrent, while different keys proceed in parallel.

`Broadcast.publish` never waits: a reader that falls too far behind gets `Lagged` and must read the state again.

Upstream: staging/src/k8s.io/client-go/util/workqueue/queue.go,
staging/src/k8s.io/client-go/util/workqueue/delaying_queue.go, staging/src/k8s.io/apimachinery/pkg/watch/mux.go
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class Lagged(Exception):
    """The reader was too slow and lost values; it must read the state again."""


class Subscription(Generic[T]):
    """One reader of a broadcast."""

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
        """Wait for the next value. After `Lagged`, returns the values published from then on."""
        while not self._values and not self._lagged:
            self._wake.clear()
            await self._wake.wait()
        if self._lagged:
            self._lagged = False
            raise Lagged
        return self._values.popleft()

    def __len__(self) -> int:
        """The number of values that wait to be read."""
        return len(self._values)


class Broadcast(Generic[T]):
    """Sends each published value to the readers that are subscribed at that moment."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._subscriptions: set[Subscription[T]] = set()

    @contextmanager
    def subscribe(self) -> Iterator[Subscription[T]]:
        subscription: Subscription[T] = Subscription(self._limit)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def publish(self, value: T) -> None:
        """Send a value to every reader. Never waits."""
        for subscription in self._subscriptions:
            subscription._offer(value)  # noqa: SLF001  the two classes are one thing

    def __len__(self) -> int:
        """The number of subscribed readers."""
        return len(self._subscriptions)


class KeyedQueue(Generic[K, V]):
    """A priority queue with at most one waiting value per key."""

    def __init__(self) -> None:
        self._waiting: dict[K, tuple[int, V]] = {}
        self._tickets: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._delayed: dict[K, asyncio.TimerHandle] = {}
        self._busy: set[K] = set()
        self._count = itertools.count()
        self._idle: deque[asyncio.Future[None]] = deque()

    def put(self, key: K, value: V, *, priority: int = 0) -> None:
        """Queue a key with its newest value; the lowest priority number goes first, then the oldest.

        A waiting value is replaced and keeps its place unless the new priority is more urgent.
        """
        self._cancel_delay(key)
        if key in self._waiting:
            waiting_priority, _ = self._waiting[key]
            self._waiting[key] = (min(priority, waiting_priority), value)
            if priority >= waiting_priority:
                return
        else:
            self._waiting[key] = (priority, value)
        if key not in self._busy:
            self._enqueue(key, self._waiting[key][0])

    def put_later(self, key: K, value: V, delay_seconds: float, *, priority: int = 0) -> None:
        """Queue a key after a delay, unless it is queued before; the last call counts."""
        if key in self._waiting:
            return
        self._cancel_delay(key)
        loop = asyncio.get_running_loop()
        self._delayed[key] = loop.call_later(delay_seconds, lambda: self.put(key, value, priority=priority))

    def discard(self, key: K) -> None:
        """Drop the waiting value of a key; work in progress continues."""
        self._cancel_delay(key)
        self._waiting.pop(key, None)
        self._tickets.pop(key, None)

    async def get(self) -> tuple[K, V]:
        """Wait for the most urgent key and its value. Every `get` needs a `done`."""
        while True:
            while self._heap:
                _, ticket, key = heapq.heappop(self._heap)
                if self._tickets.get(key) == ticket:
                    del self._tickets[key]
                    self._busy.add(key)
                    return key, self._waiting.pop(key)[1]
            await self._wait_for_entry()

    def done(self, key: K) -> None:
        """Finish the work on a key that `get` returned."""
        self._busy.discard(key)
        if key in self._waiting:
            self._enqueue(key, self._waiting[key][0])

    def __len__(self) -> int:
        """The number of waiting keys, delayed ones included."""
        return len(self._waiting) + len(self._delayed)

    def __contains__(self, key: object) -> bool:
        return key in self._waiting or key in self._delayed

    def _enqueue(self, key: K, priority: int) -> None:
        # A key offered again leaves its older entry in the heap; only the entry with the current ticket counts.
        ticket = next(self._count)
        self._tickets[key] = ticket
        heapq.heappush(self._heap, (priority, ticket, key))
        self._wake_one()

    def _wake_one(self) -> None:
        # One value needs one worker.
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return

    async def _wait_for_entry(self) -> None:
        idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(idle)
        try:
            await idle
        except asyncio.CancelledError:
            if idle.cancelled():
                with suppress(ValueError):
                    self._idle.remove(idle)
            else:
                # Cancelled and woken at the same moment: wake another worker instead.
                self._wake_one()
            raise

    def _cancel_delay(self, key: K) -> None:
        if handle := self._delayed.pop(key, None):
            handle.cancel()
