"""Watch a collection: changes as they are committed, as texts that all watchers share.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/{get,watch}.go, storage/cacher/cacher.go
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from pykubelet.aio.backoff import system_random
from pykubelet.api.errors import ApiError
from pykubelet.apiserver.call import Call, Event, Stream
from pykubelet.apiserver.failures import too_large_version
from pykubelet.apiserver.objects.stored_forms import collection_of
from pykubelet.apiserver.objects.watch_events import View, bookmark, failure
from pykubelet.apiserver.requests.query import ListOptions, list_options
from pykubelet.apiserver.requests.revisions import parse_revision, unreadable_revision
from pykubelet.apiserver.requests.selection import selection
from pykubelet.apiserver.store import Batch, Store, Watch
from pykubelet.apiserver.verbs.means import Means

Batches = AsyncGenerator[tuple[Event, ...], None]

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

    view: View
    revision: int
    starts_with_all: bool
    bookmarks: bool
    seconds: float


async def watch(means: Means, call: Call) -> Stream:
    """The changes after a revision; those without one start with what is there."""
    return Stream(_events(means.store, _plan(call)))


def _plan(call: Call) -> _Plan:
    served = call.served
    options = list_options({**call.query, "watch": "true"})
    revision = parse_revision(options.resource_version)
    if revision is None:
        # Upstream gives no reason with this one.
        raise ApiError(unreadable_revision(options.resource_version))
    chosen = selection(options.labels, options.fields, served)
    return _Plan(
        View(served, call.namespace if served.resource.namespaced else "", call.name or chosen.name or "", chosen),
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


async def _timed(changes: Watch, ends_at: float, *, bookmarks: bool) -> AsyncGenerator[Batch, None]:
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
            yield Batch((), batch.revision)
        else:
            yield batch


def _next_bookmark(now: float, ends_at: float) -> float | None:
    """When the next bookmark is due; None if none will be."""
    due_at = min(now + BOOKMARK_SECONDS, ends_at - LAST_BOOKMARK_SECONDS)
    return due_at if due_at > now else None
