"""Several simulated nodes and the controllers that manage them, on an in-process API server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import Runner, running, with_ready_event
from pykubelet.api import schema
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import EventSource, Node, Pod
from pykubelet.api.scheme import LEASES, NODES, POD_DISRUPTION_BUDGETS, PODS, PRIORITY_CLASSES, as_documents
from pykubelet.api.times import format_micro_time, format_time
from pykubelet.client.informers import Informers, PodsByNode
from pykubelet.client.interface import NOW, Client, PatchType
from pykubelet.client.recorder import Recorder
from pykubelet.controllers.framework.work_queue import ControllerWorkers
from pykubelet.controllers.nodelifecycle import node_lifecycle_controller
from pykubelet.controllers.nodelifecycle.node_lifecycle_controller import NodeLifecycleController
from pykubelet.controllers.podgc.gc_controller import PodGCController
from pykubelet.controllers.tainteviction import taint_eviction as eviction
from pykubelet.controllers.tainteviction.taint_eviction import TaintEvictionController
from pykubelet.scheduler.schedule_one import SCHEDULER_NAME, Scheduler
from pykubelet.testing.virtual_time import VirtualClock

NAMESPACE = "default"
HEARTBEAT_SECONDS = 10.0
NODE_DOCUMENTS = as_documents(schema.NODES)
POD_DOCUMENTS = as_documents(schema.PODS)
LEASE_DOCUMENTS = as_documents(schema.LEASES)
EVENT_DOCUMENTS = as_documents(schema.EVENTS)


class Fleet:
    """The nodes and pods of a test. A node renews its lease while its name is in `beating`."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.clock: Clock = VirtualClock()
        self.beating: set[str] = set()

    async def add_node(
        self, name: str, *, labels: Mapping[str, str] | None = None, is_ready: bool = True, **allocatable: str
    ) -> None:
        """Create a node that renews its lease from now on; resources that are not given are ample."""
        now = format_time(self.clock.now())
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}
        ready = {
            "type": "Ready",
            "status": "True" if is_ready else "False",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
        }
        await self.client.create(NODE_DOCUMENTS, body)
        await self._beat(name)
        self.beating.add(name)

    async def change_node(self, name: str, *, subresource: str = "", **change: Any) -> None:
        """Change fields of a node."""
        await self.client.patch(NODES, name, change, patch_type=PatchType.STRATEGIC, subresource=subresource)

    async def say(self, name: str, kind: str, status: str) -> None:
        """Set a condition of a node, as its kubelet would."""
        now = format_time(self.clock.now())
        condition = {"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now}
        await self.change_node(name, subresource="status", status={"conditions": [condition]})

    async def add_pod(self, name: str, *, labels: Mapping[str, str] | None = None, cpu: str = "", **spec: Any) -> Pod:
        """Create a pod, which has no node unless the spec names one."""
        asked = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"containers": [{"name": "main", "image": "example/image:1", **asked}], **spec},
        }
        await self.client.create(POD_DOCUMENTS, body, namespace=NAMESPACE)
        return await self.pod(name)

    async def add_priority_class(self, name: str, value: int, **fields: Any) -> None:
        """Create a PriorityClass."""
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        await self.client.create(as_documents(PRIORITY_CLASSES.resource), {**body, "value": value, **fields})

    async def say_pod(self, name: str, **status: Any) -> None:
        """Patch the status of a pod, as its kubelet would."""
        await self.client.patch(PODS, name, {"status": status}, namespace=NAMESPACE, subresource="status")

    async def pod(self, name: str) -> Pod:
        """The pod as the API has it."""
        return await self.client.get(PODS, name, namespace=NAMESPACE)

    async def node(self, name: str) -> Node:
        """The node as the API has it."""
        return await self.client.get(NODES, name)

    async def taints(self, name: str) -> set[tuple[str, str]]:
        """The keys and effects of a node's taints; keys are without `node.kubernetes.io/`."""
        taints = (await self.node(name)).spec.taints
        return {(taint.key.removeprefix("node.kubernetes.io/"), taint.effect) for taint in taints}

    async def places(self) -> dict[str, str]:
        """The node of each pod."""
        listed = await self.client.list(PODS, namespace=NAMESPACE)
        return {pod.metadata.name: pod.spec.node_name for pod in listed.items}

    async def until_pod(self, name: str, holds: Callable[[Pod], bool], *, within_seconds: float = 60.0) -> Pod:
        """Wait until `holds` is true of a pod, and return it."""
        async with asyncio.timeout(within_seconds):
            while not holds(pod := await self.pod(name)):
                await asyncio.sleep(0.1)
        return pod

    async def until_placed(self, name: str, *, within_seconds: float = 60.0) -> str:
        """Wait until a pod has a node, and return the node's name."""
        return (
            await self.until_pod(name, lambda pod: bool(pod.spec.node_name), within_seconds=within_seconds)
        ).spec.node_name

    async def is_gone(self, name: str) -> bool:
        """Whether the API no longer has the pod."""
        try:
            await self.pod(name)
        except NotFound:
            return True
        return False

    async def force_delete(self, name: str) -> None:
        """Delete a pod from the API at once, with grace 0."""
        await self.client.delete(PODS, name, namespace=NAMESPACE, options=NOW)

    async def events(self, name: str) -> list[tuple[str, str, str]]:
        """Source, reason and message of the events about an object; waits a second until they are written."""
        await asyncio.sleep(1)
        listed = (await self.client.list(EVENT_DOCUMENTS, namespace=NAMESPACE)).items
        about = [one for one in listed if one["involvedObject"]["name"] == name]
        return [(one["source"]["component"], one["reason"], one["message"]) for one in about]

    async def beat(self) -> None:
        """Renew the leases of all nodes in `beating`, for ever."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            for name in sorted(self.beating):
                await self._beat(name)

    async def _beat(self, name: str) -> None:
        spec = {"holderIdentity": name, "renewTime": format_micro_time(self.clock.now())}
        place = "kube-node-lease"
        try:
            await self.client.patch(LEASES, name, {"spec": spec}, namespace=place, patch_type=PatchType.MERGE)
        except NotFound:
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
            await self.client.create(LEASE_DOCUMENTS, body, namespace=place)


@asynccontextmanager
async def controllers(
    client: Client, clock: Clock, *, sink: Client | None = None, terminated_threshold: int = 12_500
) -> AsyncIterator[None]:
    """Runs scheduler, node lifecycle, taint eviction and pod garbage collector; `sink` takes their events."""
    informers, informed, by_node = Informers(client=client, clock=clock), asyncio.Event(), PodsByNode()

    def recorder(component: str) -> Recorder:
        return Recorder(sink=sink or client, source=EventSource(component=component), clock=clock)

    nodes, taints = recorder(node_lifecycle_controller.SOURCE), recorder(eviction.SOURCE)
    bindings = recorder(SCHEDULER_NAME)
    pods, leases = informers.pods, informers.objects(LEASES)
    budgets = informers.objects(POD_DISRUPTION_BUDGETS)
    scheduler = Scheduler(client=client, recorder=bindings, pods=pods, budgets=budgets, clock=clock)
    life = NodeLifecycleController(
        client=client, recorder=nodes, leases=leases, pods=pods, pods_by_node=by_node, clock=clock
    )
    evicting = TaintEvictionController(client=client, recorder=taints, pods=pods, pods_by_node=by_node, clock=clock)
    collector = PodGCController(
        client=client, pods_by_node=by_node, clock=clock, terminated_threshold=terminated_threshold
    )
    for each in (by_node, scheduler, life, evicting, collector):
        each.listen(informers)
    work = {
        "scheduler": (scheduler.process_next, 5),
        "node monitor": (life.monitor_next, 1),
        "node taints": (life.taint_next, 5),
        "pods of silent nodes": (life.mark_next, 5),
        "taint eviction": (evicting.process_next, 5),
        "pod collector": (collector.process_next, 1),
    }
    loops: dict[str, Runner] = {
        name: with_ready_event(ControllerWorkers(name=name, process_next=step, informed=informed, workers=workers).run)
        for name, (step, workers) in work.items()
    }
    recorders = {f"events of {name}": with_ready_event(each.run) for name, each in enumerate((bindings, nodes, taints))}
    async with running({"informers": with_ready_event(informers.run, informed), **recorders, **loops}):
        await informed.wait()
        yield


@asynccontextmanager
async def fleet(client: Client, *, through: Client | None = None, **settings: Any) -> AsyncIterator[Fleet]:
    """Nodes that renew their leases, and controllers, which use the client `through` if given."""
    made = Fleet(client)
    async with controllers(through or client, made.clock, sink=client, **settings), running({"beats": made.beat}):
        yield made
