"""The reflector: lists a collection once, then watches it, and reports each change to a handler.

A cut stream resumes at its last resource version. Only when the server no longer has that version is the collection
listed again; the handler then gets the differences. Each object is added once, and deleted once before it is added
again.

Upstream: staging/src/k8s.io/client-go/tools/cache/reflector.go, staging/src/k8s.io/client-go/tools/cache/delta_fifo.go,
staging/src/k8s.io/client-go/tools/cache/store.go, staging/src/k8s.io/client-go/tools/pager/pager.go
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from pykubelet.aio.backoff import Backoff, Retries, system_random
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, Forbidden, Gone, NotReached, Timeout, TooManyRequests
from pykubelet.api.scheme import TypedKind
from pykubelet.client.interface import EVERYTHING, Listing, Reader, Selection, Watcher, WatchEvent

log = get_logger(__name__)

T = TypeVar("T")
Key = tuple[str, str]
"""The namespace and name of an object."""
T_contra = TypeVar("T_contra", contravariant=True)
PAGE_SIZE = 500
BACKOFF = Backoff(first_seconds=0.1, limit_seconds=30.0, factor=2.0, jitter=1.0)
"""Upstream starts with 0.8 s. A node reads a pod's objects a moment before kube-apiserver authorizes it to."""
HEALTHY_AFTER_SECONDS = 120.0
"""The backoff starts over after this time without a failure."""
SHORT_WATCH_SECONDS = 1.0
"""A watch that ends sooner and without an event counts as a failure; retrying at once would be a busy loop."""


@dataclass(frozen=True, slots=True)
class Delta(Generic[T]):
    """One change of one object; a deletion carries the object's last known state."""

    type: Literal["added", "modified", "deleted"]
    object: T


class _Identity(NamedTuple):
    key: Key
    uid: str
    resource_version: str


class KnownObjects(Generic[T]):
    """The last known state of each object, and the resource version of the whole. Owned by one task."""

    def __init__(self) -> None:
        self.revision = ""
        self._objects: dict[Key, T] = {}
        # An event about an unknown object that is not above this version is old: the object was deleted since.
        self._floor = ""

    def replaced(self, items: Iterable[T], revision: str) -> tuple[Delta[T], ...]:
        """Take over a full list; returns the differences, deletions first."""
        before, self._objects = self._objects, {_identity(item).key: item for item in items}
        self.revision = self._floor = revision
        deltas: list[Delta[T]] = []
        for key, old in before.items():
            if key not in self._objects or _identity(self._objects[key]).uid != _identity(old).uid:
                deltas.append(Delta("deleted", old))
        for key, new in self._objects.items():
            known = before.get(key)
            if known is None or _identity(known).uid != _identity(new).uid:
                deltas.append(Delta("added", new))
            elif _identity(known).resource_version != _identity(new).resource_version:
                deltas.append(Delta("modified", new))
        return tuple(deltas)

    def observed(self, event: WatchEvent[T]) -> tuple[Delta[T], ...]:
        """Take over one watch event; returns nothing if it is old, repeated or a bookmark."""
        if not _older(event.resource_version, self.revision):
            self.revision = event.resource_version or self.revision
        if event.type == "BOOKMARK" or event.object is None:
            return ()
        if event.type == "DELETED":
            return self._deleted(event.object)
        return self._present(event.object)

    def _present(self, new: T) -> tuple[Delta[T], ...]:
        identity = _identity(new)
        known = self._objects.get(identity.key)
        if known is None:
            if not _newer(identity.resource_version, self._floor):
                return ()
            self._objects[identity.key] = new
            return (Delta("added", new),)
        old = _identity(known)
        if identity == old or _older(identity.resource_version, old.resource_version):
            return ()
        self._objects[identity.key] = new
        if identity.uid != old.uid:
            return (Delta("deleted", known), Delta("added", new))
        return (Delta("modified", new),)

    def _deleted(self, last: T) -> tuple[Delta[T], ...]:
        identity = _identity(last)
        if _newer(identity.resource_version, self._floor):
            self._floor = identity.resource_version
        known = self._objects.get(identity.key)
        if known is None or _older(identity.resource_version, _identity(known).resource_version):
            return ()
        del self._objects[identity.key]
        # A later object with another UID: both it and the known one were deleted.
        return (Delta("deleted", last if identity.uid == _identity(known).uid else known),)


def _identity(obj: Any) -> _Identity:
    if isinstance(obj, dict):
        metadata = obj.get("metadata") or {}
        name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
        return _Identity((namespace, name), metadata.get("uid", ""), metadata.get("resourceVersion", ""))
    metadata = obj.metadata
    return _Identity((metadata.namespace, metadata.name), metadata.uid, metadata.resource_version)


def _is_number(resource_version: str) -> bool:
    return resource_version.isascii() and resource_version.isdigit()


def _older(one: str, other: str) -> bool:
    """Whether a resource version is provably older; versions that are not numbers cannot be compared."""
    return _is_number(one) and _is_number(other) and int(one) < int(other)


def _newer(one: str, other: str) -> bool:
    """Whether a resource version is newer, or cannot be compared."""
    return not (_is_number(one) and _is_number(other)) or int(one) > int(other)


class ListerWatcher(Reader, Watcher, Protocol):
    """The part of a client that a reflector needs."""


class ResourceEventHandler(Protocol[T_contra]):
    """Receives the changes of a collection. Called in the reflector's task, so it must not block."""

    def added(self, obj: T_contra, /) -> None:
        """A new object; never twice without `deleted` in between."""

    def modified(self, obj: T_contra, /) -> None:
        """A newer state of a known object."""

    def deleted(self, obj: T_contra, /) -> None:
        """A known object is gone; carries its last known state."""

    def synced(self) -> None:
        """A whole list has been delivered; called after the first list and after each later one."""


class Reflector(Generic[T]):
    """Follows one collection. `run` may be started again after it ended; the known objects are kept."""

    def __init__(
        self,
        *,
        client: ListerWatcher,
        kind: TypedKind[T],
        sink: ResourceEventHandler[T],
        clock: Clock,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        min_watch_seconds: float = 300.0,
        give_up_on_forbidden: bool = False,
    ) -> None:
        """An empty `namespace` means all. Each watch lasts between `min_watch_seconds` and twice that."""
        self._client, self._kind, self._sink, self._clock = client, kind, sink, clock
        self._namespace, self._selection = namespace, selection
        self._min_watch_seconds = min_watch_seconds
        self._give_up_on_forbidden = give_up_on_forbidden
        self._known: KnownObjects[T] = KnownObjects()
        self._retries = Retries(BACKOFF)
        self._last_failure = float("-inf")
        self._is_revision_unavailable = False
        self._is_paged = False
        self._log = log.bind(resource=kind.resource.group_resource, namespace=namespace, fields=selection.fields)

    async def run(self, ready: asyncio.Event) -> None:
        """Follow the collection until cancelled; sets `ready` after the first list is delivered.

        Raises Forbidden if the server forbids it and `give_up_on_forbidden` is set; no other ApiError.
        """
        while True:
            try:
                await self._list()
                ready.set()
                await self._watch()
            except ApiError as error:
                if self._give_up_on_forbidden and isinstance(error, Forbidden):
                    raise
                if isinstance(error, Gone):
                    self._log.debug("resource version too old, listing again", error=error)
                else:
                    self._log.warning("list and watch failed", error=error)
                await self._back_off(error)

    async def _list(self) -> None:
        """List the collection and deliver the differences."""
        try:
            listing = await self._all_pages(self._list_revision())
        except (Gone, Timeout) as error:
            if not _is_unavailable_revision(error):
                raise
            # Only a consistent read is sure to succeed; later attempts use it too until one succeeded.
            self._is_revision_unavailable = True
            listing = await self._all_pages("")
        self._is_revision_unavailable = False
        self._deliver(self._known.replaced(listing.items, listing.resource_version))
        self._call(self._sink.synced)

    def _list_revision(self) -> str:
        if self._is_revision_unavailable:
            return ""
        # "0" lets the server answer from its cache; later lists must not be older than what was seen.
        return self._known.revision or "0"

    async def _all_pages(self, resource_version: str) -> Listing[T]:
        # The server's cache serves a list at a given revision only if it is not paged.
        limit = PAGE_SIZE if self._is_paged or resource_version in {"", "0"} else 0
        first = page = await self._page(resource_version, limit)
        if page.continue_token and resource_version == "0":
            self._is_paged = True
        items = list(first.items)
        while page.continue_token:
            try:
                page = await self._page("", limit, page.continue_token)
            except Gone:
                return await self._page(resource_version, 0)
            items += page.items
        return Listing(tuple(items), first.resource_version)

    async def _page(self, resource_version: str, limit: int, continue_token: str = "") -> Listing[T]:
        return await self._client.list(
            self._kind,
            namespace=self._namespace,
            selection=self._selection,
            resource_version=resource_version,
            limit=limit,
            continue_token=continue_token,
        )

    async def _watch(self) -> None:
        """Deliver events, one stream after the other; raises the ApiError that makes a new list necessary."""
        while True:
            started = self._clock.monotonic()
            revision = self._known.revision
            is_open = False
            try:
                async with self._client.watch(
                    self._kind,
                    namespace=self._namespace,
                    selection=self._selection,
                    resource_version=revision,
                    timeout_seconds=self._min_watch_seconds * (1 + system_random()),
                ) as events:
                    is_open = True
                    async for event in events:
                        self._deliver(self._known.observed(event))
            except (NotReached, TooManyRequests) as error:
                # The known state is still valid: wait and watch from there, without a list.
                self._log.debug("watch interrupted", error=error)
                if not is_open or isinstance(error, TooManyRequests):
                    await self._back_off(error)
                    continue
            has_news = self._known.revision != revision
            if not has_news and self._clock.monotonic() - started < SHORT_WATCH_SECONDS:
                raise NotReached("the watch ended at once, without an event")

    def _deliver(self, deltas: Iterable[Delta[T]]) -> None:
        sink = self._sink
        methods = {"added": sink.added, "modified": sink.modified, "deleted": sink.deleted}
        for delta in deltas:
            self._call(methods[delta.type], delta.object)

    def _call(self, method: Callable[..., None], *args: T) -> None:
        try:
            method(*args)
        except Exception as error:  # noqa: BLE001  a bug in one handler must not end the stream
            self._log.error("event handler failed", error=error)

    async def _back_off(self, error: ApiError) -> None:
        now = self._clock.monotonic()
        if now - self._last_failure > HEALTHY_AFTER_SECONDS:
            self._retries.reset()
        self._last_failure = now
        await asyncio.sleep(max(self._retries.next_delay_seconds(), error.retry_after_seconds or 0))


def _is_unavailable_revision(error: ApiError) -> bool:
    """Whether the server cannot list at the requested version: it is too old, or not reached yet."""
    if isinstance(error, Gone) or error.has_cause("ResourceVersionTooLarge"):
        return True
    # Servers before 1.18.6 say so only in the message.
    words = (error.message, *(str(cause.get("message", "")) for cause in error.causes))
    return any("Too large resource version" in text for text in words)
