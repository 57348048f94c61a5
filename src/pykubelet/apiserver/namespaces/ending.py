"""Namespaces that really end: delete what is in them, wait for what has finalizers, then let them go.

The store tells of each change, so waiting costs nothing: what is left in a namespace is a set of keys, from which each
removal takes one. Conditions say what it is, brought up to date once a second at most.

Upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go
"""

from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.keyed_queue import KeyedQueue
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.namespace_ending import Remaining, is_ending, is_held, with_remaining, without_finalizer
from pykubelet.api.resources import NAMESPACES
from pykubelet.api.wire import Document
from pykubelet.apiserver.call import ALL_AUTHENTICATED, MASTERS, Call, User
from pykubelet.apiserver.objects.deletion import DeleteOptions
from pykubelet.apiserver.objects.stored_forms import in_order
from pykubelet.apiserver.registry import Registry
from pykubelet.apiserver.store import Commits, Entry, Key, Store, StoreChange
from pykubelet.apiserver.verbs.means import now_text

CONTROLLER = User("system:serviceaccount:kube-system:namespace-controller", (MASTERS, ALL_AUTHENTICATED))
_CONDITIONS_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_BACKGROUND = DeleteOptions(policy="Background")


class Objects(Store, Commits, Protocol):
    """A store that tells of changes as they happen."""


class Deleter(Protocol):
    """Deletes objects as a client would."""

    async def delete(self, call: Call, options: DeleteOptions) -> None:
        """Delete the object that the call is about; ApiError if that fails."""


class NamespaceEnd:
    """The task; the owner of what is known about namespaces that end."""

    def __init__(self, *, store: Objects, registry: Registry, deleter: Deleter, clock: Clock) -> None:
        self._store, self._registry, self._deleter, self._clock = store, registry, deleter, clock
        self._remaining: dict[str, set[Key]] = {}
        self._listened: set[str] = set()
        self._queue: KeyedQueue[str, None] = KeyedQueue()

    async def run(self) -> None:
        """Watch over namespaces for as long as the server runs."""
        self._listen(NAMESPACES.group_resource)
        for entry in self._store.list(NAMESPACES.group_resource).entries:
            self._queue.put(entry.key.name, None)
        while True:
            name, _ = await self._queue.get()
            try:
                await self._advance(name)
            finally:
                self._queue.done(name)

    def _listen(self, collection: str) -> None:
        if collection not in self._listened:
            self._listened.add(collection)
            self._store.listen(collection, self._heard)

    def _heard(self, change: StoreChange) -> None:
        key = change.key
        if key.collection == NAMESPACES.group_resource:
            if key.name not in self._remaining and change.after is not None and is_ending(change.document):
                self._queue.put(key.name, None)
            elif change.after is None:
                self._remaining.pop(key.name, None)
        elif (remaining := self._remaining.get(key.namespace)) is not None:
            if change.after is not None:
                if change.before is None:
                    remaining.add(key)
                return
            remaining.discard(key)
            if remaining:
                self._queue.put_later(key.namespace, None, _CONDITIONS_SECONDS)
            else:
                self._queue.put(key.namespace, None)

    async def _advance(self, name: str) -> None:
        """Take the end of a namespace as far as it goes now."""
        entry = self._store.newest(Key(NAMESPACES.group_resource, "", name))
        if entry is None or not is_ending(entry.document):
            self._remaining.pop(name, None)
            return
        failures = await self._delete_content(name)
        known = self._remaining.get(name, set())
        remaining = {key: finalizers for key in known if (finalizers := self._finalizers(key)) is not None}
        known.intersection_update(remaining)
        now = now_text(self._clock.now())

        def decide(existing: Entry | None) -> Document | None:
            if existing is None:
                return None
            namespace = existing.document
            if not is_ending(namespace):
                return namespace
            # Looked at once more: nothing may be left behind in a namespace that is gone.
            if not remaining and not self._store.newest_in(name):
                emptied = without_finalizer(namespace)
                return in_order(emptied) if is_held(emptied) else None
            left = [Remaining(key.collection, finalizers) for key, finalizers in remaining.items()]
            return in_order(with_remaining(namespace, left, failures, now))

        await self._store.write(Key(NAMESPACES.group_resource, "", name), decide)
        if failures or (not remaining and self._store.newest_in(name)):
            self._queue.put_later(name, None, _RETRY_SECONDS)

    async def _delete_content(self, name: str) -> list[str]:
        """Delete everything in a namespace that is not being deleted yet; what went wrong."""
        keys = self._store.newest_in(name)
        for collection in {key.collection for key in keys}:
            self._listen(collection)
        known = self._remaining.setdefault(name, set())
        known.update(keys)
        failures: list[str] = []
        for key in keys:
            entry = self._store.newest(key)
            if entry is None:
                known.discard(key)
            elif b'"deletionTimestamp":' not in entry.text or "deletionTimestamp" not in entry.document["metadata"]:
                try:
                    await self._delete(key)
                except NotFound:
                    known.discard(key)
                except ApiError as error:
                    failures.append(error.message)
        return failures

    async def _delete(self, key: Key) -> None:
        served = self._registry.of_collection(key.collection)
        if served is None:
            # Its kind is served no longer, so nobody can be waiting to finalize it.
            await self._store.write(key, lambda _: None)
            return
        call = Call(user=CONTROLLER, verb="delete", served=served, namespace=key.namespace, name=key.name)
        await self._deleter.delete(call, _BACKGROUND)

    def _finalizers(self, key: Key) -> list[str] | None:
        entry = self._store.newest(key)
        return None if entry is None else entry.document["metadata"].get("finalizers", [])
