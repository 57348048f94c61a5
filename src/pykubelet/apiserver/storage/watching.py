"""Watches: each commit is handed to the watches of the collections it touches, and to nobody else.

A watch holds the changes of the last few commits, which all watches share, so what is made of a change is made once.
One that falls further behind holds nothing: it reads on in the history, and ends with Expired if that has moved past
it. So a slow reader costs no memory, and is told the truth.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import chain
from types import TracebackType
from typing import Self

from pykubelet.aio.log import get_logger
from pykubelet.apiserver.storage.history import History
from pykubelet.apiserver.store import Batch, StoreChange

log = get_logger(__name__)

HELD_CHANGES = 256
"""Changes a watch holds before it turns to the history: a hundred milliseconds or so of the busiest server."""
READ_AT_ONCE = 500
"""Changes read from history at a time: the loop serves others in between."""


class StoreWatch:
    """A watch of one collection; implements `store.Watch`. It starts as one that lags behind, at `after`."""

    def __init__(self, watches: "Watches", collection: str, after: int) -> None:
        self._watches, self._collection = watches, collection
        self._seen = after
        self._held: list[tuple[StoreChange, ...]] = []
        self._held_count = 0
        self._lags = True
        self._wake: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        self._watches.join(self, self._collection, self._seen)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watches.leave(self, self._collection)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        while True:
            batch = self.take()
            if batch.changes:
                return batch
            if self._watches.is_closed:
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    def take(self) -> Batch:
        """What there is now; see `store.Watch`."""
        if self._lags:
            changes = self._watches.history.since(self._collection, self._seen, READ_AT_ONCE)
            is_all = len(changes) < READ_AT_ONCE
            reached = self._watches.revision if is_all else changes[-1].revision
            # One that starts in the future stays behind until that has come.
            self._lags = not is_all or reached < self._seen
        else:
            changes = self._held[0] if len(self._held) == 1 else tuple(chain.from_iterable(self._held))
            reached = self._watches.revision
        self._held, self._held_count = [], 0
        self._seen = max(self._seen, reached)
        return Batch(changes, self._seen)

    def offer(self, changes: tuple[StoreChange, ...]) -> None:
        """Hold changes for the reader, and wake it."""
        if not self._lags:
            self._held.append(changes)
            self._held_count += len(changes)
            # A single commit is held whatever its size: all watches share it.
            if self._held_count > HELD_CHANGES and len(self._held) > 1:
                self._lags = True
                self._held, self._held_count = [], 0
        self.wake()

    def wake(self) -> None:
        """Have the reader look again."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class Watches:
    """All watches and listeners of a store."""

    def __init__(self, history: History, revision: int) -> None:
        self.history, self.revision = history, revision
        self.is_closed = False
        self._watches: dict[str, set[StoreWatch]] = {}
        self._listeners: dict[str, list[Callable[[StoreChange], None]]] = {}

    def join(self, watch: StoreWatch, collection: str, after: int) -> None:
        """Have a watch offered what happens; Expired if it comes too late."""
        self.history.require(collection, after)
        self._watches.setdefault(collection, set()).add(watch)

    def leave(self, watch: StoreWatch, collection: str) -> None:
        """Offer it nothing more."""
        watches = self._watches[collection]
        watches.discard(watch)
        if not watches:
            del self._watches[collection]

    def listen(self, collection: str, heard: Callable[[StoreChange], None]) -> None:
        """Call back for each change; see `store.Commits`."""
        self._listeners.setdefault(collection, []).append(heard)

    def has_audience(self, collection: str) -> bool:
        """Whether anybody wants to know about a collection."""
        return collection in self._watches or collection in self._listeners

    def publish(self, collection: str, changes: Sequence[StoreChange]) -> None:
        """Tell everybody who follows a collection; history and revision are up to date."""
        for heard in self._listeners.get(collection, ()):
            for change in changes:
                try:
                    heard(change)
                except Exception as error:  # noqa: BLE001  the others, and the writer, must hear of it all the same
                    log.error("a listener failed", error=error, collection=collection, revision=change.revision)
        shared = tuple(changes)
        for watch in self._watches.get(collection, ()):
            watch.offer(shared)

    def close(self) -> None:
        """End every watch, once it has given what it has."""
        self.is_closed = True
        for watch in chain.from_iterable(self._watches.values()):
            watch.wake()
