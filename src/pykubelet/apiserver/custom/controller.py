"""Definitions at work: names accepted, kinds served, and objects removed when their definition is.

A kind is in the registry as soon as anybody can read that its definition is established: the store tells of each
change before it is seen. Everything else is done by one task, a definition at a time.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/{status,establish,finalizer}
"""

import asyncio
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.keyed_queue import KeyedQueue
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError
from pykubelet.api.times import format_time
from pykubelet.api.wire import Document
from pykubelet.apiserver.custom.conditions import is_true
from pykubelet.apiserver.custom.definitions import COLLECTION
from pykubelet.apiserver.custom.ending import completed, ended, in_progress, is_ending
from pykubelet.apiserver.custom.naming import named
from pykubelet.apiserver.custom.served_rows import served_rows
from pykubelet.apiserver.served import Served
from pykubelet.apiserver.store import Commits, Entry, Key, Store, StoreChange

log = get_logger(__name__)

# Objects with finalizers take as long as their owners do; upstream looks every five seconds.
_LOOK_AGAIN_SECONDS = 0.5
_RETRY_SECONDS = 1.0


class DefinitionStore(Store, Commits, Protocol):
    """A store that also tells of changes before they are seen."""


class Rows(Protocol):
    """The registry, as far as custom kinds change it."""

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """The row of a resource, or None."""

    def add(self, served: Served) -> None:
        """Serve a resource, or serve it by other rules."""

    def remove(self, group: str, version: str, plural: str) -> None:
        """Serve it no longer."""


class CustomResources:
    """Serves what definitions define. Kinds that are established are served once this is made."""

    def __init__(self, *, store: DefinitionStore, registry: Rows, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._served: dict[str, set[tuple[str, str, str]]] = {}
        self._queue: KeyedQueue[str, None] = KeyedQueue()
        store.listen(COLLECTION, self._hear)
        for entry in store.list(COLLECTION).entries:
            self._serve(entry.key.name, entry.document)
            self._queue.put(entry.key.name, None)

    async def run(self, ready: asyncio.Event) -> None:
        """Bring definitions on their way until cancelled."""
        ready.set()
        while True:
            name, _ = await self._queue.get()
            try:
                await self._sync(name)
            except ApiError as error:
                log.warning("definition not brought on", definition=name, error=error.message)
                self._queue.put_later(name, None, _RETRY_SECONDS)
            finally:
                self._queue.done(name)

    def _hear(self, change: StoreChange) -> None:
        """A definition changed: serve what it says from now on, and see what is to be done about it."""
        name = change.key.name
        self._serve(name, None if change.after is None else change.document)
        self._queue.put(name, None)

    def _serve(self, name: str, definition: Document | None) -> None:
        rows = () if definition is None else served_rows(definition)
        before = self._served.pop(name, set())
        now: set[tuple[str, str, str]] = set()
        for row in rows:
            place = (row.resource.group, row.resource.version, row.resource.plural)
            existing = self._registry.find(*place)
            if existing is not None and existing.custom is None:
                # Kinds of our own are never replaced.
                continue
            now.add(place)
            self._registry.add(row)
        for place in before - now:
            self._registry.remove(*place)
        if now:
            self._served[name] = now

    async def _sync(self, name: str) -> None:
        key = Key(COLLECTION, "", name)
        entry = self._store.get(key)
        if entry is None:
            # Its names are free now.
            self._look_at_refused()
            return
        definition = entry.document
        if is_ending(definition):
            await self._end(key, definition)
            return
        if self._named(definition) != definition:
            await self._store.write(key, self._name)
            self._look_at_refused()

    def _name(self, entry: Entry | None) -> Document | None:
        return None if entry is None else self._named(entry.document)

    def _named(self, definition: Document) -> Document:
        others = [entry.document for entry in self._store.list(COLLECTION).entries]
        return named(definition, others, self._now())

    def _look_at_refused(self) -> None:
        for entry in self._store.list(COLLECTION).entries:
            if not is_true(entry.document, "NamesAccepted"):
                self._queue.put(entry.key.name, None)

    async def _end(self, key: Key, definition: Document) -> None:
        if is_true(definition, "Established"):
            await self._store.write(key, self._mark_ending)
            if await self._objects_remain(definition):
                self._queue.put_later(key.name, None, _LOOK_AGAIN_SECONDS)
                return
        await self._store.write(key, self._complete)

    def _mark_ending(self, entry: Entry | None) -> Document | None:
        return None if entry is None else in_progress(entry.document, self._now())

    def _complete(self, entry: Entry | None) -> Document | None:
        return None if entry is None else completed(entry.document, self._now())

    async def _objects_remain(self, definition: Document) -> bool:
        """Whether objects are still there after all that may go have gone."""
        spec = definition["spec"]
        collection = f"{spec['names']['plural']}.{spec['group']}"
        keys = [entry.key for entry in self._store.list(collection).entries]
        # All at once, so that one commit takes them all.
        answers = await asyncio.gather(
            *(self._store.write(key, self._end_object) for key in keys), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return bool(self._store.list(collection).entries)

    def _end_object(self, entry: Entry | None) -> Document | None:
        return None if entry is None else ended(entry.document, self._now())

    def _now(self) -> str:
        return format_time(self._clock.now())
