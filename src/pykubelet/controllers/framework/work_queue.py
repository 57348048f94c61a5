"""The keys a controller has to look at: now, later, or again after a failure.

Over a `KeyedQueue`, with a controller's rules: of several delays for one key the earliest counts, work asked for now
does not cancel a delay, and each failure in a row makes the next try later.
Upstream: staging/src/k8s.io/client-go/util/workqueue.

The work queues of controllers as metrics with Kubernetes' own names. A collector.

Upstream: staging/src/k8s.io/component-base/metrics/prometheus/workqueue/metrics.go

How long keys wait in a work queue, and how long their syncs take.

Pure: times are passed in. Upstream: staging/src/k8s.io/client-go/util/workqueue/metrics.go

Runs a controller: workers take keys off its queue, once everything it looks at has been listed.

In: a controller, which puts keys into its queue when it hears of changes. Out: its `process_next`, over and over, by
several workers; the queue sees to it that no two have the same key.
Upstream: Run in any of pkg/controller.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.histogram import Histogram
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.errors import Conflict

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

WORKERS = 5
"""Upstream's, for most controllers."""


class ControllerWorkers:
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


_BOUNDS = tuple(10e-9 * 10**power for power in range(10))


class WorkQueueTimes:
    """What was measured of one queue; recording is a few dict operations."""

    def __init__(self) -> None:
        self.adds = self.retries = 0
        self.waited, self.worked = Histogram(_BOUNDS), Histogram(_BOUNDS)
        self._added: dict[str, float] = {}
        self._taken: dict[str, float] = {}

    def added(self, key: str, now: float) -> None:
        """A key begins to wait."""
        self.adds += 1
        self._added[key] = now

    def taken(self, key: str, now: float) -> None:
        """Its sync begins."""
        self.waited.observe(now - self._added.pop(key, now))
        self._taken[key] = now

    def done(self, key: str, now: float) -> None:
        """Its sync has ended."""
        self.worked.observe(now - self._taken.pop(key, now))

    def under_way(self, now: float) -> Iterable[float]:
        """How long the syncs that have not ended have been going on."""
        return [now - since for since in self._taken.values()]


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
        self.times = WorkQueueTimes()

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


_LABELS = ("name",)


class WorkQueueCollector:
    """Tells of the queues that were added."""

    def __init__(self) -> None:
        self._queues: dict[str, WorkQueue] = {}

    def add(self, name: str, queue: WorkQueue) -> None:
        """Tell of a queue; a later one of the same name, as after a change of leaders, takes its place."""
        self._queues[name] = queue

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for, in the loop that owns the queues."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        queues, now = self._queues, asyncio.get_running_loop().time()
        adds = CounterMetricFamily("workqueue_adds_total", "Keys put into the queue.", labels=_LABELS)
        retries = CounterMetricFamily(
            "workqueue_retries_total", "Syncs that failed and are tried again.", labels=_LABELS
        )
        for name, queue in queues.items():
            adds.add_metric((name,), queue.times.adds)
            retries.add_metric((name,), queue.times.retries)
        yield from (adds, retries)
        gauges: tuple[tuple[str, str, Callable[[WorkQueue], float]], ...] = (
            ("workqueue_depth", "Keys that wait.", len),
            (
                "workqueue_unfinished_work_seconds",
                "How long syncs under way have gone on, all together.",
                lambda queue: sum(queue.times.under_way(now)),
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "How long the oldest sync under way has gone on.",
                lambda queue: max(queue.times.under_way(now), default=0.0),
            ),
        )
        for metric, what, number in gauges:
            gauge = GaugeMetricFamily(metric, what, labels=_LABELS)
            for name, queue in queues.items():
                gauge.add_metric((name,), number(queue))
            yield gauge
        waited = HistogramMetricFamily("workqueue_queue_duration_seconds", "How long keys wait.", labels=_LABELS)
        worked = HistogramMetricFamily("workqueue_work_duration_seconds", "How long syncs take.", labels=_LABELS)
        for name, queue in queues.items():
            for family, found in ((waited, queue.times.waited), (worked, queue.times.worked)):
                family.add_metric((name,), buckets=found.buckets, sum_value=found.sum)
        yield from (waited, worked)
