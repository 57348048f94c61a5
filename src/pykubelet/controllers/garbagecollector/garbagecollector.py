"""The garbage collector: deletes objects whose owners are gone; foreground deletion and orphaning.

`GraphBuilderMonitors` watches the metadata of every object of every kind the server has, as kinds come and go, and
feeds the `OwnerGraph`. The graph only says which objects to examine: before anything is deleted, the object and its
owners are read from the server. Discovery runs twice a minute and soon after a CustomResourceDefinition has changed.

Upstream: pkg/controller/garbagecollector/garbagecollector.go, pkg/controller/garbagecollector/graph_builder.go
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

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
DISCOVERY_SECONDS = 30.0
SETTLE_SECONDS = 1.0
"""The delay after a change of a definition, until its kind is served and the other definitions of a manifest exist."""
_IGNORED = frozenset({"events", "events.events.k8s.io"})
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
WORKERS = 20
BATCH = 50
"""How many dependents are orphaned at once."""
EXAMINE_AGAIN = Backoff(first_seconds=0.1, limit_seconds=1000)
"""The backoff for an owner that exists but was not seen by a monitor yet."""


class _Monitor:
    """The reflector's sink for the objects of one kind."""

    def __init__(self, resource: Resource, handler: "GarbageCollector", hint: asyncio.Event | None) -> None:
        self._resource, self._handler, self._hint = resource, handler, hint
        self._uids: set[str] = set()
        self.has_listed = asyncio.Event()

    def added(self, obj: PartialObjectMetadata) -> None:
        self._uids.add(obj.metadata.uid)
        self.modified(obj)

    def modified(self, obj: PartialObjectMetadata) -> None:
        metadata = obj.metadata
        self._hint_definitions()
        self._handler.observed(identity_of(self._resource, metadata.namespace, metadata.name, metadata.uid), metadata)

    def deleted(self, obj: PartialObjectMetadata) -> None:
        self._uids.discard(obj.metadata.uid)
        self._hint_definitions()
        self._handler.deleted(obj.metadata.uid)

    def synced(self) -> None:
        """Does nothing: `has_listed` is set by the reflector."""

    def end(self) -> None:
        """Reports that the kind is no longer served. Its reflector is cancelled and reports nothing more."""
        for uid in self._uids:
            self._handler.unfollowed(uid)

    def _hint_definitions(self) -> None:
        if self._hint is not None:
            self._hint.set()


class GarbageCollector:
    """The owner graph, the monitors that feed it, and the workers that act on it."""

    def __init__(
        self, *, client: ControllerClient, recorder: EventRecorder, clock: Clock, workers: int = WORKERS
    ) -> None:
        self._recorder, self._workers = recorder, workers
        self._graph = OwnerGraph()
        self._monitors = GraphBuilderMonitors(client=client, clock=clock, handler=self)
        self._objects = ObjectOperations(client=client, resource_of=self._monitors.resource_of)
        self.attempt_to_delete, self.attempt_to_orphan = WorkQueue(), WorkQueue()

    async def run(self, ready: asyncio.Event) -> None:
        """Collects until cancelled; sets `ready` when all objects are known and the workers start."""
        listed = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            start_supervised(group, "garbage monitors", lambda: self._monitors.run(listed))
            await listed.wait()
            for number in range(self._workers):
                start_supervised(
                    group, f"garbage deleter {number}", partial(self._work, self.attempt_to_delete, self._examine)
                )
                start_supervised(
                    group, f"garbage orphaner {number}", partial(self._work, self.attempt_to_orphan, self._orphan)
                )
            ready.set()

    def observed(self, identity: ObjectIdentity, metadata: PartialMeta) -> None:
        self._enqueue(self._graph.observed(identity, metadata))

    def deleted(self, uid: str) -> None:
        self._enqueue(self._graph.deleted(uid))

    def unfollowed(self, uid: str) -> None:
        self._enqueue(self._graph.unfollowed(uid))

    def _enqueue(self, changes: GraphChanges) -> None:
        for uid in changes.examine:
            self.attempt_to_delete.add(uid)
        for uid in changes.examine_later:
            self._examine_later(uid)
        for uid in changes.orphan:
            self.attempt_to_orphan.add(uid)
        for dependent, reference in changes.misplaced:
            self._record_invalid_owner(dependent, reference)

    @staticmethod
    async def _work(queue: WorkQueue, sync: Callable[[str], Awaitable[None]]) -> None:
        while True:
            await queue.process_next(sync)

    async def _examine(self, uid: str) -> None:
        """Determines whether an object is garbage and acts on it; raises if it must be retried."""
        node = self._graph.get(uid)
        if node is None or (node.is_being_deleted and not node.is_deleting_dependents):
            # Gone or being deleted: its dependents are examined once it is gone.
            return
        identity = node.identity
        try:
            latest = await self._objects.get(identity)
            if latest is None:
                self._enqueue(self._graph.absent(identity))
            elif node.is_deleting_dependents:
                await self._await_dependents(node)
            else:
                await self._collect(node, latest)
        except MisplacedOwnerError as error:
            log.info("cluster-scoped object has a namespaced owner", cause=str(error))
            return
        if latest is not None and node.is_virtual:
            self._examine_later(uid)

    async def _await_dependents(self, node: GraphNode) -> None:
        """Removes the foreground finalizer if nothing blocks the object, else examines its blocking dependents.

        Upstream's processDeletingDependentsItem.
        """
        blocking_dependents = node.blocking_dependents()
        if not blocking_dependents:
            await self._objects.remove_finalizer(node.identity, FOREGROUND_FINALIZER)
        for blocker in blocking_dependents:
            if not blocker.is_being_deleted:
                self.attempt_to_delete.add(blocker.identity.uid)

    async def _collect(self, node: GraphNode, latest: PartialMeta) -> None:
        identity = node.identity
        owners = [(owner, await self._owner_state(identity, owner)) for owner in latest.owner_references]
        found = decide_collection(node, latest.finalizers, owners)
        if found.release_from:
            log.info("removing references to deleted owners", object=str(identity))
            await self._objects.release(identity, found.release_from)
        if found.unblock_first:
            latest = await self._objects.unblock(identity, latest)
        if found.delete is not None:
            log.debug("deleting garbage", object=str(identity), policy=found.delete)
            await self._objects.delete(identity, latest, found.delete)

    async def _owner_state(self, identity: ObjectIdentity, reference: OwnerReference) -> OwnerState:
        """The state of an owner: read from the server unless its absence is cached."""
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
        """Removes the owner from its dependents, then its orphan finalizer."""
        owner = self._graph.get(uid)
        if owner is None or not owner.is_orphaning:
            return
        dependents = [node.identity for node in owner.dependents.values()]
        for start in range(0, len(dependents), BATCH):
            batch = dependents[start : start + BATCH]
            for error in await attempt_all(self._objects.release(dependent, (uid,)) for dependent in batch):
                if error is not None:
                    raise error
        await self._objects.remove_finalizer(owner.identity, ORPHAN_FINALIZER)

    def _examine_later(self, uid: str) -> None:
        node = self._graph.get(uid)
        if node is not None:
            node.attempts += 1
            self.attempt_to_delete.add_after(uid, EXAMINE_AGAIN.delay_seconds(node.attempts))

    def _record_invalid_owner(self, dependent: ObjectIdentity, reference: OwnerReference) -> None:
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


class GraphBuilderMonitors:
    """Runs a reflector for every kind."""

    def __init__(self, *, client: ControllerClient, clock: Clock, handler: GarbageCollector) -> None:
        self._client, self._clock, self._handler = client, clock, handler
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._running: dict[Resource, tuple[_Monitor, asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()

    def resource_of(self, api_version: str, kind: str) -> Resource | None:
        return self._kinds.get((api_version, kind))

    async def run(self, ready: asyncio.Event) -> None:
        """Watches until cancelled; sets `ready` once every served kind has been listed."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._sync_monitors(group)
                if self._running and not ready.is_set():
                    await self._wait_until_listed()
                    ready.set()
                await self._pause()

    async def _sync_monitors(self, group: asyncio.TaskGroup) -> None:
        """Starts and stops monitors so that every served kind has one."""
        self._changed.clear()
        try:
            served = await self._client.served()
        except ApiError as error:
            log.warning("discovery failed, using the previously known kinds", cause=str(error))
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
            monitor = _Monitor(resource, self._handler, hint)
            reflector = Reflector(client=self._client, kind=metadata_of(resource), sink=monitor, clock=self._clock)
            name = f"garbage monitor of {resource.group_resource}"
            self._running[resource] = monitor, start_supervised(group, name, partial(reflector.run, monitor.has_listed))

    async def _wait_until_listed(self) -> None:
        """Waits for all lists, with a timeout: a kind that cannot be listed must not delay the others."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCOVERY_SECONDS):
                for monitor, _ in self._running.values():
                    await monitor.has_listed.wait()

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCOVERY_SECONDS):
                await self._changed.wait()
            await asyncio.sleep(SETTLE_SECONDS)


def resources_to_monitor(served: Iterable[Resource]) -> dict[str, Resource]:
    """The resources to watch, one version of each."""
    chosen: dict[str, Resource] = {}
    for resource in served:
        if resource.group_resource not in _IGNORED:
            chosen.setdefault(resource.group_resource, resource)
    return chosen
