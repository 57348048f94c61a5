"""The garbage collector: when an owner is gone, so is what it owned.

In: the metadata of all objects. Out: deletes of objects all of whose owners are gone, patches that take off references
to owners that are, and the finalizers `foregroundDeletion` and `orphan` taken off when what they wait for is done.
Before anything is deleted, the object and its owners are asked for; the graph only says where to look.
Upstream: pkg/controller/garbagecollector/garbagecollector.go.

Follows the metadata of every object of every kind the server has, as kinds come and go.

In: what the server serves, asked for twice a minute and soon after a custom resource's definition has changed. Out:
one call for each change of an object, and one for each object of a kind that is served no more.
Upstream: the monitors of pkg/controller/garbagecollector/graph_builder.go, Sync in garbagecollector.go.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Protocol

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import PartialMeta, PartialObjectMetadata, metadata_of
from pykubelet.client.interface import ControllerClient
from pykubelet.client.recorder import WARNING, EventRecorder
from pykubelet.client.reflector import Reflector
from pykubelet.controllers.framework.pod_control import attempt_all
from pykubelet.controllers.framework.work_queue import WorkQueue
from pykubelet.controllers.garbagecollector.graph import (
    GraphChanges,
    GraphNode,
    ObjectIdentity,
    OwnerGraph,
    identity_meant,
    identity_of,
)
from pykubelet.controllers.garbagecollector.operations import (
    MisplacedOwnerError,
    ObjectOperations,
    OwnerState,
    decide_collection,
    owner_state,
)
from pykubelet.kinds.metadata import FOREGROUND_FINALIZER, ORPHAN_FINALIZER

log = get_logger(__name__)

LOOK_SECONDS = 30.0
SETTLE_SECONDS = 1.0
"""So long after a definition has changed its kind is served, and the other definitions of a manifest are there."""
_IGNORED = frozenset({"events", "events.events.k8s.io"})
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class MonitorHandler(Protocol):
    """Who hears of objects; the calls must not wait."""

    def observed(self, identity: ObjectIdentity, metadata: PartialMeta, /) -> None:
        """An object is there or has changed."""

    def deleted(self, uid: str, /) -> None:
        """An object is gone."""

    def unfollowed(self, uid: str, /) -> None:
        """An object will not be heard of any more."""


def resources_to_monitor(served: Iterable[Resource]) -> dict[str, Resource]:
    """The resources to follow, one version of each."""
    chosen: dict[str, Resource] = {}
    for resource in served:
        if resource.group_resource not in _IGNORED:
            chosen.setdefault(resource.group_resource, resource)
    return chosen


class GraphBuilderMonitors:
    """A reflector for every kind."""

    def __init__(self, *, client: ControllerClient, clock: Clock, seen: MonitorHandler) -> None:
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
        wanted = set(resources_to_monitor(served).values())
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

    def __init__(self, resource: Resource, seen: MonitorHandler, hint: asyncio.Event | None) -> None:
        self._resource, self._seen, self._hint = resource, seen, hint
        self._uids: set[str] = set()
        self._has_ended = False
        self.has_listed = asyncio.Event()

    def added(self, obj: PartialObjectMetadata) -> None:
        self._uids.add(obj.metadata.uid)
        self.modified(obj)

    def modified(self, obj: PartialObjectMetadata) -> None:
        metadata = obj.metadata
        self._tell_definitions()
        if not self._has_ended:
            identity = identity_of(self._resource, metadata.namespace, metadata.name, metadata.uid)
            self._seen.observed(identity, metadata)

    def deleted(self, obj: PartialObjectMetadata) -> None:
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


WORKERS = 20
BATCH = 50
"""So many dependents are let go of at once."""
LOOK_AGAIN = Backoff(first_seconds=0.1, limit_seconds=1000)
"""At an owner that is there, but was not seen by a monitor yet."""


class GarbageCollector:
    """The graph, who feeds it, and the workers who act on it."""

    def __init__(
        self, *, client: ControllerClient, recorder: EventRecorder, clock: Clock, workers: int = WORKERS
    ) -> None:
        self._recorder, self._workers = recorder, workers
        self._graph = OwnerGraph()
        self._monitors = GraphBuilderMonitors(client=client, clock=clock, seen=self)
        self._objects = ObjectOperations(client=client, resource_of=self._monitors.resource_of)
        self.doubtful, self.orphaning = WorkQueue(), WorkQueue()

    async def run(self, ready: asyncio.Event) -> None:
        """Collect until cancelled; `ready` is set when all objects are known and work begins."""
        listed = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            start_supervised(group, "garbage monitors", lambda: self._monitors.run(listed))
            await listed.wait()
            for number in range(self._workers):
                start_supervised(group, f"garbage deleter {number}", self._delete_garbage)
                start_supervised(group, f"garbage orphaner {number}", self._orphan_dependents)
            ready.set()

    def observed(self, identity: ObjectIdentity, metadata: PartialMeta) -> None:
        """A monitor has seen an object."""
        self._take(self._graph.observed(identity, metadata))

    def deleted(self, uid: str) -> None:
        """A monitor has seen that an object is gone."""
        self._take(self._graph.deleted(uid))

    def unfollowed(self, uid: str) -> None:
        """A monitor has ended."""
        self._take(self._graph.unfollowed(uid))

    def _take(self, work: GraphChanges) -> None:
        for uid in work.examine:
            self.doubtful.add(uid)
        for uid in work.examine_later:
            self._look_later(uid)
        for uid in work.orphan:
            self.orphaning.add(uid)
        for dependent, reference in work.misplaced:
            self._report(dependent, reference)

    async def _delete_garbage(self) -> None:
        while True:
            await self.doubtful.process_next(self._examine)

    async def _orphan_dependents(self) -> None:
        while True:
            await self.orphaning.process_next(self._orphan)

    async def _examine(self, uid: str) -> None:
        """Find out whether the object is garbage, and act on it; raises if that must be tried again."""
        node = self._graph.get(uid)
        if node is None or (node.is_being_deleted and not node.is_deleting_dependents):
            # Gone, or on its way: its dependents are looked at when it is gone.
            return
        identity = node.identity
        try:
            latest = await self._objects.get(identity)
            if latest is None:
                self._take(self._graph.absent(identity))
            elif node.is_deleting_dependents:
                await self._await_dependents(node)
            else:
                await self._judge(node, latest)
        except MisplacedOwnerError as error:
            log.info("an owner has a namespace, its dependent has none", cause=str(error))
            return
        if latest is not None and node.is_virtual:
            self._look_later(uid)

    async def _await_dependents(self, node: GraphNode) -> None:
        """Let the object go if nothing keeps it, or see to what does."""
        keepers = node.keepers()
        if not keepers:
            await self._objects.take_finalizer(node.identity, FOREGROUND_FINALIZER)
        for keeper in keepers:
            if not keeper.is_being_deleted:
                self.doubtful.add(keeper.identity.uid)

    async def _judge(self, node: GraphNode, latest: PartialMeta) -> None:
        identity = node.identity
        owners = [(owner, await self._standing(identity, owner)) for owner in latest.owner_references]
        found = decide_collection(node, latest.finalizers, owners)
        if found.release_from:
            log.info("references to owners that are gone are taken off", object=str(identity))
            await self._objects.release(identity, found.release_from)
        if found.unblock_first:
            latest = await self._objects.unblock(identity, latest)
        if found.delete is not None:
            log.debug("garbage is deleted", object=str(identity), policy=found.delete)
            await self._objects.delete(identity, latest, found.delete)

    async def _standing(self, identity: ObjectIdentity, reference: OwnerReference) -> OwnerState:
        """What became of an owner: asked of the server, unless its absence is known."""
        absent = self._graph.absent_owners
        meant = identity_meant(reference, identity.namespace)
        if absent.has((meant._replace(namespace=""), meant)):
            return OwnerState.DANGLING
        owner = self._objects.resolved(meant)
        found = await self._objects.get(owner)
        if found is None:
            absent.add(owner)
        return owner_state(found)

    async def _orphan(self, uid: str) -> None:
        """Take the owner off its dependents, then let it go."""
        owner = self._graph.get(uid)
        if owner is None or not owner.is_orphaning:
            return
        dependents = [node.identity for node in owner.dependents.values()]
        for start in range(0, len(dependents), BATCH):
            batch = dependents[start : start + BATCH]
            for error in await attempt_all(self._objects.release(dependent, (uid,)) for dependent in batch):
                if error is not None:
                    raise error
        await self._objects.take_finalizer(owner.identity, ORPHAN_FINALIZER)

    def _look_later(self, uid: str) -> None:
        node = self._graph.get(uid)
        if node is not None:
            node.looks += 1
            self.doubtful.add_after(uid, LOOK_AGAIN.delay_seconds(node.looks))

    def _report(self, dependent: ObjectIdentity, reference: OwnerReference) -> None:
        wrong = identity_meant(reference, dependent.namespace)
        involved = ObjectReference(
            api_version=dependent.api_version,
            kind=dependent.kind,
            namespace=dependent.namespace,
            name=dependent.name,
            uid=dependent.uid,
        )
        message = f'ownerRef {wrong} does not exist in namespace "{dependent.namespace}"'
        self._recorder.event(involved, WARNING, "OwnerRefInvalidNamespace", message)
