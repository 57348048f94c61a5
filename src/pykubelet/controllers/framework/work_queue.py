"""The rate-limited work queue of controllers, the workers that process it, and its metrics.

Delays of one key collapse to the earliest; an immediate add does not cancel a delay; each failure in a row makes the
next attempt later. Workers start once the informers have listed everything, and no two process the same key at once.

Upstream: staging/src/k8s.io/client-go/util/workqueue/rate_limiting_queue.go,
staging/src/k8s.io/client-go/util/workqueue/delaying_queue.go, staging/src/k8s.io/client-go/util/workqueue/metrics.go,
staging/src/k8s.io/component-base/metrics/prometheus/workqueue/metrics.go
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.histogram import Histogram
from pykubelet.aio.log import BUGS, get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.errors import Conflict, ServiceUnavailable
from pykubelet.client.informers import Informers

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


log = get_logger(__name__)
WORKERS = 5
"""Upstream's default for most controllers."""
_BOUNDS = tuple(10e-9 * 10**power for power in range(10))
RETRY = Backoff(first_seconds=0.005, limit_seconds=1000)
UNAVAILABLE_SECONDS = 5.0
"""The longest delay while the API server is unavailable or its disk is full: then no key is at fault."""
BATCH_THRESHOLD = 20
PAUSE_SECONDS_EACH = 100e-6
"""About twenty times what a sync takes per pod."""
_LABELS = ("name",)


class WorkQueueTimes:
    """Counters and histograms of one queue."""

    def __init__(self) -> None:
        self.adds = self.retries = 0
        self.waited, self.worked = Histogram(_BOUNDS), Histogram(_BOUNDS)
        self._added: dict[str, float] = {}
        self._taken: dict[str, float] = {}

    def added(self, key: str, now: float) -> None:
        self.adds += 1
        self._added[key] = now

    def taken(self, key: str, now: float) -> None:
        self.waited.observe(now - self._added.pop(key, now))
        self._taken[key] = now

    def done(self, key: str, now: float) -> None:
        self.worked.observe(now - self._taken.pop(key, now))

    def under_way(self, now: float) -> Iterable[float]:
        """Seconds since the start of each unfinished sync."""
        return [now - since for since in self._taken.values()]


class WorkQueue:
    """Keys (`namespace/name`) to sync, each processed by one worker at a time."""

    def __init__(self, retry: Backoff = RETRY) -> None:
        self._retry = retry
        self._ready: KeyedQueue[str, None] = KeyedQueue()
        self._delayed: dict[str, asyncio.TimerHandle] = {}
        self._failures: dict[str, int] = {}
        self.times = WorkQueueTimes()

    def add(self, key: str) -> None:
        """Enqueues a key for the next free worker."""
        if key not in self._ready:
            self.times.added(key, asyncio.get_running_loop().time())
            self._ready.put(key, None)

    def add_after(self, key: str, seconds: float) -> None:
        """Enqueues a key after a delay, unless an earlier delay is pending."""
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
        """Enqueues a key whose sync reads `size` objects, of which one has changed: immediately if they are few.

        Otherwise changes are collected into one sync. The delay grows with the number of objects, as the sync does, so
        that the cost per change stays constant.
        """
        self.add_after(key, 0 if size < BATCH_THRESHOLD else size * PAUSE_SECONDS_EACH)

    async def process_next(self, sync: Callable[[str], Awaitable[None]]) -> None:
        """Waits for a key and syncs it; a failure is logged and the key is retried with backoff."""
        key, _ = await self._ready.get()
        loop = asyncio.get_running_loop()
        self.times.taken(key, loop.time())
        try:
            await sync(key)
        except Exception as error:  # noqa: BLE001  any failure is retried
            self._failures[key] = self._failures.get(key, 0) + 1
            facts = {"key": key, "failures": self._failures[key], "cause": str(error)}
            if isinstance(error, BUGS):
                log.error("sync failed", error=error, **facts)
            else:
                # A conflict only means that the object has changed since it was read.
                write_log = log.debug if isinstance(error, Conflict) else log.warning
                write_log("sync failed", **facts)
            self.times.retries += 1
            delay = self._retry.delay_seconds(self._failures[key])
            self.add_after(key, min(delay, UNAVAILABLE_SECONDS) if isinstance(error, ServiceUnavailable) else delay)
        else:
            self._failures.pop(key, None)
        finally:
            self._ready.done(key)
            self.times.done(key, loop.time())

    def __contains__(self, key: object) -> bool:
        """Whether the key is enqueued, now or with a delay."""
        return key in self._ready or key in self._delayed

    def __len__(self) -> int:
        """The number of keys ready to sync; delayed keys do not count."""
        return len(self._ready)

    def _due(self, key: str) -> None:
        del self._delayed[key]
        self.add(key)


class WorkQueueCollector:
    """Prometheus collector of the registered work queues."""

    def __init__(self) -> None:
        self._queues: dict[str, WorkQueue] = {}

    def add(self, name: str, queue: WorkQueue) -> None:
        """Registers a queue; a later one of the same name, after a change of leader, replaces it."""
        self._queues[name] = queue

    def collect(self) -> "Iterator[Metric]":
        """Yields the metrics; must run in the loop that owns the queues."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        queues, now = self._queues, asyncio.get_running_loop().time()
        adds = CounterMetricFamily("workqueue_adds_total", "Keys added to the queue.", labels=_LABELS)
        retries = CounterMetricFamily("workqueue_retries_total", "Failed syncs that are retried.", labels=_LABELS)
        for name, queue in queues.items():
            adds.add_metric((name,), queue.times.adds)
            retries.add_metric((name,), queue.times.retries)
        yield from (adds, retries)
        gauges: tuple[tuple[str, str, Callable[[WorkQueue], float]], ...] = (
            ("workqueue_depth", "Keys waiting to be synced.", len),
            (
                "workqueue_unfinished_work_seconds",
                "Seconds that all running syncs have taken so far.",
                lambda queue: sum(queue.times.under_way(now)),
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "Seconds that the longest running sync has taken so far.",
                lambda queue: max(queue.times.under_way(now), default=0.0),
            ),
        )
        for metric, what, number in gauges:
            gauge = GaugeMetricFamily(metric, what, labels=_LABELS)
            for name, queue in queues.items():
                gauge.add_metric((name,), number(queue))
            yield gauge
        waited = HistogramMetricFamily(
            "workqueue_queue_duration_seconds", "Seconds that keys wait in the queue.", labels=_LABELS
        )
        worked = HistogramMetricFamily("workqueue_work_duration_seconds", "Seconds that syncs take.", labels=_LABELS)
        for name, queue in queues.items():
            for family, found in ((waited, queue.times.waited), (worked, queue.times.worked)):
                family.add_metric((name,), buckets=found.buckets, sum_value=found.sum)
        yield from (waited, worked)


class KeyedController:
    """A controller whose workers sync the keys of one queue."""

    queue: WorkQueue

    def listen(self, informers: Informers, /) -> None:
        """Subscribes to the kinds whose changes lead to a sync."""
        raise NotImplementedError

    async def sync(self, key: str, /) -> None:
        """Reconciles one key. Raises what went wrong, so that the key is retried; never runs twice at once for a key."""
        raise NotImplementedError

    async def process_next(self) -> None:
        """Syncs the next key of the queue; failed keys are retried with backoff."""
        await self.queue.process_next(self.sync)


class ControllerWorkers:
    """Runs `process_next` of one controller in several tasks."""

    def __init__(
        self, *, name: str, process_next: Callable[[], Awaitable[None]], informed: asyncio.Event, workers: int = WORKERS
    ) -> None:
        """`informed` is set once the informers have listed everything."""
        self._name, self._process_next, self._informed, self._workers = name, process_next, informed, workers

    async def run(self, ready: asyncio.Event) -> None:
        """Runs the workers until cancelled; sets `ready` when they start."""
        await self._informed.wait()
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                start_supervised(group, f"{self._name} worker {number}", self._work)
            ready.set()

    async def _work(self) -> None:
        while True:
            await self._process_next()
