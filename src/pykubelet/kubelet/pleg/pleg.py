"""Keeps the pod cache true: looks at a pod when something hints at a change, at all now and then.

In: hints from the runtime's change feed, from whoever did something to a pod, and from a slow relist that finds what
no one hinted at. Out: the cache, and per pod what happened, as hints for the sync loop. A hint only says whom to look
at; what counts is what the look finds. Changes of one pod that nobody has taken yet are kept together, so a reader
that stalls loses nothing and holds nobody up. A look that fails or hangs degrades that pod alone.
Upstream: pkg/kubelet/pleg/generic.go, which asks the runtime every second.

How long it takes to list all containers, and how long between two lists. A collector of metrics.

Upstream: PLEGRelistDuration, PLEGRelistInterval and PLEGLastSeen in pkg/kubelet/metrics/metrics.go

What happened to a pod between two looks at the runtime.

Two views of one pod in, the changes out; pure. A sandbox counts as a container that runs while it is ready.
Upstream: generateEvents and computeEvents in pkg/kubelet/pleg/generic.go.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from pykubelet.aio.clock import Clock
from pykubelet.aio.histogram import Histogram
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.pods import PodUid
from pykubelet.api.times import format_duration
from pykubelet.kubelet.pleg.pod_cache import CachedStatus, Moment, PodCache
from pykubelet.runtimes.protocol import ChangeFeed, ContainerState, Runtime, RuntimeFailure, RuntimePod

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class PodLifecycleEventType(StrEnum):
    """What happened; the names are upstream's. CHANGED says only that one should look closer."""

    STARTED = "ContainerStarted"
    DIED = "ContainerDied"
    REMOVED = "ContainerRemoved"
    CHANGED = "ContainerChanged"


@dataclass(frozen=True, slots=True)
class PodLifecycleEvent:
    """One thing that happened to one container or sandbox."""

    kind: PodLifecycleEventType
    container_id: str


def compute_events(old: RuntimePod | None, new: RuntimePod | None) -> tuple[PodLifecycleEvent, ...]:
    """What happened from the one view to the other; None is a pod of which there is nothing."""
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
        is_reported = old == ContainerState.EXITED
        return (
            (PodLifecycleEventType.REMOVED,)
            if is_reported
            else (PodLifecycleEventType.DIED, PodLifecycleEventType.REMOVED)
        )
    if new == ContainerState.RUNNING:
        return () if old == new else (PodLifecycleEventType.STARTED,)
    if new == ContainerState.EXITED:
        return () if old == new else (PodLifecycleEventType.DIED,)
    # Created and unknown are one to us: nothing follows from either until one has looked.
    return () if old in {ContainerState.CREATED, ContainerState.UNKNOWN} else (PodLifecycleEventType.CHANGED,)


class RelistMetrics:
    """The times of one watchdog."""

    def __init__(self) -> None:
        self._took, self._between = Histogram(), Histogram()
        self._began: float | None = None
        self._last_seen: datetime | None = None

    def began(self, monotonic: float) -> None:
        """A list is about to be made."""
        if self._began is not None:
            self._between.observe(monotonic - self._began)
        self._began = monotonic

    def ended(self, monotonic: float, listed_at: datetime | None) -> None:
        """It was made, of what there was at a moment; None if it failed."""
        assert self._began is not None
        self._took.observe(monotonic - self._began)
        self._last_seen = listed_at or self._last_seen

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for."""
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


log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelistPolicy:
    """How often to look: at everything without a feed and with one, and again at a pod that could not be read."""

    relist_seconds: float = 1.0
    relist_with_feed_seconds: float = 60.0
    retry_seconds: float = 1.0
    unhealthy_after_seconds: float = 180.0
    look_timeout_seconds: float = 120.0
    looks_at_once: int = 16


@dataclass(frozen=True, slots=True)
class PodLifecycleChanges:
    """What happened to the containers and sandboxes of a pod since it was last taken."""

    uid: PodUid
    changes: tuple[PodLifecycleEvent, ...]


class PodLifecycleEventGenerator:
    """Looks at pods; `run` must be running. It owns what the cache holds."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        clock: Clock,
        feed: ChangeFeed | None = None,
        cache: PodCache | None = None,
        rhythm: RelistPolicy | None = None,
    ) -> None:
        self._runtime, self._clock, self._feed = runtime, clock, feed
        self.cache = cache if cache is not None else PodCache()
        self._rhythm = rhythm or RelistPolicy()
        self.relists = RelistMetrics()
        self._hints: KeyedQueue[PodUid, None] = KeyedQueue()
        self._seen: dict[PodUid, RuntimePod] = {}
        self._listed: frozenset[PodUid] = frozenset()
        self._untaken: dict[PodUid, dict[PodLifecycleEvent, None]] = {}
        self._has_untaken = asyncio.Event()
        self._relist_now = asyncio.Event()
        self._listed_at: datetime | None = None
        # What went wrong is logged once, not at every try.
        self._is_listed = True
        self._unreadable: set[PodUid] = set()

    def hint(self, uid: PodUid) -> None:
        """Have a pod looked at; never waits. Hints for a pod that waits already cost nothing."""
        self._hints.put(uid, None)

    async def newer_than(self, uid: PodUid, moment: Moment) -> RuntimePod:
        """What there is of a pod, by a look that began after a moment (of `cache.moment`)."""
        if not self.cache.is_newer(uid, moment):
            self.hint(uid)
        return await self.cache.newer_than(uid, moment)

    async def next_changes(self) -> PodLifecycleChanges:
        """What happened to the pod whose changes wait longest; waits for some."""
        while not self._untaken:
            self._has_untaken.clear()
            await self._has_untaken.wait()
        uid = next(iter(self._untaken))
        return PodLifecycleChanges(uid, tuple(self._untaken.pop(uid)))

    def has_nothing_of(self, uid: PodUid) -> bool:
        """Whether the runtime has nothing of a pod, as long as nobody here brings it something."""
        return self._listed_at is not None and uid not in self._listed and uid not in self._seen

    def complaint(self) -> str | None:
        """Why this cannot be relied on, for the node's condition; None if it can."""
        if self._listed_at is None:
            return "pleg has yet to be successful"
        elapsed, limit = (self._clock.now() - self._listed_at).total_seconds(), self._rhythm.unhealthy_after_seconds
        if elapsed <= limit:
            return None
        return f"pleg was last seen active {format_duration(elapsed)} ago; threshold is {format_duration(limit)}"

    async def run(self, ready: asyncio.Event) -> None:
        """Look and listen until cancelled; ready once everything was listed for the first time."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._rhythm.looks_at_once):
                start_supervised(group, f"pod look {number + 1}", self._look_at_hinted)
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
            # What changed while nobody listened is found by listing.
            self._relist_now.set()

    async def _relist_forever(self, ready: asyncio.Event) -> None:
        period = self._rhythm.relist_seconds if self._feed is None else self._rhythm.relist_with_feed_seconds
        while True:
            self._relist_now.clear()
            if await self._relist():
                ready.set()
            try:
                async with asyncio.timeout(period if ready.is_set() else self._rhythm.retry_seconds):
                    await self._relist_now.wait()
            except TimeoutError:
                pass

    async def _relist(self) -> bool:
        began_at = self._clock.now()
        self.relists.began(self._clock.monotonic())
        try:
            listed = {pod.uid: pod for pod in await self._runtime.pods()}
        except RuntimeFailure as failure:
            (log.warning if self._is_listed else log.debug)("runtime not listed", cause=failure.message)
            self._is_listed = False
            self.relists.ended(self._clock.monotonic(), None)
            return False
        self.relists.ended(self._clock.monotonic(), began_at)
        self._listed_at, self._is_listed, self._listed = began_at, True, frozenset(listed)
        for uid in listed | self._seen:
            if compute_events(self._seen.get(uid), listed.get(uid)):
                self.hint(uid)
        return True

    async def _look_at_hinted(self) -> None:
        while True:
            uid, _ = await self._hints.get()
            try:
                await self._look(uid)
            finally:
                self._hints.done(uid)

    async def _look(self, uid: PodUid) -> None:
        began = self.cache.begin()
        try:
            async with asyncio.timeout(self._rhythm.look_timeout_seconds):
                found = await self._runtime.inspect(uid)
        except (RuntimeFailure, TimeoutError) as error:
            failure = error if isinstance(error, RuntimeFailure) else RuntimeFailure("the runtime does not answer")
            (log.debug if uid in self._unreadable else log.warning)(
                "pod not inspected", pod_uid=uid, cause=failure.message
            )
            self._unreadable.add(uid)
            self.cache.put(uid, CachedStatus(began, failure))
            # What was seen before stays what the next look is compared with, so no change is lost.
            self._hints.put_later(uid, None, self._rhythm.retry_seconds)
            return
        self._unreadable.discard(uid)
        self.cache.put(uid, CachedStatus(began, found))
        self._report(uid, compute_events(self._seen.get(uid), found))
        if found is None:
            self._seen.pop(uid, None)
        else:
            self._seen[uid] = found

    def _report(self, uid: PodUid, changes: tuple[PodLifecycleEvent, ...]) -> None:
        worth_telling = [change for change in changes if change.kind != PodLifecycleEventType.CHANGED]
        if worth_telling:
            self._untaken.setdefault(uid, {}).update(dict.fromkeys(worth_telling))
            self._has_untaken.set()
