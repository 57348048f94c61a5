"""Watches single objects by name, up to a maximum number of watches.

The Node authorizer of a cluster allows nothing else. An object beyond the maximum, which is ours, is fetched when it is
read and its last read is too old. Owned by one loop.

Upstream: pkg/kubelet/util/manager/watch_based_manager.go
"""

import asyncio
from collections.abc import Callable
from typing import Generic

from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import supervise
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.client.interface import Selection
from pykubelet.client.reflector import Reflector
from pykubelet.kubelet.objectcache.store import LastRead, ObjectKey, ObjectSource, T, TtlSeconds, revision

log = get_logger(__name__)

# Longer than a client's usual 5 minutes: there may be many watches, and each new one costs the server.
MIN_WATCH_SECONDS = 1800.0


class ReferencedItem(Generic[T]):
    """A referenced object. `is_synced` is set while `object` (or None) is what the API server has."""

    __slots__ = ("_changed", "_referrers", "_turn", "is_synced", "key", "last_read_at", "needs_fetch", "object")

    def __init__(self, key: ObjectKey, changed: Callable[[ObjectKey], None]) -> None:
        self.key = key
        self.object: T | None = None
        self.is_synced = asyncio.Event()
        self.needs_fetch = False
        """Whether the next reader must fetch the object, because no watch has delivered its current state."""
        self.last_read_at = float("-inf")
        self._changed = changed
        self._referrers: dict[str, int] = {}
        self._turn = asyncio.Lock()

    @property
    def is_immutable(self) -> bool:
        """Whether the object is marked immutable; only a successor of the same name could differ."""
        return self.object is not None and self.object.immutable is True

    def references(self, referrer: str) -> int:
        return self._referrers.get(referrer, 0)

    def add_reference(self, referrer: str) -> None:
        self._referrers[referrer] = self.references(referrer) + 1

    def delete_reference(self, referrer: str) -> bool:
        """Release one reference; return whether it was the last one."""
        # Upstream stores -1 for a pod without a reference and so keeps the object forever.
        left = self._referrers.pop(referrer, 0) - 1
        if left > 0:
            self._referrers[referrer] = left
        return not self._referrers

    def accept(self, found: T) -> None:
        """Accept a state of the object, unless a newer one is known."""
        self.needs_fetch = False
        if self.object is None or revision(found) >= revision(self.object):
            self._replace(found)

    def mark_deleted(self, last: T) -> None:
        """The object, given in its last state, was deleted; if a later state is known, it must be fetched."""
        if self.object is not None and revision(last) < revision(self.object):
            self.mark_outdated()
        else:
            self.clear()

    def clear(self) -> None:
        """Record that the object does not exist."""
        self.needs_fetch = False
        self._replace(None)

    def mark_outdated(self) -> None:
        """Mark the state as possibly outdated: the next reader fetches it, and subscribers are notified."""
        self.needs_fetch = True
        self._changed(self.key)

    async def fetch(self, source: ObjectSource[T]) -> None:
        """Fetch the object if necessary, once for all waiting readers; raises ApiError if that fails."""
        async with self._turn:
            if not self.needs_fetch:
                return
            try:
                self.accept(await source.fetch(self.key))
            except NotFound:
                # Unless a watch has delivered it meanwhile.
                if self.needs_fetch:
                    self.clear()

    def _replace(self, found: T | None) -> None:
        was, self.object = self.object, found
        if _identity(was) != _identity(found):
            self._changed(self.key)


def _identity(found: T | None) -> tuple[str, str] | None:
    return None if found is None else (found.metadata.uid, found.metadata.resource_version)


class ObjectWatch(Generic[T]):
    """Watches one object; after a stop its state is unknown, unless it is immutable."""

    def __init__(self, *, item: ReferencedItem[T], source: ObjectSource[T], ttl_seconds: TtlSeconds) -> None:
        self.item = item
        self.last_read: LastRead[T] = LastRead(source=source, key=item.key, ttl_seconds=ttl_seconds)
        self._name = f"watch {source.noun} {item.key}"
        self._task: asyncio.Task[None] | None = None
        self._ended: asyncio.Task[None] | None = None
        self._is_known = False
        self._reflector: Reflector[T] = Reflector(
            client=source.client,
            kind=source.kind,
            sink=self,
            clock=source.clock,
            namespace=item.key.namespace,
            selection=Selection(fields=f"metadata.name={item.key.name}"),
            min_watch_seconds=MIN_WATCH_SECONDS,
        )

    @property
    def is_running(self) -> bool:
        """Whether the watch is open or about to be."""
        return self._task is not None

    def start(self, group: asyncio.TaskGroup) -> None:
        """Start watching, once an earlier run has ended."""
        self.item.is_synced.clear()
        self._task = group.create_task(self._run(self._ended), name=self._name)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._ended, self._task = self._task, None
        if not self.item.is_immutable:
            self.item.is_synced.clear()

    async def _run(self, former: asyncio.Task[None] | None) -> None:
        if former is not None:
            await asyncio.wait({former})
        await supervise(self._name, lambda: self._reflector.run(asyncio.Event()))

    # Implements Sink for the reflector.

    def added(self, obj: T) -> None:
        self._is_known = True
        self.item.accept(obj)

    def modified(self, obj: T) -> None:
        self.item.accept(obj)

    def deleted(self, obj: T) -> None:
        self._is_known = False
        self.item.mark_deleted(obj)

    def synced(self) -> None:
        self.item.is_synced.set()
        if self.item.object is not None and not self._is_known:
            # It was fetched while no watch was open, and the list does not have it.
            self.item.mark_outdated()


class ObjectWatches(Generic[T]):
    """The watches of all items, one each as long as the maximum is not reached."""

    def __init__(self, *, source: ObjectSource[T], ttl_seconds: TtlSeconds, max_streams: int) -> None:
        self._source, self._ttl_seconds, self._max_streams = source, ttl_seconds, max_streams
        self._watches: dict[ObjectKey, ObjectWatch[T]] = {}
        self._streams = 0
        self._group: asyncio.TaskGroup | None = None

    def open(self, group: asyncio.TaskGroup) -> None:
        """Start watching with tasks of this group."""
        self._group = group
        for watch in self._watches.values():
            self._start(watch)

    def close(self) -> None:
        """Stop all watches, and start none until `open` is called again."""
        self._group = None
        for watch in self._watches.values():
            self._stop(watch)

    def follow(self, item: ReferencedItem[T]) -> None:
        """Watch an item, or leave it to its readers to fetch if the maximum is reached."""
        watch = ObjectWatch(item=item, source=self._source, ttl_seconds=self._ttl_seconds)
        self._watches[item.key] = watch
        self._start(watch)

    def unfollow(self, item: ReferencedItem[T]) -> None:
        """Stop watching an item and drop it."""
        self._stop(self._watches.pop(item.key))

    def is_running(self, key: ObjectKey) -> bool:
        return key in self._watches and self._watches[key].is_running

    def wake(self, item: ReferencedItem[T]) -> None:
        """Watch an item that is about to be read again, if it was idle or a watch has become free."""
        if (watch := self._watches.get(item.key)) and not item.is_immutable:
            self._start(watch)

    async def refresh(self, item: ReferencedItem[T]) -> None:
        """Fetch an item without a watch if its last read is too old; raises ApiError if that fails."""
        watch = self._watches.get(item.key)
        if watch is None or watch.is_running or item.is_immutable:
            return
        try:
            item.accept(await watch.last_read.get())
        except NotFound:
            item.clear()

    def after_read(self, item: ReferencedItem[T]) -> None:
        """After a read: an immutable object needs no watch, its mutable successor does."""
        if (watch := self._watches.get(item.key)) is None:
            return
        if item.is_immutable:
            self._stop(watch)
        else:
            self._start(watch)

    async def tidy(self, max_idle_seconds: float) -> None:
        """Stop idle watches, and refresh items that are read but have no watch."""
        now = self._source.clock.monotonic()
        for watch in tuple(self._watches.values()):
            is_idle = now > watch.item.last_read_at + max_idle_seconds
            if not is_idle:
                await self._refresh_quietly(watch.item)
            elif watch.is_running and watch.item.is_synced.is_set():
                log.debug("watch stopped: object is not read", name=watch.item.key)
                self._stop(watch)

    def _start(self, watch: ObjectWatch[T]) -> None:
        if self._group is None or watch.is_running:
            return
        if self._streams < self._max_streams:
            self._streams += 1
            watch.start(self._group)
        else:
            # Nothing to wait for: readers fetch the object themselves.
            watch.item.is_synced.set()

    def _stop(self, watch: ObjectWatch[T]) -> None:
        self._streams -= watch.is_running
        watch.stop()

    async def _refresh_quietly(self, item: ReferencedItem[T]) -> None:
        try:
            await self.refresh(item)
        except ApiError as error:
            log.warning("object not refreshed", name=item.key, error=error)
