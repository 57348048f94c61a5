"""Watches a collection: sends each change as it is committed, as a text that all watchers share.

An object that enters the selection appears as ADDED. One that leaves it appears as DELETED, in its state before.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/watch.go,
staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go,
staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go
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
    ObjectSelector,
    list_options,
    object_selector,
    parse_revision,
    revision_error,
)
from pykubelet.apiserver.handlers.write import RequestScope
from pykubelet.apiserver.request import ApiRequest, SerializedEvent, WatchStream
from pykubelet.apiserver.storage.codec import collection_of, in_order, served_form, served_text
from pykubelet.apiserver.storage.interfaces import ChangeBatch, ChangeWatch, Store, StoreChange, StoreEntry
from pykubelet.kinds.kind import Kind

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
BOOKMARK_SECONDS = 60.0
LAST_BOOKMARK_SECONDS = 2.0
"""A watch sends a last bookmark this long before its end, so that the client can resume there."""
MIN_WATCH_SECONDS = 1800.0
"""A watch without a timeout lasts between this and twice this, so that not all end at once."""
AT_ONCE = 500
"""Initial objects per batch, so that a large collection does not block other requests."""


async def watch(scope: RequestScope, request: ApiRequest) -> WatchStream:
    """Starts a watch after a revision. Without a revision it starts with the existing objects."""
    return WatchStream(_events(scope.store, _plan(request)))


@dataclass(frozen=True, slots=True)
class WatchFilter:
    """The objects that a watcher selects; an empty namespace or name selects any."""

    served: Kind
    namespace: str
    name: str
    selection: ObjectSelector

    def event(self, change: StoreChange) -> SerializedEvent | None:
        """The event of a change; None if the watcher does not select the object."""
        if not self._covers(change.key.namespace, change.key.name):
            return None
        was, now = change.before is not None, change.after is not None
        if not self.selection.is_everything:
            was = was and self._selects(change.before_document)
            now = now and self._selects(change.document)
        if now:
            return self._event("MODIFIED" if was else "ADDED", change.entry)
        if not was:
            return None
        return self._event("DELETED", _last_entry(change))

    def initial(self, entry: StoreEntry) -> SerializedEvent | None:
        """The ADDED event of an object that exists when the watch starts; None if the watcher does not select it."""
        if not self._covers(entry.key.namespace, entry.key.name):
            return None
        if not self.selection.is_everything and not self._selects(entry.document):
            return None
        return self._event("ADDED", entry)

    def _event(self, kind: Literal["ADDED", "MODIFIED", "DELETED"], entry: StoreEntry) -> SerializedEvent:
        served = self.served
        if served.stored is None:
            return SerializedEvent(kind, entry.text, entry)
        return SerializedEvent(kind, served_text(served, entry.text))

    def _covers(self, namespace: str, name: str) -> bool:
        return self.namespace in ("", namespace) and self.name in ("", name)

    def _selects(self, stored: Document | None) -> bool:
        return stored is not None and self.selection.matches(served_form(self.served, stored), self.served)


def bookmark_event(served: Kind, revision: int, *, ends_initial_events: bool = False) -> SerializedEvent:
    """A BOOKMARK event: an object that has only the watch's current revision."""
    empty = schema_of(served.definition).empty if served.definition else {}
    metadata: Document = {"resourceVersion": str(revision)}
    if ends_initial_events:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    resource = served.resource
    document = {**empty, "kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return SerializedEvent("BOOKMARK", encode(in_order(document)))


def _last_entry(change: StoreChange) -> StoreEntry:
    """The object before the change, with the revision of the change."""
    if change.after is None:
        return change.entry
    before = change.before_document
    assert before is not None
    last = {**before, "metadata": {**before["metadata"], "resourceVersion": str(change.revision)}}
    return StoreEntry(change.key, change.revision, encode(last))


@dataclass(frozen=True, slots=True)
class _Plan:
    view: WatchFilter
    revision: int
    starts_with_all: bool
    bookmarks: bool
    seconds: float


def _plan(request: ApiRequest) -> _Plan:
    served = request.served
    options = list_options({**request.query, "watch": "true"})
    revision = parse_revision(options.resource_version)
    if revision is None:
        # Upstream sends no reason with this error.
        raise ApiError(revision_error(options.resource_version))
    chosen = object_selector(options.labels, options.fields, served)
    return _Plan(
        WatchFilter(
            served, request.namespace if served.resource.namespaced else "", request.name or chosen.name or "", chosen
        ),
        revision,
        revision == 0 if options.send_initial_events is None else options.send_initial_events,
        options.allow_bookmarks,
        options.timeout_seconds or MIN_WATCH_SECONDS * (1 + system_random()),
    )


async def _events(store: Store, plan: _Plan) -> AsyncGenerator[tuple[SerializedEvent, ...], None]:
    """The watch's events until its timeout; an error is sent as the last event."""
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
                yield (bookmark_event(plan.view.served, after, ends_initial_events=True),)
        elif plan.revision == 0:
            after = store.revision
        async with store.watch(collection_of(plan.view.served), after) as changes:
            async for batch in _batches_until(changes, ends_at, bookmarks=plan.bookmarks):
                if events := [event for change in batch.changes if (event := plan.view.event(change)) is not None]:
                    yield tuple(events)
                elif not batch.changes:
                    yield (bookmark_event(plan.view.served, batch.revision),)
    except ApiError as error:
        yield (SerializedEvent("ERROR", encode(error.to_status())),)


async def _batches_until(changes: ChangeWatch, ends_at: float, *, bookmarks: bool) -> AsyncGenerator[ChangeBatch, None]:
    """Batches of changes until the timeout; with `bookmarks`, empty batches mark when a bookmark is due."""
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
            # A timer may fire a moment early; reading the clock then would have it fire again at once, and again.
            due_at = _next_bookmark(max(loop.time(), due_at), ends_at)
            batch = changes.take()
            if batch.changes:
                yield batch
            yield ChangeBatch((), batch.revision)
        else:
            yield batch


def _next_bookmark(now: float, ends_at: float) -> float | None:
    """When the next bookmark is due; None if no more follows."""
    due_at = min(now + BOOKMARK_SECONDS, ends_at - LAST_BOOKMARK_SECONDS)
    return due_at if due_at > now else None
