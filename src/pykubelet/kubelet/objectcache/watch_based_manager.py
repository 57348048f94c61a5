"""Keeps referenced objects current with watches: one per namespace if permitted, else one per object.

Upstream has only watches of single objects. A namespace watch delivers all objects; those without a reference are
dropped on arrival, so memory follows the references. An object that gets its first reference later is fetched by its
first reader. The wrapped client hides unreferenced objects from the reflector: it filters lists and turns their events
into bookmarks, or into deletions if the reflector knows the object.

Upstream: pkg/kubelet/util/manager/watch_based_manager.go
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import supervise
from pykubelet.api.errors import ApiError, Forbidden
from pykubelet.api.scheme import TypedKind
from pykubelet.client.interface import EVERYTHING, Listing, Selection, WatchEvent
from pykubelet.client.reflector import ListerWatcher, Reflector
from pykubelet.kubelet.objectcache.object_watch import MIN_WATCH_SECONDS, ObjectWatches, ReferencedItem
from pykubelet.kubelet.objectcache.store import CacheOptions, NotRegistered, NotSynced, ObjectKey, ObjectSource
from pykubelet.kubelet.objectcache.store import T as StoreT

log = get_logger(__name__)

T = TypeVar("T")

TIDY_SECONDS = 60.0
MIN_IDLE_SECONDS = 60.0


class ReferencedObjectsClient:
    """A client that shows its reflector only the referenced objects."""

    def __init__(self, client: ListerWatcher, watch: "NamespaceWatch[Any]") -> None:
        self._client, self._watch = client, watch

    async def get(self, kind: TypedKind[T], name: str, *, namespace: str = "", resource_version: str = "") -> T:
        return await self._client.get(kind, name, namespace=namespace, resource_version=resource_version)

    async def list(
        self,
        kind: TypedKind[T],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> Listing[T]:
        self._watch.begin()
        page = await self._client.list(
            kind,
            namespace=namespace,
            selection=selection,
            resource_version=resource_version,
            limit=limit,
            continue_token=continue_token,
        )
        wanted = tuple(item for item in page.items if self._watch.is_wanted(_name(item)))
        return Listing(wanted, page.resource_version, page.continue_token)

    @asynccontextmanager
    async def watch(
        self,
        kind: TypedKind[T],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        async with self._client.watch(
            kind,
            namespace=namespace,
            selection=selection,
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
        ) as events:
            yield self._shown(events)

    async def _shown(self, events: AsyncIterator[WatchEvent[T]]) -> AsyncIterator[WatchEvent[T]]:
        async for event in events:
            yield event if event.object is None else self._show(event, _name(event.object))

    def _show(self, event: WatchEvent[T], name: str) -> WatchEvent[T]:
        is_wanted, is_known = self._watch.is_wanted(name), self._watch.is_known(name)
        if is_wanted and (is_known or event.type != "DELETED"):
            return event
        if is_wanted:
            self._watch.deleted(event.object)
        if is_known:
            return WatchEvent("DELETED", event.object, event.resource_version)
        return WatchEvent("BOOKMARK", None, event.resource_version)


def _name(obj: Any) -> str:
    name: str = obj.metadata.name
    return name


class NamespaceWatch(Generic[StoreT]):
    """Watches the referenced objects of one namespace."""

    def __init__(self, *, namespace: str, source: ObjectSource[StoreT], forbidden: Callable[[str], None]) -> None:
        """`forbidden` is called with the namespace if the server denies the watch, which then ends."""
        self._namespace, self._source, self._forbidden = namespace, source, forbidden
        self._items: dict[str, ReferencedItem[StoreT]] = {}
        # Names that the reflector has delivered; it does not know what readers fetched.
        self._known: set[str] = set()
        self._has_begun = self._is_synced = False
        self._task: asyncio.Task[None] | None = None

    @property
    def items(self) -> tuple[ReferencedItem[StoreT], ...]:
        return tuple(self._items.values())

    def start(self, group: asyncio.TaskGroup) -> None:
        """Watch the namespace until stopped."""
        name = f"watch {self._source.noun}s of {self._namespace}"
        self._task = group.create_task(supervise(name, self._follow), name=name)

    def stop(self) -> None:
        """Stop watching; the state of all items becomes unknown."""
        if self._task is not None:
            self._task.cancel()
        self._has_begun = self._is_synced = False
        for item in self._items.values():
            item.is_synced.clear()

    def join(self, item: ReferencedItem[StoreT]) -> None:
        """Keep an item current from now on."""
        self._items[item.key.name] = item
        item.needs_fetch = self._has_begun
        if self._is_synced:
            item.is_synced.set()

    def leave(self, item: ReferencedItem[StoreT]) -> bool:
        """Drop an item; return whether it was the last one."""
        del self._items[item.key.name]
        return not self._items

    async def _follow(self) -> None:
        self._known.clear()
        reflector: Reflector[StoreT] = Reflector(
            client=ReferencedObjectsClient(self._source.client, self),
            kind=self._source.kind,
            sink=self,
            clock=self._source.clock,
            namespace=self._namespace,
            min_watch_seconds=MIN_WATCH_SECONDS,
            give_up_on_forbidden=True,
        )
        try:
            await reflector.run(asyncio.Event())
        except Forbidden as error:
            log.info("watch of the namespace is forbidden", namespace=self._namespace, error=error)
            self._forbidden(self._namespace)

    # Implements Sink for the reflector.

    def added(self, obj: StoreT) -> None:
        self._known.add(obj.metadata.name)
        self.modified(obj)

    def modified(self, obj: StoreT) -> None:
        if item := self._items.get(obj.metadata.name):
            item.accept(obj)

    def deleted(self, obj: StoreT) -> None:
        self._known.discard(obj.metadata.name)
        if item := self._items.get(obj.metadata.name):
            item.mark_deleted(obj)

    def synced(self) -> None:
        self._is_synced = True
        for item in self._items.values():
            item.is_synced.set()
            if item.object is not None and item.key.name not in self._known:
                # A reader fetched it, but the list does not have it.
                item.mark_outdated()

    # Filters for ReferencedObjectsClient.

    def begin(self) -> None:
        self._has_begun = True

    def is_wanted(self, name: str) -> bool:
        return name in self._items

    def is_known(self, name: str) -> bool:
        return name in self._known


class WatchStore(Generic[StoreT]):
    """The referenced objects of one kind. Watches run while `run` does."""

    def __init__(
        self, *, source: ObjectSource[StoreT], changed: Callable[[ObjectKey], None], options: CacheOptions
    ) -> None:
        self._source, self._changed, self._options = source, changed, options
        self._items: dict[ObjectKey, ReferencedItem[StoreT]] = {}
        self._namespaces: dict[str, NamespaceWatch[StoreT]] = {}
        self._forbidden: set[str] = set()
        self._objects: ObjectWatches[StoreT] = ObjectWatches(
            source=source, ttl_seconds=options.ttl_seconds, max_streams=options.max_streams
        )
        self._group: asyncio.TaskGroup | None = None

    def add_reference(self, key: ObjectKey, referrer: str) -> None:
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = ReferencedItem(key, self._changed)
            self._follow(item)
        elif item.is_immutable and not self.is_watched(key):
            # Its name may belong to another object by now, which no watch would report.
            item.needs_fetch = True
        item.add_reference(referrer)

    def delete_reference(self, key: ObjectKey, referrer: str) -> None:
        item = self._items.get(key)
        if item is not None and item.delete_reference(referrer):
            del self._items[key]
            self._unfollow(item)

    def references(self, key: ObjectKey, referrer: str) -> int:
        return self._items[key].references(referrer) if key in self._items else 0

    def is_watched(self, key: ObjectKey) -> bool:
        """Whether a watch would report a change of the object."""
        return key in self._items and (key.namespace in self._namespaces or self._objects.is_running(key))

    async def get(self, key: ObjectKey, *, timeout_seconds: float) -> StoreT:
        item = self._items.get(key)
        if item is None:
            raise NotRegistered(key)
        item.last_read_at = self._source.clock.monotonic()
        self._objects.wake(item)
        await self._bring_up_to_date(item, timeout_seconds)
        if item.object is None:
            raise self._source.not_found(key)
        self._objects.after_read(item)
        return item.object

    async def run(self, ready: asyncio.Event) -> None:
        """Watch until cancelled, and stop idle watches once a minute."""
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
        """Stop idle watches of single objects, and refresh objects that are read but not watched."""
        await self._objects.tidy(max(5 * self._options.sync_frequency_seconds, MIN_IDLE_SECONDS))

    async def _bring_up_to_date(self, item: ReferencedItem[StoreT], timeout_seconds: float) -> None:
        """Wait until the item can be served; on failure, an earlier state is good enough."""
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
            log.warning("outdated object served", name=item.key, error=error)

    def _follow(self, item: ReferencedItem[StoreT]) -> None:
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

    def _unfollow(self, item: ReferencedItem[StoreT]) -> None:
        watch = self._namespaces.get(item.key.namespace)
        if watch is None:
            self._objects.unfollow(item)
        elif watch.leave(item):
            watch.stop()
            del self._namespaces[item.key.namespace]

    def _fall_back(self, namespace: str) -> None:
        """Watch the objects of a namespace one by one, because its watch is forbidden."""
        self._forbidden.add(namespace)
        for item in self._namespaces.pop(namespace).items:
            item.needs_fetch = False
            self._objects.follow(item)
