"""Follows the metadata of every object of every kind the server has, as kinds come and go.

In: what the server serves, asked for twice a minute and soon after a custom resource's definition has changed. Out:
one call for each change of an object, and one for each object of a kind that is served no more.
Upstream: the monitors of pkg/controller/garbagecollector/graph_builder.go, Sync in garbagecollector.go.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.supervise import start_supervised
from pykubelet.api.errors import ApiError
from pykubelet.api.partial import PartialMeta, PartialObject, metadata_of
from pykubelet.api.resources import Resource
from pykubelet.controllers.garbage.identity import Identity, identity_of
from pykubelet.kube.reflector import ListerWatcher, Reflector

log = get_logger(__name__)

LOOK_SECONDS = 30.0
SETTLE_SECONDS = 1.0
"""So long after a definition has changed its kind is served, and the other definitions of a manifest are there."""
_IGNORED = frozenset({"events", "events.events.k8s.io"})
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class KindClient(ListerWatcher, Protocol):
    """What is needed of an API server."""

    async def served(self) -> tuple[Resource, ...]:
        """Every resource whose objects can be listed and patched; of each group the preferred version first."""


class ObjectsSeen(Protocol):
    """Who hears of objects; the calls must not wait."""

    def observed(self, identity: Identity, metadata: PartialMeta, /) -> None:
        """An object is there or has changed."""

    def deleted(self, uid: str, /) -> None:
        """An object is gone."""

    def unfollowed(self, uid: str, /) -> None:
        """An object will not be heard of any more."""


def followed(served: Iterable[Resource]) -> dict[str, Resource]:
    """The resources to follow, one version of each."""
    chosen: dict[str, Resource] = {}
    for resource in served:
        if resource.group_resource not in _IGNORED:
            chosen.setdefault(resource.group_resource, resource)
    return chosen


class Monitors:
    """A reflector for every kind."""

    def __init__(self, *, client: KindClient, clock: Clock, seen: ObjectsSeen) -> None:
        self._client, self._clock, self._seen = client, clock, seen
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._running: dict[Resource, tuple[_Monitor, asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()

    def resource_of(self, api_version: str, kind: str) -> Resource | None:
        """The resource that shows objects of a kind."""
        return self._kinds.get((api_version, kind))

    async def run(self, ready: asyncio.Event) -> None:
        """Follow until cancelled; `ready` is set once everything that is served has been listed."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._look(group)
                if self._running and not ready.is_set():
                    await self._listed()
                    ready.set()
                await self._pause()

    async def _look(self, group: asyncio.TaskGroup) -> None:
        """Begin and end monitors, so that there is one for every kind that is served."""
        self._changed.clear()
        try:
            served = await self._client.served()
        except ApiError as error:
            log.warning("the server's kinds are not known, those known before count", cause=str(error))
            return
        if not served:
            return
        self._kinds = {(resource.api_version, resource.kind): resource for resource in reversed(served)}
        wanted = set(followed(served).values())
        for resource in self._running.keys() - wanted:
            monitor, task = self._running.pop(resource)
            task.cancel()
            monitor.end()
        for resource in sorted(wanted - self._running.keys(), key=lambda one: one.group_resource):
            hint = self._changed if resource.group_resource == _DEFINITIONS else None
            monitor = _Monitor(resource, self._seen, hint)
            reflector = Reflector(client=self._client, kind=metadata_of(resource), sink=monitor, clock=self._clock)
            name = f"garbage monitor of {resource.group_resource}"
            self._running[resource] = monitor, start_supervised(group, name, partial(reflector.run, monitor.has_listed))

    async def _listed(self) -> None:
        """Wait for all lists, though not for ever: a kind that cannot be listed must not hold up the others."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                for monitor, _ in self._running.values():
                    await monitor.has_listed.wait()

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._changed.wait()
            await asyncio.sleep(SETTLE_SECONDS)


class _Monitor:
    """The objects of one kind; a Sink of its reflector."""

    def __init__(self, resource: Resource, seen: ObjectsSeen, hint: asyncio.Event | None) -> None:
        self._resource, self._seen, self._hint = resource, seen, hint
        self._uids: set[str] = set()
        self._has_ended = False
        self.has_listed = asyncio.Event()

    def added(self, obj: PartialObject) -> None:
        self._uids.add(obj.metadata.uid)
        self.modified(obj)

    def modified(self, obj: PartialObject) -> None:
        metadata = obj.metadata
        self._tell_definitions()
        if not self._has_ended:
            identity = identity_of(self._resource, metadata.namespace, metadata.name, metadata.uid)
            self._seen.observed(identity, metadata)

    def deleted(self, obj: PartialObject) -> None:
        self._uids.discard(obj.metadata.uid)
        self._tell_definitions()
        if not self._has_ended:
            self._seen.deleted(obj.metadata.uid)

    def synced(self) -> None:
        """Nothing: the reflector says so itself."""

    def end(self) -> None:
        """The kind is served no more."""
        self._has_ended = True
        for uid in self._uids:
            self._seen.unfollowed(uid)

    def _tell_definitions(self) -> None:
        if self._hint is not None:
            self._hint.set()
