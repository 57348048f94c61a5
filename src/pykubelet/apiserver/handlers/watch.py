"""Watch a collection: changes as they are committed, as texts that all watchers share.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/{get,watch}.go, storage/cacher/cacher.go

What a watcher sees of a change: an event, or nothing.

In: a change of the store, and which objects the watcher follows. Out: the event. An object that comes into the selection
looks added, one that leaves it looks deleted, and looks as it did before it left.

Upstream: k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go (convertToWatchEvent)
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal

from pykubelet.aio.backoff import system_random
from pykubelet.api.errors import ApiError
from pykubelet.api.serializer import Document, encode
from pykubelet.apiserver.errors import too_large_version
from pykubelet.apiserver.fieldmanager.typeconverter import schema_of
from pykubelet.apiserver.handlers.options import (
    ListOptions,
    ObjectSelector,
    list_options,
    object_selector,
    parse_revision,
    unreadable_revision,
)
from pykubelet.apiserver.handlers.write import RequestScope
from pykubelet.apiserver.request import ApiRequest, SerializedEvent, WatchStream
from pykubelet.apiserver.storage.codec import collection_of, in_order, served_form, served_text
from pykubelet.apiserver.storage.interfaces import ChangeBatch, ChangeWatch, Store, StoreChange, StoreEntry
from pykubelet.kinds.kind import Kind

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class WatchFilter:
    """What a watcher follows; an empty namespace or name is any."""

    served: Kind
    namespace: str
    name: str
    selection: ObjectSelector

    def event(self, change: StoreChange) -> SerializedEvent | None:
        """The event of a change."""
        if not self._covers(change.key.namespace, change.key.name):
            return None
        was, now = change.before is not None, change.after is not None
        if not self.selection.is_everything:
            was = was and self._selects(change.before_document)
            now = now and self._selects(change.document)
        if now:
            return SerializedEvent("MODIFIED" if was else "ADDED", served_text(self.served, change.text))
        if not was:
            return None
        return SerializedEvent("DELETED", served_text(self.served, _last_text(change)))

    def initial(self, entry: StoreEntry) -> SerializedEvent | None:
        """The event that tells of an object which was there already."""
        if not self._covers(entry.key.namespace, entry.key.name):
            return None
        if not self.selection.is_everything and not self._selects(entry.document):
            return None
        return SerializedEvent("ADDED", served_text(self.served, entry.text))

    def _covers(self, namespace: str, name: str) -> bool:
        return self.namespace in ("", namespace) and self.name in ("", name)

    def _selects(self, stored: Document | None) -> bool:
        return stored is not None and self.selection.matches(served_form(self.served, stored), self.served)


def bookmark(served: Kind, revision: int, *, ends_initial_events: bool = False) -> SerializedEvent:
    """The event that says how far a watch has come: an object with nothing but that in it."""
    empty = schema_of(served.definition).empty if served.definition else {}
    metadata: Document = {"resourceVersion": str(revision)}
    if ends_initial_events:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    resource = served.resource
    document = {**empty, "kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return SerializedEvent("BOOKMARK", encode(in_order(document)))


def failure(error: ApiError) -> SerializedEvent:
    """The event that ends a watch which cannot go on."""
    kind: Literal["ERROR"] = "ERROR"
    return SerializedEvent(kind, encode(error.to_status()))


def _last_text(change: StoreChange) -> bytes:
    """The object as it was before the change, at the revision of the change."""
    if change.after is None:
        return change.text
    before = change.before_document
    assert before is not None
    return encode({**before, "metadata": {**before["metadata"], "resourceVersion": str(change.revision)}})


Batches = AsyncGenerator[tuple[SerializedEvent, ...], None]

BOOKMARK_SECONDS = 60.0
LAST_BOOKMARK_SECONDS = 2.0
"""So long before its end a watch gets a bookmark, from which its client can go on."""
MIN_WATCH_SECONDS = 1800.0
"""A watch that does not say how long lasts this long, or up to twice as long so that not all end at once."""
AT_ONCE = 500
"""Objects told of at a time when a watch starts: others are served in between."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a watch is to go."""

    view: WatchFilter
    revision: int
    starts_with_all: bool
    bookmarks: bool
    seconds: float


async def watch(scope: RequestScope, request: ApiRequest) -> WatchStream:
    """The changes after a revision; those without one start with what is there."""
    return WatchStream(_events(scope.store, _plan(request)))


def _plan(request: ApiRequest) -> _Plan:
    served = request.served
    options = list_options({**request.query, "watch": "true"})
    revision = parse_revision(options.resource_version)
    if revision is None:
        # Upstream gives no reason with this one.
        raise ApiError(unreadable_revision(options.resource_version))
    chosen = object_selector(options.labels, options.fields, served)
    return _Plan(
        WatchFilter(
            served, request.namespace if served.resource.namespaced else "", request.name or chosen.name or "", chosen
        ),
        revision,
        _starts_with_all(options, revision),
        options.allow_bookmarks,
        options.timeout_seconds or MIN_WATCH_SECONDS * (1 + system_random()),
    )


def _starts_with_all(options: ListOptions, revision: int) -> bool:
    return revision == 0 if options.send_initial_events is None else options.send_initial_events


async def _events(store: Store, plan: _Plan) -> Batches:
    """What a watcher is told, until its time is up; a failure is told too, and is the end."""
    ends_at = asyncio.get_running_loop().time() + plan.seconds
    after = plan.revision
    try:
        if plan.starts_with_all:
            if plan.revision > store.revision:
                raise too_large_version(plan.revision, store.revision)
            snapshot = store.list(collection_of(plan.view.served))
            after = snapshot.revision
            events = [event for entry in snapshot.entries if (event := plan.view.initial(entry)) is not None]
            for start in range(0, len(events), AT_ONCE):
                yield tuple(events[start : start + AT_ONCE])
            if plan.bookmarks:
                yield (bookmark(plan.view.served, after, ends_initial_events=True),)
        elif plan.revision == 0:
            after = store.revision
        async with store.watch(collection_of(plan.view.served), after) as changes:
            async for batch in _timed(changes, ends_at, bookmarks=plan.bookmarks):
                if events := [event for change in batch.changes if (event := plan.view.event(change)) is not None]:
                    yield tuple(events)
                elif not batch.changes:
                    yield (bookmark(plan.view.served, batch.revision),)
    except ApiError as error:
        yield (failure(error),)


async def _timed(changes: ChangeWatch, ends_at: float, *, bookmarks: bool) -> AsyncGenerator[ChangeBatch, None]:
    """Batches until the end; with `bookmarks`, every so often and shortly before the end one without changes."""
    loop = asyncio.get_running_loop()
    due_at = _next_bookmark(loop.time(), ends_at) if bookmarks else None
    while True:
        try:
            async with asyncio.timeout_at(ends_at if due_at is None else due_at):
                batch = await anext(changes)
        except StopAsyncIteration:
            return
        except TimeoutError:
            if due_at is None:
                return
            due_at = _next_bookmark(loop.time(), ends_at)
            batch = changes.take()
            if batch.changes:
                yield batch
            yield ChangeBatch((), batch.revision)
        else:
            yield batch


def _next_bookmark(now: float, ends_at: float) -> float | None:
    """When the next bookmark is due; None if none will be."""
    due_at = min(now + BOOKMARK_SECONDS, ends_at - LAST_BOOKMARK_SECONDS)
    return due_at if due_at > now else None
