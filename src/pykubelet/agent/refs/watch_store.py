"""Referenced objects kept up to date by watches.

One watch per namespace where the server allows it, else one per object. Readers wait for the first word of the API
server, and get what the watches know. Upstream: objectCache in pkg/kubelet/util/manager/watch_based_manager.go, which
knows only watches of single objects.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from pykubelet.agent.refs.item import Item
from pykubelet.agent.refs.namespace_watch import NamespaceWatch
from pykubelet.agent.refs.object_watch import ObjectWatches
from pykubelet.agent.refs.store import NotRegistered, NotSynced, ObjectKey, ObjectSource, T
from pykubelet.agent.refs.ttl_store import TtlSeconds, no_ttl
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError

log = get_logger(__name__)

TIDY_SECONDS = 60.0
MIN_IDLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """How many watches, and for how long."""

    max_idle_seconds: float = 300.0
    """A watch of a single object stops when nobody has read it for longer; never below a minute."""
    max_streams: int = 100
    """So many watches of single objects; the rest is fetched when it is read."""
    single_object_watches: bool = False
    """Never try to watch a namespace."""
    ttl_seconds: TtlSeconds = no_ttl
    """How old the answer about an object without a watch may be."""


class WatchStore(Generic[T]):
    """The referenced objects of one kind. Watches run while `run` does."""

    def __init__(self, *, source: ObjectSource[T], changed: Callable[[ObjectKey], None], options: WatchOptions) -> None:
        self._source, self._changed, self._options = source, changed, options
        self._items: dict[ObjectKey, Item[T]] = {}
        self._namespaces: dict[str, NamespaceWatch[T]] = {}
        self._forbidden: set[str] = set()
        self._objects: ObjectWatches[T] = ObjectWatches(
            source=source, ttl_seconds=options.ttl_seconds, max_streams=options.max_streams
        )
        self._group: asyncio.TaskGroup | None = None

    def add_reference(self, key: ObjectKey, referrer: str) -> None:
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = Item(key, self._changed)
            self._follow(item)
        elif item.is_immutable and not self.is_watched(key):
            # Its name may belong to another object by now, and no watch would tell.
            item.needs_fetch = True
        item.add_reference(referrer)

    def delete_reference(self, key: ObjectKey, referrer: str) -> None:
        item = self._items.get(key)
        if item is not None and item.delete_reference(referrer):
            del self._items[key]
            self._unfollow(item)

    def references(self, key: ObjectKey, referrer: str) -> int:
        """How often a pod refers to an object."""
        return self._items[key].references(referrer) if key in self._items else 0

    def is_watched(self, key: ObjectKey) -> bool:
        """Whether a watch would tell of a change of the object."""
        return key in self._items and (key.namespace in self._namespaces or self._objects.is_running(key))

    async def get(self, key: ObjectKey, *, timeout_seconds: float) -> T:
        item = self._items.get(key)
        if item is None:
            raise NotRegistered(key)
        item.last_read_at = self._source.clock.monotonic()
        self._objects.wake(item)
        await self._bring_up_to_date(item, timeout_seconds)
        if item.object is None:
            raise self._source.not_found(key)
        self._objects.settle(item)
        return item.object

    async def run(self, ready: asyncio.Event) -> None:
        """Watch, and once a minute stop watches that nobody needs."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._objects.open(group)
            for watch in self._namespaces.values():
                watch.start(group)
            ready.set()
            try:
                while True:
                    await asyncio.sleep(TIDY_SECONDS)
                    await self.tidy()
            finally:
                self._group = None
                self._objects.close()
                for watch in self._namespaces.values():
                    watch.stop()

    async def tidy(self) -> None:
        """Stop idle watches of single objects, refresh objects that are read and have none."""
        await self._objects.tidy(max(self._options.max_idle_seconds, MIN_IDLE_SECONDS))

    async def _bring_up_to_date(self, item: Item[T], timeout_seconds: float) -> None:
        """Wait for what is needed to answer; if that fails, an object we have had before is good enough."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await item.is_synced.wait()
                await self._objects.refresh(item)
                await item.fetch(self._source)
        except TimeoutError:
            if item.object is None or not item.is_synced.is_set():
                raise NotSynced(self._source.noun) from None
        except ApiError as error:
            if item.object is None:
                raise
            log.warning("object served as it last was", name=item.key, error=error)

    def _follow(self, item: Item[T]) -> None:
        namespace = item.key.namespace
        if self._options.single_object_watches or namespace in self._forbidden:
            self._objects.follow(item)
            return
        watch = self._namespaces.get(namespace)
        if watch is None:
            watch = NamespaceWatch(namespace=namespace, source=self._source, forbidden=self._fall_back)
            self._namespaces[namespace] = watch
            if self._group is not None:
                watch.start(self._group)
        watch.join(item)

    def _unfollow(self, item: Item[T]) -> None:
        watch = self._namespaces.get(item.key.namespace)
        if watch is None:
            self._objects.unfollow(item)
        elif watch.leave(item):
            watch.stop()
            del self._namespaces[item.key.namespace]

    def _fall_back(self, namespace: str) -> None:
        """The namespace may not be watched: watch its objects one by one."""
        self._forbidden.add(namespace)
        for item in self._namespaces.pop(namespace).items:
            item.needs_fetch = False
            self._objects.follow(item)
