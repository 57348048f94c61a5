"""Secrets and config maps at hand for the pods that refer to them: one machine, three strategies.

Pods are registered and unregistered; readers get objects by namespace and name. Upstream:
pkg/kubelet/{secret,configmap} and pkg/kubelet/util/manager.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic

from pykubelet.agent.refs.live_store import LiveStore
from pykubelet.agent.refs.registration import Registration
from pykubelet.agent.refs.store import ObjectKey, ObjectSource, ObjectStore, T
from pykubelet.agent.refs.ttl_store import TtlSeconds, TtlStore, no_ttl
from pykubelet.agent.refs.watch_store import WatchOptions, WatchStore
from pykubelet.aio.broadcast import Broadcast, Subscription
from pykubelet.api.generated.core import Pod

PATIENCE_SECONDS = 1.0
"""How long a reader waits for the first word of the API server unless it says otherwise."""


class Strategy(StrEnum):
    """How changes are noticed; the values are those of `configMapAndSecretChangeDetectionStrategy`."""

    WATCH = "Watch"
    TTL = "Cache"
    GET = "Get"


def parse_strategy(text: str) -> Strategy:
    """The strategy a configuration names; ValueError if there is none of that name."""
    try:
        return Strategy(text)
    except ValueError:
        raise ValueError(f"unknown configmap and secret manager mode: {text}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """What a cache may be told."""

    strategy: str = Strategy.WATCH
    sync_frequency_seconds: float = 60.0
    """How often volumes are looked at: a watch of a single object is idle after five times that."""
    ttl_seconds: TtlSeconds = no_ttl
    """How long an object counts as fresh where no watch tells of changes; see `node_ttl`."""
    max_streams: int = 100
    """At most so many watches of single objects."""
    single_object_watches: bool = False
    """Never try to watch a namespace, as if the server had refused it."""


class ReferenceCache(Generic[T]):
    """The objects of one kind that registered pods refer to. Owned by one loop."""

    def __init__(
        self, *, source: ObjectSource[T], names: Callable[[Pod], frozenset[str]], options: CacheOptions
    ) -> None:
        """ValueError if the strategy is unknown."""
        self._changes: Broadcast[ObjectKey] = Broadcast()
        self._store = _store(source, self._changes.publish, options)
        self._registration = Registration(names=names, counter=self._store)

    def register_pod(self, pod: Pod) -> None:
        """Keep what the pod refers to at hand from now on; never waits, may be called at every sync."""
        self._registration.register_pod(pod)

    def unregister_pod(self, pod: Pod) -> None:
        """The pod needs its references no more; never waits, may be called again."""
        self._registration.unregister_pod(pod)

    async def get(self, namespace: str, name: str, *, timeout_seconds: float = PATIENCE_SECONDS) -> T:
        """An object that a registered pod refers to.

        NotFound if it does not exist, NotRegistered if no registered pod refers to it (strategy Get does not ask),
        NotSynced if a watch has not told of it within the time given, ApiError if the request for it failed.
        """
        return await self._store.get(ObjectKey(namespace, name), timeout_seconds=timeout_seconds)

    def subscribe(self) -> AbstractContextManager[Subscription[ObjectKey]]:
        """Hear which objects may have changed: a hint to `get` them again. Lagged: any of them may have."""
        return self._changes.subscribe()

    async def run(self, ready: asyncio.Event) -> None:
        """Keep watches open until cancelled; strategies without watches are done at once."""
        await self._store.run(ready)


def _store(source: ObjectSource[T], changed: Callable[[ObjectKey], None], options: CacheOptions) -> ObjectStore[T]:
    match parse_strategy(options.strategy):
        case Strategy.GET:
            return LiveStore(source=source)
        case Strategy.TTL:
            return TtlStore(source=source, changed=changed, ttl_seconds=options.ttl_seconds)
        case Strategy.WATCH:
            watch_options = WatchOptions(
                max_idle_seconds=5 * options.sync_frequency_seconds,
                max_streams=options.max_streams,
                single_object_watches=options.single_object_watches,
                ttl_seconds=options.ttl_seconds,
            )
            return WatchStore(source=source, changed=changed, options=watch_options)
