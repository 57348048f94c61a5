"""The keys a controller has to look at: now, later, or again after a failure.

Over a `KeyedQueue`, with a controller's rules: of several delays for one key the earliest counts, work asked for now
does not cancel a delay, and each failure in a row makes the next try later.
Upstream: staging/src/k8s.io/client-go/util/workqueue.
"""

import asyncio
from collections.abc import Awaitable, Callable

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.keyed_queue import KeyedQueue
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import Conflict
from pykubelet.controllers.queue_times import QueueTimes

log = get_logger(__name__)

RETRY = Backoff(first_seconds=0.005, limit_seconds=1000)
FEW = 20
PAUSE_SECONDS_EACH = 100e-6
"""Some twenty times of what a sync takes for each pod it looks at."""


class WorkQueue:
    """Keys (`namespace/name`) to be synced; each by one worker at a time. Owned by one loop."""

    def __init__(self, retry: Backoff = RETRY) -> None:
        self._retry = retry
        self._ready: KeyedQueue[str, None] = KeyedQueue()
        self._delayed: dict[str, asyncio.TimerHandle] = {}
        self._failures: dict[str, int] = {}
        self.times = QueueTimes()

    def add(self, key: str) -> None:
        """Have the key synced as soon as a worker is free."""
        if key not in self._ready:
            self.times.added(key, asyncio.get_running_loop().time())
            self._ready.put(key, None)

    def add_after(self, key: str, seconds: float) -> None:
        """Have the key synced after a delay, or earlier if that has been asked for."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        waiting = self._delayed.get(key)
        if waiting is not None:
            if waiting.when() <= loop.time() + seconds:
                return
            waiting.cancel()
        self._delayed[key] = loop.call_later(seconds, self._due, key)

    def add_batched(self, key: str, size: int) -> None:
        """Have a key synced whose sync looks at so many objects, of which one has changed: at once if they are few.

        If not, all changes of a while are one sync. The while grows with the number of objects as the sync does, so
        that what a change costs does not.
        """
        self.add_after(key, 0 if size < FEW else size * PAUSE_SECONDS_EACH)

    async def process_next(self, sync: Callable[[str], Awaitable[None]]) -> None:
        """Wait for a key and sync it; if that fails, say so and try again later."""
        key, _ = await self._ready.get()
        loop = asyncio.get_running_loop()
        self.times.taken(key, loop.time())
        try:
            await sync(key)
        except Exception as error:  # noqa: BLE001  whatever went wrong, the next try may go well
            self._failures[key] = self._failures.get(key, 0) + 1
            # A conflict is the answer to a decision on what has changed meanwhile: nothing is wrong.
            tell = log.debug if isinstance(error, Conflict) else log.warning
            tell("sync failed", key=key, failures=self._failures[key], cause=str(error))
            self.times.retries += 1
            self.add_after(key, self._retry.delay_seconds(self._failures[key]))
        else:
            self._failures.pop(key, None)
        finally:
            self._ready.done(key)
            self.times.done(key, loop.time())

    def __contains__(self, key: object) -> bool:
        """Whether the key waits to be synced, now or later."""
        return key in self._ready or key in self._delayed

    def __len__(self) -> int:
        """How many keys may be synced at once; delayed ones do not count yet."""
        return len(self._ready)

    def _due(self, key: str) -> None:
        del self._delayed[key]
        self.add(key)
