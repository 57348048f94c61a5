"""Referenced objects kept up to date by watches.

One watch per namespace where the server allows it, else one per object. Readers wait for the first word of the API
server, and get what the watches know. Upstream: objectCache in pkg/kubelet/util/manager/watch_based_manager.go, which
knows only watches of single objects.

One watch for all referenced objects of a namespace.

The server sends the whole namespace; what no pod refers to is dropped on arrival, so memory follows the references.
An object that gets its first reference while the watch runs has been dropped before: its first reader fetches it.
Ours: upstream opens a watch for each object.

A client that shows a reflector only the objects of interest, of a whole namespace.

What is not wanted is dropped as it arrives, so that nobody remembers it. Lists are filtered; an event about an
unwanted object becomes a bookmark, or a deletion if the reflector still knows the object.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import supervise
from pykubelet.api.errors import ApiError, Forbidden
from pykubelet.api.scheme import TypedKind
from pykubelet.client.interface import EVERYTHING, Listing, Selection, WatchEvent
from pykubelet.client.reflector import ListerWatcher, Reflector
from pykubelet.kubelet.objectcache.object_watch import MIN_WATCH_SECONDS, ObjectWatches, ReferencedItem
from pykubelet.kubelet.objectcache.store import NotRegistered, NotSynced, ObjectKey, ObjectSource, TtlSeconds, no_ttl
from pykubelet.kubelet.objectcache.store import T as StoreT

T = TypeVar("T")


class ReferencedObjectsClient:
    """Wraps a client for one reflector."""

    def __init__(self, client: ListerWatcher, interest: "NamespaceWatch[Any]") -> None:
        self._client, self._interest = client, interest

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
        self._interest.begin()
        page = await self._client.list(
            kind,
            namespace=namespace,
            selection=selection,
            resource_version=resource_version,
            limit=limit,
            continue_token=continue_token,
        )
        wanted = tuple(item for item in page.items if self._interest.is_wanted(_name(item)))
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
        is_wanted, is_known = self._interest.is_wanted(name), self._interest.is_known(name)
        if is_wanted and (is_known or event.type != "DELETED"):
            return event
        if is_wanted:
            self._interest.deleted(event.object)
        if is_known:
            return WatchEvent("DELETED", event.object, event.resource_version)
        return WatchEvent("BOOKMARK", None, event.resource_version)


def _name(obj: Any) -> str:
    name: str = obj.metadata.name
    return name


log = get_logger(__name__)


class NamespaceWatch(Generic[StoreT]):
    """Follows the referenced objects of one namespace while it runs."""

    def __init__(self, *, namespace: str, source: ObjectSource[StoreT], forbidden: Callable[[str], None]) -> None:
        """`forbidden` is called with the namespace if the server does not allow it; that ends the watch."""
        self._namespace, self._source, self._forbidden = namespace, source, forbidden
        self._items: dict[str, ReferencedItem[StoreT]] = {}
        # Names of which the reflector has told; it does not know what readers fetched.
        self._known: set[str] = set()
        self._has_begun = self._is_synced = False
        self._task: asyncio.Task[None] | None = None

    @property
    def items(self) -> tuple[ReferencedItem[StoreT], ...]:
        """What is followed."""
        return tuple(self._items.values())

    def start(self, group: asyncio.TaskGroup) -> None:
        """Follow until stopped."""
        name = f"watch {self._source.noun}s of {self._namespace}"
        self._task = group.create_task(supervise(name, self._follow), name=name)

    def stop(self) -> None:
        """Follow no more; what was known counts as unknown."""
        if self._task is not None:
            self._task.cancel()
        self._has_begun = self._is_synced = False
        for item in self._items.values():
            item.is_synced.clear()

    def join(self, item: ReferencedItem[StoreT]) -> None:
        """Keep an item up to date from now on."""
        self._items[item.key.name] = item
        item.needs_fetch = self._has_begun
        if self._is_synced:
            item.is_synced.set()

    def leave(self, item: ReferencedItem[StoreT]) -> bool:
        """Forget an item; True if that was the last one."""
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
            log.info("namespace may not be watched", namespace=self._namespace, error=error)
            self._forbidden(self._namespace)

    # The reflector's sink

    def added(self, obj: StoreT) -> None:
        self._known.add(obj.metadata.name)
        self.modified(obj)

    def modified(self, obj: StoreT) -> None:
        if item := self._items.get(obj.metadata.name):
            item.offer(obj)

    def deleted(self, obj: StoreT) -> None:
        self._known.discard(obj.metadata.name)
        if item := self._items.get(obj.metadata.name):
            item.withdraw(obj)

    def synced(self) -> None:
        self._is_synced = True
        for item in self._items.values():
            item.is_synced.set()
            if item.object is not None and item.key.name not in self._known:
                # A reader fetched it, and this list does not have it.
                item.doubt()

    # What the reflector is shown

    def begin(self) -> None:
        self._has_begun = True

    def is_wanted(self, name: str) -> bool:
        return name in self._items

    def is_known(self, name: str) -> bool:
        return name in self._known


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


class WatchStore(Generic[StoreT]):
    """The referenced objects of one kind. Watches run while `run` does."""

    def __init__(
        self, *, source: ObjectSource[StoreT], changed: Callable[[ObjectKey], None], options: WatchOptions
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

    async def get(self, key: ObjectKey, *, timeout_seconds: float) -> StoreT:
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

    async def _bring_up_to_date(self, item: ReferencedItem[StoreT], timeout_seconds: float) -> None:
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
        """The namespace may not be watched: watch its objects one by one."""
        self._forbidden.add(namespace)
        for item in self._namespaces.pop(namespace).items:
            item.needs_fetch = False
            self._objects.follow(item)
