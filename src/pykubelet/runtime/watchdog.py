"""Keeps the pod cache true: looks at a pod when something hints at a change, at all now and then.

In: hints from the runtime's change feed, from whoever did something to a pod, and from a slow relist that finds what
no one hinted at. Out: the cache, and per pod what happened, as hints for the sync loop. A hint only says whom to look
at; what counts is what the look finds. Changes of one pod that nobody has taken yet are kept together, so a reader
that stalls loses nothing and holds nobody up. A look that fails or hangs degrades that pod alone.
Upstream: pkg/kubelet/pleg/generic.go, which asks the runtime every second.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime

from pykubelet.aio.clock import Clock
from pykubelet.aio.keyed_queue import KeyedQueue
from pykubelet.aio.log import get_logger
from pykubelet.aio.supervise import start_supervised
from pykubelet.api.durations import format_duration
from pykubelet.api.keys import PodUid
from pykubelet.runtime.pod_cache import Look, Moment, PodCache
from pykubelet.runtime.protocol import ChangeFeed, Runtime, RuntimeFailure, RuntimePod
from pykubelet.runtime.relist import ChangeKind, ContainerChange, compare
from pykubelet.runtime.relist_times import RelistTimes

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How often to look: at everything without a feed and with one, and again at a pod that could not be read."""

    relist_seconds: float = 1.0
    relist_with_feed_seconds: float = 60.0
    retry_seconds: float = 1.0
    unhealthy_after_seconds: float = 180.0
    look_timeout_seconds: float = 120.0
    looks_at_once: int = 16


@dataclass(frozen=True, slots=True)
class PodChanges:
    """What happened to the containers and sandboxes of a pod since it was last taken."""

    uid: PodUid
    changes: tuple[ContainerChange, ...]


class Watchdog:
    """Looks at pods; `run` must be running. It owns what the cache holds."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        clock: Clock,
        feed: ChangeFeed | None = None,
        cache: PodCache | None = None,
        rhythm: Rhythm | None = None,
    ) -> None:
        self._runtime, self._clock, self._feed = runtime, clock, feed
        self.cache = cache if cache is not None else PodCache()
        self._rhythm = rhythm or Rhythm()
        self.relists = RelistTimes()
        self._hints: KeyedQueue[PodUid, None] = KeyedQueue()
        self._seen: dict[PodUid, RuntimePod] = {}
        self._listed: frozenset[PodUid] = frozenset()
        self._untaken: dict[PodUid, dict[ContainerChange, None]] = {}
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

    async def next_changes(self) -> PodChanges:
        """What happened to the pod whose changes wait longest; waits for some."""
        while not self._untaken:
            self._has_untaken.clear()
            await self._has_untaken.wait()
        uid = next(iter(self._untaken))
        return PodChanges(uid, tuple(self._untaken.pop(uid)))

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
            if compare(self._seen.get(uid), listed.get(uid)):
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
            self.cache.put(uid, Look(began, failure))
            # What was seen before stays what the next look is compared with, so no change is lost.
            self._hints.put_later(uid, None, self._rhythm.retry_seconds)
            return
        self._unreadable.discard(uid)
        self.cache.put(uid, Look(began, found))
        self._report(uid, compare(self._seen.get(uid), found))
        if found is None:
            self._seen.pop(uid, None)
        else:
            self._seen[uid] = found

    def _report(self, uid: PodUid, changes: tuple[ContainerChange, ...]) -> None:
        worth_telling = [change for change in changes if change.kind != ChangeKind.CHANGED]
        if worth_telling:
            self._untaken.setdefault(uid, {}).update(dict.fromkeys(worth_telling))
            self._has_untaken.set()
