"""Caches the objects that registered pods refer to, with one of three strategies: watch, TTL or get.

`Registration` passes only differences of a pod's references to the store.

Upstream: pkg/kubelet/util/manager/cache_based_manager.go, pkg/kubelet/util/manager/manager.go
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple

from pykubelet.aio.queues import Broadcast, Subscription
from pykubelet.api.generated.core import Pod
from pykubelet.kubelet.objectcache.store import ObjectKey, ObjectSource, ObjectStore, T, TtlSeconds, TtlStore, no_ttl
from pykubelet.kubelet.objectcache.watch_based_manager import WatchOptions, WatchStore

READ_TIMEOUT_SECONDS = 1.0
"""How long a reader waits for the first state from the API server by default."""


class LiveStore(Generic[T]):
    """Reads objects from the API server at every get; ignores references."""

    def __init__(self, *, source: ObjectSource[T]) -> None:
        self._source = source

    def add_reference(self, key: ObjectKey, referrer: str) -> None:
        """Does nothing: every get reads the API server."""

    def delete_reference(self, key: ObjectKey, referrer: str) -> None:
        """Does nothing: every get reads the API server."""

    async def get(self, key: ObjectKey, *, timeout_seconds: float) -> T:  # noqa: ARG002  requests have their own
        return await self._source.fetch(key)

    async def run(self, ready: asyncio.Event) -> None:
        """Does nothing in the background."""
        ready.set()


class _PodKey(NamedTuple):
    """Includes the UID, so that a recreated pod of the same name does not cancel its predecessor."""

    namespace: str
    name: str
    uid: str


class Registration:
    """The registered pods and the names they refer to."""

    def __init__(self, *, names: Callable[[Pod], frozenset[str]], counter: ObjectStore[Any]) -> None:
        self._names, self._counter = names, counter
        self._registered: dict[_PodKey, frozenset[str]] = {}

    def register_pod(self, pod: Pod) -> None:
        """Add the references of a new or changed pod; unchanged references are left alone."""
        key = _key(pod)
        before, now = self._registered.get(key, frozenset()), self._names(pod)
        self._registered[key] = now
        # Added before removed: an object that only moved to another field always has a reference.
        for name in sorted(now - before):
            self._counter.add_reference(ObjectKey(key.namespace, name), key.uid)
        self._release(key, before - now)

    def unregister_pod(self, pod: Pod) -> None:
        """Drop the references the pod was registered with, whatever its spec says now."""
        key = _key(pod)
        self._release(key, self._registered.pop(key, frozenset()))

    def _release(self, key: _PodKey, names: frozenset[str]) -> None:
        for name in sorted(names):
            self._counter.delete_reference(ObjectKey(key.namespace, name), key.uid)


def _key(pod: Pod) -> _PodKey:
    return _PodKey(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


class ChangeDetectionStrategy(StrEnum):
    """How changes are noticed; the values of `configMapAndSecretChangeDetectionStrategy`."""

    WATCH = "Watch"
    TTL = "Cache"
    GET = "Get"


def parse_strategy(text: str) -> ChangeDetectionStrategy:
    """The strategy of this name; raises ValueError if it is unknown."""
    try:
        return ChangeDetectionStrategy(text)
    except ValueError:
        raise ValueError(f"unknown configmap and secret manager mode: {text}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """The options of a cache."""

    strategy: str = ChangeDetectionStrategy.WATCH
    sync_frequency_seconds: float = 60.0
    """The resync period of pods: a watch of a single object is idle after five times that."""
    ttl_seconds: TtlSeconds = no_ttl
    """How long an object is fresh without a watch; see `node_ttl`."""
    max_streams: int = 100
    """The maximum number of watches of single objects."""
    single_object_watches: bool = False
    """Never watch a whole namespace, as if the server had refused it."""


class ReferenceCache(Generic[T]):
    """The objects of one kind that registered pods refer to. Owned by one loop."""

    def __init__(
        self, *, source: ObjectSource[T], names: Callable[[Pod], frozenset[str]], options: CacheOptions
    ) -> None:
        """Raises ValueError if the strategy is unknown."""
        self._changes: Broadcast[ObjectKey] = Broadcast()
        self._store = _store(source, self._changes.publish, options)
        self._registration = Registration(names=names, counter=self._store)

    def register_pod(self, pod: Pod) -> None:
        """Keep the objects of a pod available from now on; does not block, may be called at every sync."""
        self._registration.register_pod(pod)

    def unregister_pod(self, pod: Pod) -> None:
        """Release the references of a pod; does not block, may be called again."""
        self._registration.unregister_pod(pod)

    async def get(self, namespace: str, name: str, *, timeout_seconds: float = READ_TIMEOUT_SECONDS) -> T:
        """An object that a registered pod refers to.

        Raises NotFound if it does not exist, NotRegistered if no registered pod refers to it (not with strategy Get), NotSynced
        if the watch has not delivered it in time, ApiError if the request failed.
        """
        return await self._store.get(ObjectKey(namespace, name), timeout_seconds=timeout_seconds)

    def subscribe(self) -> AbstractContextManager[Subscription[ObjectKey]]:
        """Receive the keys of objects that may have changed, as hints to `get` them; Lagged means any of them."""
        return self._changes.subscribe()

    async def run(self, ready: asyncio.Event) -> None:
        """Keep watches open until cancelled; returns at once for strategies without watches."""
        await self._store.run(ready)


def _store(source: ObjectSource[T], changed: Callable[[ObjectKey], None], options: CacheOptions) -> ObjectStore[T]:
    match parse_strategy(options.strategy):
        case ChangeDetectionStrategy.GET:
            return LiveStore(source=source)
        case ChangeDetectionStrategy.TTL:
            return TtlStore(source=source, changed=changed, ttl_seconds=options.ttl_seconds)
        case ChangeDetectionStrategy.WATCH:
            watch_options = WatchOptions(
                max_idle_seconds=5 * options.sync_frequency_seconds,
                max_streams=options.max_streams,
                single_object_watches=options.single_object_watches,
                ttl_seconds=options.ttl_seconds,
            )
            return WatchStore(source=source, changed=changed, options=watch_options)
