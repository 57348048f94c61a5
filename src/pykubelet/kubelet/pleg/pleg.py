"""Keeps the pod cache current and emits pod lifecycle events.

Inspects a pod when the runtime's change feed or one of our own operations hints at a change, and relists everything now
and then as a safety net. A hint only says which pod to inspect; the result of the inspection counts. Events of one pod
are merged until they are read, so a slow reader loses nothing. An inspection that fails or hangs affects only its own
pod. Upstream lists all containers every second.

Only one task writes a pod's entry in the cache; any task may read it. A Moment is a number that only grows, not a time: an
inspection that began after a sync has a higher one, however coarse the clock is. Pods without containers take no space.

Upstream: pkg/kubelet/pleg/generic.go, pkg/kubelet/pleg/pleg.go, pkg/kubelet/container/cache.go,
pkg/kubelet/metrics/metrics.go
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NewType

from pykubelet.aio.clock import Clock
from pykubelet.aio.histogram import Histogram
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid
from pykubelet.api.times import format_duration
from pykubelet.runtimes.protocol import ChangeFeed, ContainerState, Runtime, RuntimeFailure, RuntimePod

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

log = get_logger(__name__)

Moment = NewType("Moment", int)
"""A position in the order of inspections."""

BEGINNING = Moment(0)
"""Before every inspection."""


@dataclass(frozen=True, slots=True)
class CachedStatus:
    """The result of one inspection of a pod: its state (None if there is nothing), or the failure."""

    began: Moment
    result: RuntimePod | RuntimeFailure | None


class PodCache:
    """The result of the last inspection of each pod."""

    def __init__(self) -> None:
        self._last = BEGINNING
        self._entries: dict[PodUid, CachedStatus] = {}
        self._waiting: dict[PodUid, set[asyncio.Future[CachedStatus]]] = {}

    def moment(self) -> Moment:
        """Now: inspections that begin later are newer."""
        return self._last

    def begin(self) -> Moment:
        """Record the start of an inspection; the moment to pass to `put`."""
        self._last = Moment(self._last + 1)
        return self._last

    def put(self, uid: PodUid, status: CachedStatus) -> None:
        """Store the result of an inspection, unless a newer one is stored, and wake the waiting readers."""
        known = self._entries.get(uid)
        if known is not None and known.began > status.began:
            return
        if status.result is None:
            self._entries.pop(uid, None)
        else:
            self._entries[uid] = status
        for waiting in self._waiting.get(uid, ()):
            if not waiting.done():
                waiting.set_result(status)

    def get(self, uid: PodUid) -> RuntimePod:
        """The state of a pod, empty if the runtime has nothing; RuntimeFailure if the last inspection failed."""
        status = self._entries.get(uid)
        return _unwrap(uid, status.result if status is not None else None)

    def is_newer(self, uid: PodUid, moment: Moment) -> bool:
        """Whether the last inspection of a pod began after a moment."""
        status = self._entries.get(uid)
        return status is not None and status.began > moment

    async def newer_than(self, uid: PodUid, moment: Moment) -> RuntimePod:
        """Like `get`, but waits for an inspection that began after a moment. Does not start one."""
        status = self._entries.get(uid)
        while status is None or status.began <= moment:
            status = await self._next_status(uid)
        return _unwrap(uid, status.result)

    async def until(self, uid: PodUid, is_reached: Callable[[RuntimePod], bool]) -> None:
        """Wait until the state of a pod satisfies a condition; ignores failed inspections."""
        status = self._entries.get(uid)
        while True:
            result = status.result if status is not None else None
            if not isinstance(result, RuntimeFailure) and is_reached(_unwrap(uid, result)):
                return
            status = await self._next_status(uid)

    def __iter__(self) -> Iterator[PodUid]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    async def _next_status(self, uid: PodUid) -> CachedStatus:
        waiting: asyncio.Future[CachedStatus] = asyncio.get_running_loop().create_future()
        others = self._waiting.setdefault(uid, set())
        others.add(waiting)
        try:
            return await waiting
        finally:
            others.discard(waiting)
            if not others:
                self._waiting.pop(uid, None)


def _unwrap(uid: PodUid, result: RuntimePod | RuntimeFailure | None) -> RuntimePod:
    if isinstance(result, RuntimeFailure):
        raise RuntimeFailure(result.message, reason=result.reason, retry_at=result.retry_at) from result
    return result if result is not None else RuntimePod(uid=uid, namespace="", name="")


class PodLifecycleEventType(StrEnum):
    """Upstream's event types. CHANGED only triggers an inspection and is not reported."""

    STARTED = "ContainerStarted"
    DIED = "ContainerDied"
    REMOVED = "ContainerRemoved"
    CHANGED = "ContainerChanged"


@dataclass(frozen=True, slots=True)
class PodLifecycleEvent:
    """A state change of one container or sandbox."""

    kind: PodLifecycleEventType
    container_id: str


def compute_events(old: RuntimePod | None, new: RuntimePod | None) -> tuple[PodLifecycleEvent, ...]:
    """The events between two states of a pod; None is a pod without containers. A ready sandbox counts as running."""
    before, after = _states(old), _states(new)
    return tuple(
        PodLifecycleEvent(kind, container_id)
        for container_id in before | after
        for kind in _kinds(before.get(container_id), after.get(container_id))
    )


def _states(pod: RuntimePod | None) -> dict[str, ContainerState]:
    if pod is None:
        return {}
    containers = {container.id: container.state for container in pod.containers}
    sandboxes = {one.id: ContainerState.RUNNING if one.is_ready else ContainerState.EXITED for one in pod.sandboxes}
    return containers | sandboxes


def _kinds(old: ContainerState | None, new: ContainerState | None) -> tuple[PodLifecycleEventType, ...]:
    if new is None:
        removed = (PodLifecycleEventType.REMOVED,)
        return removed if old == ContainerState.EXITED else (PodLifecycleEventType.DIED, *removed)
    if new in {ContainerState.RUNNING, ContainerState.EXITED}:
        kind = PodLifecycleEventType.STARTED if new == ContainerState.RUNNING else PodLifecycleEventType.DIED
        return () if old == new else (kind,)
    # Created and unknown are treated alike: neither has consequences before an inspection.
    return () if old in {ContainerState.CREATED, ContainerState.UNKNOWN} else (PodLifecycleEventType.CHANGED,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelistPolicy:
    """How often to relist, without and with a change feed, and how to inspect pods."""

    relist_seconds: float = 1.0
    relist_with_feed_seconds: float = 60.0
    retry_seconds: float = 1.0
    unhealthy_after_seconds: float = 180.0
    inspect_timeout_seconds: float = 120.0
    parallel_inspections: int = 16


@dataclass(frozen=True, slots=True)
class PodLifecycleChanges:
    """The events of one pod since its events were last read."""

    uid: PodUid
    changes: tuple[PodLifecycleEvent, ...]


class PodLifecycleEventGenerator:
    """The PLEG: inspects pods, owns the content of the cache, collects events. `run` must be running."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        clock: Clock,
        feed: ChangeFeed | None = None,
        cache: PodCache | None = None,
        policy: RelistPolicy | None = None,
    ) -> None:
        self._runtime, self._clock, self._feed = runtime, clock, feed
        self.cache = cache if cache is not None else PodCache()
        self._policy = policy or RelistPolicy()
        self.relists = RelistMetrics()
        self._hints: KeyedQueue[PodUid, None] = KeyedQueue()
        self._seen: dict[PodUid, RuntimePod] = {}
        self._listed: dict[PodUid, RuntimePod] = {}
        self._listed_by_name: dict[tuple[str, str], list[RuntimePod]] = {}
        self._pending: dict[PodUid, dict[PodLifecycleEvent, None]] = {}
        self._has_pending = asyncio.Event()
        self._relist_now = asyncio.Event()
        self._relisted_at: float | None = None
        # A failure that lasts is logged once.
        self._last_relist_succeeded = True
        self._unreadable: set[PodUid] = set()

    def hint(self, uid: PodUid) -> None:
        """Queue the inspection of a pod; never waits. Hints for a pod that is already queued have no effect."""
        self._hints.put(uid, None)

    async def newer_than(self, uid: PodUid, moment: Moment) -> RuntimePod:
        """The state of a pod from an inspection that began after a moment of `cache.moment`."""
        if not self.cache.is_newer(uid, moment):
            self.hint(uid)
        return await self.cache.newer_than(uid, moment)

    async def next_changes(self) -> PodLifecycleChanges:
        """The events of the pod that has been pending longest; waits if there are none."""
        while not self._pending:
            self._has_pending.clear()
            await self._has_pending.wait()
        uid = next(iter(self._pending))
        return PodLifecycleChanges(uid, tuple(self._pending.pop(uid)))

    def has_no_containers_of(self, uid: PodUid) -> bool:
        """Whether the runtime had nothing of a pod at the last relist and inspection."""
        return self._relisted_at is not None and uid not in self._listed and uid not in self._seen

    def namesakes(self, pod: Pod) -> tuple[RuntimePod, ...]:
        """What the runtime had of other pods with the pod's name at the last relist, as last inspected."""
        meta = pod.metadata
        found = self._listed_by_name.get((meta.namespace, meta.name), ())
        return tuple(self._seen.get(one.uid, one) for one in found if one.uid != meta.uid)

    def health_error(self) -> str | None:
        """Why the PLEG is unhealthy, for the node's Ready condition; None if it is healthy."""
        if self._relisted_at is None:
            return "pleg has yet to be successful"
        elapsed, limit = self._clock.monotonic() - self._relisted_at, self._policy.unhealthy_after_seconds
        if elapsed <= limit:
            return None
        return f"pleg was last seen active {format_duration(elapsed)} ago; threshold is {format_duration(limit)}"

    async def run(self, ready: asyncio.Event) -> None:
        """Relist, inspect and follow the feed until cancelled; ready after the first relist."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._policy.parallel_inspections):
                start_supervised(group, f"pod inspection {number + 1}", self._inspect_hinted)
            if self._feed is not None:
                feed = self._feed
                start_supervised(group, "runtime change feed", lambda: self._follow(feed))
            start_supervised(group, "runtime relist", lambda: self._relist_forever(ready))

    async def _follow(self, feed: ChangeFeed) -> None:
        try:
            async for uid in feed.changes():
                self.hint(uid)
            raise RuntimeFailure("the runtime ended its change feed")
        finally:
            # A relist finds what changed while the feed was down.
            self._relist_now.set()

    async def _relist_forever(self, ready: asyncio.Event) -> None:
        period = self._policy.relist_seconds if self._feed is None else self._policy.relist_with_feed_seconds
        while True:
            self._relist_now.clear()
            if await self._relist():
                ready.set()
            try:
                async with asyncio.timeout(period if ready.is_set() else self._policy.retry_seconds):
                    await self._relist_now.wait()
            except TimeoutError:
                pass

    async def _relist(self) -> bool:
        began_at, began = self._clock.now(), self._clock.monotonic()
        self.relists.began(began)
        try:
            listed = {pod.uid: pod for pod in await self._runtime.pods()}
        except RuntimeFailure as failure:
            (log.warning if self._last_relist_succeeded else log.debug)("runtime not listed", cause=failure.message)
            self._last_relist_succeeded = False
            self.relists.ended(self._clock.monotonic(), None)
            return False
        self.relists.ended(self._clock.monotonic(), began_at)
        self._relisted_at, self._last_relist_succeeded, self._listed = began, True, listed
        self._listed_by_name = {}
        for one in listed.values():
            self._listed_by_name.setdefault((one.namespace, one.name), []).append(one)
        for uid in listed | self._seen:
            if compute_events(self._seen.get(uid), listed.get(uid)):
                self.hint(uid)
        return True

    async def _inspect_hinted(self) -> None:
        while True:
            uid, _ = await self._hints.get()
            try:
                await self._inspect(uid)
            finally:
                self._hints.done(uid)

    async def _inspect(self, uid: PodUid) -> None:
        began = self.cache.begin()
        try:
            async with asyncio.timeout(self._policy.inspect_timeout_seconds):
                found = await self._runtime.inspect(uid)
        except (RuntimeFailure, TimeoutError) as error:
            failure = error if isinstance(error, RuntimeFailure) else RuntimeFailure("the runtime does not answer")
            (log.debug if uid in self._unreadable else log.warning)(
                "pod not inspected", pod_uid=uid, cause=failure.message
            )
            self._unreadable.add(uid)
            self.cache.put(uid, CachedStatus(began, failure))
            # The last successful inspection stays the base of comparison, so no event is lost.
            self._hints.put_later(uid, None, self._policy.retry_seconds)
            return
        self._unreadable.discard(uid)
        self.cache.put(uid, CachedStatus(began, found))
        self._report(uid, compute_events(self._seen.get(uid), found))
        if found is None:
            self._seen.pop(uid, None)
        else:
            self._seen[uid] = found

    def _report(self, uid: PodUid, events: tuple[PodLifecycleEvent, ...]) -> None:
        reported = [event for event in events if event.kind != PodLifecycleEventType.CHANGED]
        if reported:
            self._pending.setdefault(uid, {}).update(dict.fromkeys(reported))
            self._has_pending.set()


class RelistMetrics:
    """Prometheus collector for the duration of relists and the interval between them."""

    def __init__(self) -> None:
        self._took, self._between = Histogram(), Histogram()
        self._began: float | None = None
        self._last_seen: datetime | None = None

    def began(self, monotonic: float) -> None:
        if self._began is not None:
            self._between.observe(monotonic - self._began)
        self._began = monotonic

    def ended(self, monotonic: float, listed_at: datetime | None) -> None:
        """Record the end of a relist of the state at `listed_at`; None if it failed."""
        assert self._began is not None
        self._took.observe(monotonic - self._began)
        self._last_seen = listed_at or self._last_seen

    def collect(self) -> "Iterator[Metric]":
        """Yield the metrics to prometheus_client."""
        from prometheus_client.metrics_core import GaugeMetricFamily, HistogramMetricFamily

        for name, what, histogram in (
            ("kubelet_pleg_relist_duration_seconds", "How long it took to list all containers.", self._took),
            ("kubelet_pleg_relist_interval_seconds", "From one list to the next.", self._between),
        ):
            yield HistogramMetricFamily(name, what, buckets=histogram.buckets, sum_value=histogram.sum)
        if self._last_seen is not None:
            yield GaugeMetricFamily(
                "kubelet_pleg_last_seen_seconds", "When all was last listed.", self._last_seen.timestamp()
            )
