"""Watches of single named objects, a bounded number of them.

This is all that the Node authorizer of a real cluster allows. An object beyond the bound is fetched when it is read,
if the last answer is too old. Upstream: objectCacheItem in pkg/kubelet/util/manager/watch_based_manager.go; the bound
is ours.

One referenced object: who refers to it and what the API server says of it.

Written by the watch store and its watches, all in one loop; every change of what a reader would get is reported.
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


class ReferencedItem(Generic[T]):
    """The object under one key. `is_synced` is set while `object` (or None) is the API server's word."""

    __slots__ = ("_changed", "_referrers", "_turn", "is_synced", "key", "last_read_at", "needs_fetch", "object")

    def __init__(self, key: ObjectKey, changed: Callable[[ObjectKey], None]) -> None:
        self.key = key
        self.object: T | None = None
        self.is_synced = asyncio.Event()
        self.needs_fetch = False
        """Whether the next reader must ask the server: no watch has told us of the object as it is now."""
        self.last_read_at = float("-inf")
        self._changed = changed
        self._referrers: dict[str, int] = {}
        self._turn = asyncio.Lock()

    @property
    def is_immutable(self) -> bool:
        """Whether the object as we know it can never change; only a successor of the same name could differ."""
        return self.object is not None and self.object.immutable is True

    def references(self, referrer: str) -> int:
        """How often a pod refers to it."""
        return self._referrers.get(referrer, 0)

    def add_reference(self, referrer: str) -> None:
        self._referrers[referrer] = self.references(referrer) + 1

    def delete_reference(self, referrer: str) -> bool:
        """Take one back; True if nobody refers to the object any more."""
        # Upstream stores -1 for a pod that never referred to it, and so keeps the object for ever.
        left = self._referrers.pop(referrer, 0) - 1
        if left > 0:
            self._referrers[referrer] = left
        return not self._referrers

    def offer(self, found: T) -> None:
        """Take a state of the object, unless a newer one is known."""
        self.needs_fetch = False
        if self.object is None or revision(found) >= revision(self.object):
            self._replace(found)

    def withdraw(self, last: T) -> None:
        """The object is gone, given as it last was; if we know of a later one, someone must look."""
        if self.object is not None and revision(last) < revision(self.object):
            self.doubt()
        else:
            self.clear()

    def clear(self) -> None:
        """There is no such object."""
        self.needs_fetch = False
        self._replace(None)

    def doubt(self) -> None:
        """What we have may be outdated: the next reader asks the server, and readers hear that they should ask."""
        self.needs_fetch = True
        self._changed(self.key)

    async def fetch(self, source: ObjectSource[T]) -> None:
        """Ask the server if that is necessary, once for all readers that wait; ApiError if it does not answer."""
        async with self._turn:
            if not self.needs_fetch:
                return
            try:
                self.offer(await source.fetch(self.key))
            except NotFound:
                # Unless a watch has told of it meanwhile.
                if self.needs_fetch:
                    self.clear()

    def _replace(self, found: T | None) -> None:
        was, self.object = self.object, found
        if _identity(was) != _identity(found):
            self._changed(self.key)


def _identity(found: T | None) -> tuple[str, str] | None:
    return None if found is None else (found.metadata.uid, found.metadata.resource_version)


log = get_logger(__name__)

# Longer than a client's usual 5 minutes: there may be many of these watches, and each new one costs the server.
MIN_WATCH_SECONDS = 1800.0


class ObjectWatch(Generic[T]):
    """Follows one object while it runs; after a stop what was known counts as unknown, unless it is immutable."""

    def __init__(self, *, item: ReferencedItem[T], source: ObjectSource[T], ttl_seconds: TtlSeconds) -> None:
        self.item = item
        self.last_answer: LastRead[T] = LastRead(source=source, key=item.key, ttl_seconds=ttl_seconds)
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
        """Whether the stream is open, or about to be."""
        return self._task is not None

    def start(self, group: asyncio.TaskGroup) -> None:
        """Follow the object, once an earlier run has ended."""
        self.item.is_synced.clear()
        self._task = group.create_task(self._run(self._ended), name=self._name)

    def stop(self) -> None:
        """Follow it no more."""
        if self._task is not None:
            self._task.cancel()
            self._ended, self._task = self._task, None
        if not self.item.is_immutable:
            self.item.is_synced.clear()

    async def _run(self, former: asyncio.Task[None] | None) -> None:
        if former is not None:
            await asyncio.wait({former})
        await supervise(self._name, lambda: self._reflector.run(asyncio.Event()))

    # The reflector's sink

    def added(self, obj: T) -> None:
        self._is_known = True
        self.item.offer(obj)

    def modified(self, obj: T) -> None:
        self.item.offer(obj)

    def deleted(self, obj: T) -> None:
        self._is_known = False
        self.item.withdraw(obj)

    def synced(self) -> None:
        self.item.is_synced.set()
        if self.item.object is not None and not self._is_known:
            # It was fetched while there was no stream, and the list does not have it.
            self.item.doubt()


class ObjectWatches(Generic[T]):
    """The followed items, each with a watch of its own as long as there is a stream left for it."""

    def __init__(self, *, source: ObjectSource[T], ttl_seconds: TtlSeconds, max_streams: int) -> None:
        self._source, self._ttl_seconds, self._max_streams = source, ttl_seconds, max_streams
        self._watches: dict[ObjectKey, ObjectWatch[T]] = {}
        self._streams = 0
        self._group: asyncio.TaskGroup | None = None

    def open(self, group: asyncio.TaskGroup) -> None:
        """Watch from now on, with tasks of this group."""
        self._group = group
        for watch in self._watches.values():
            self._start(watch)

    def close(self) -> None:
        """Stop all watches, and start none until opened again."""
        self._group = None
        for watch in self._watches.values():
            self._stop(watch)

    def follow(self, item: ReferencedItem[T]) -> None:
        """Watch an item, or have it fetched by its readers if all streams are taken."""
        watch = ObjectWatch(item=item, source=self._source, ttl_seconds=self._ttl_seconds)
        self._watches[item.key] = watch
        self._start(watch)

    def unfollow(self, item: ReferencedItem[T]) -> None:
        """Forget an item."""
        self._stop(self._watches.pop(item.key))

    def is_running(self, key: ObjectKey) -> bool:
        """Whether a stream is open for an object."""
        return key in self._watches and self._watches[key].is_running

    def wake(self, item: ReferencedItem[T]) -> None:
        """Watch an item again that is about to be read, if it was idle or a stream has become free."""
        if (watch := self._watches.get(item.key)) and not item.is_immutable:
            self._start(watch)

    async def refresh(self, item: ReferencedItem[T]) -> None:
        """Ask the server for an item that has no stream, if its last answer is too old; ApiError if that fails."""
        watch = self._watches.get(item.key)
        if watch is None or watch.is_running or item.is_immutable:
            return
        try:
            item.offer(await watch.last_answer.get())
        except NotFound:
            item.clear()

    def settle(self, item: ReferencedItem[T]) -> None:
        """After an item was read: an immutable one needs no stream, and its mutable successor does."""
        if (watch := self._watches.get(item.key)) is None:
            return
        if item.is_immutable:
            self._stop(watch)
        else:
            self._start(watch)

    async def tidy(self, max_idle_seconds: float) -> None:
        """Stop watches nobody reads, and refresh what is read but has no stream."""
        now = self._source.clock.monotonic()
        for watch in tuple(self._watches.values()):
            is_idle = now > watch.item.last_read_at + max_idle_seconds
            if not is_idle:
                await self._refresh_quietly(watch.item)
            elif watch.is_running and watch.item.is_synced.is_set():
                log.debug("watch stopped, nobody reads the object", name=watch.item.key)
                self._stop(watch)

    def _start(self, watch: ObjectWatch[T]) -> None:
        if self._group is None or watch.is_running:
            return
        if self._streams < self._max_streams:
            self._streams += 1
            watch.start(self._group)
        else:
            # Nothing to wait for: its readers ask the server themselves.
            watch.item.is_synced.set()

    def _stop(self, watch: ObjectWatch[T]) -> None:
        self._streams -= watch.is_running
        watch.stop()

    async def _refresh_quietly(self, item: ReferencedItem[T]) -> None:
        try:
            await self.refresh(item)
        except ApiError as error:
            log.warning("object not refreshed", name=item.key, error=error)
