"""The garbage collector: when an owner is gone, so is what it owned.

In: the metadata of all objects. Out: deletes of objects all of whose owners are gone, patches that take off references
to owners that are, and the finalizers `foregroundDeletion` and `orphan` taken off when what they wait for is done.
Before anything is deleted, the object and its owners are asked for; the graph only says where to look.
Upstream: pkg/controller/garbagecollector/garbagecollector.go.
"""

import asyncio
from typing import Protocol

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.supervise import start_supervised
from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.partial import PartialMeta
from pykubelet.api.validation.metadata import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from pykubelet.controllers.garbage.graph import Graph, Node, Work
from pykubelet.controllers.garbage.identity import Identity, identity_meant
from pykubelet.controllers.garbage.monitors import KindClient, Monitors
from pykubelet.controllers.garbage.objects import MisplacedOwnerError, ObjectClient, Objects
from pykubelet.controllers.garbage.verdict import Standing, standing, verdict
from pykubelet.controllers.pod_actions import attempt_all
from pykubelet.controllers.work_queue import WorkQueue
from pykubelet.kube.recorder import WARNING, EventRecorder

log = get_logger(__name__)

WORKERS = 20
BATCH = 50
"""So many dependents are let go of at once."""
LOOK_AGAIN = Backoff(first_seconds=0.1, limit_seconds=1000)
"""At an owner that is there, but was not seen by a monitor yet."""


class CollectorClient(KindClient, ObjectClient, Protocol):
    """What is needed of an API server."""


class GarbageCollector:
    """The graph, who feeds it, and the workers who act on it."""

    def __init__(
        self, *, client: CollectorClient, recorder: EventRecorder, clock: Clock, workers: int = WORKERS
    ) -> None:
        self._recorder, self._workers = recorder, workers
        self._graph = Graph()
        self._monitors = Monitors(client=client, clock=clock, seen=self)
        self._objects = Objects(client=client, resource_of=self._monitors.resource_of)
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

    def observed(self, identity: Identity, metadata: PartialMeta) -> None:
        """A monitor has seen an object."""
        self._take(self._graph.observed(identity, metadata))

    def deleted(self, uid: str) -> None:
        """A monitor has seen that an object is gone."""
        self._take(self._graph.deleted(uid))

    def unfollowed(self, uid: str) -> None:
        """A monitor has ended."""
        self._take(self._graph.unfollowed(uid))

    def _take(self, work: Work) -> None:
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

    async def _await_dependents(self, node: Node) -> None:
        """Let the object go if nothing keeps it, or see to what does."""
        keepers = node.keepers()
        if not keepers:
            await self._objects.take_finalizer(node.identity, FOREGROUND_FINALIZER)
        for keeper in keepers:
            if not keeper.is_being_deleted:
                self.doubtful.add(keeper.identity.uid)

    async def _judge(self, node: Node, latest: PartialMeta) -> None:
        identity = node.identity
        owners = [(owner, await self._standing(identity, owner)) for owner in latest.owner_references]
        found = verdict(node, latest.finalizers, owners)
        if found.release_from:
            log.info("references to owners that are gone are taken off", object=str(identity))
            await self._objects.release(identity, found.release_from)
        if found.unblock_first:
            latest = await self._objects.unblock(identity, latest)
        if found.delete is not None:
            log.debug("garbage is deleted", object=str(identity), policy=found.delete)
            await self._objects.delete(identity, latest, found.delete)

    async def _standing(self, identity: Identity, reference: OwnerReference) -> Standing:
        """What became of an owner: asked of the server, unless its absence is known."""
        absent = self._graph.absent_owners
        meant = identity_meant(reference, identity.namespace)
        if absent.has((meant._replace(namespace=""), meant)):
            return Standing.DANGLING
        owner = self._objects.resolved(meant)
        found = await self._objects.get(owner)
        if found is None:
            absent.add(owner)
        return standing(found)

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

    def _report(self, dependent: Identity, reference: OwnerReference) -> None:
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
