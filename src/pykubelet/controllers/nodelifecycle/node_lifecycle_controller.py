"""The node lifecycle controller: marks silent nodes Unknown and taints nodes by their conditions.

Pods of nodes that became Unknown are marked not ready. How fast further nodes are tainted for eviction depends on the
state of their zone: if all nodes fail at once, the network is the likely cause and eviction stops.

Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as replace_fields

from msgspec.structs import replace

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.coordination import Lease
from pykubelet.api.generated.core import Node, ObjectReference, Pod
from pykubelet.api.pods import condition_of, condition_patch, pod_label
from pykubelet.api.scheme import NODES, PODS
from pykubelet.api.serializer import Document, to_document
from pykubelet.client.indexer import ObjectIndex, PodIndex
from pykubelet.client.informers import Informers, PodsByNode
from pykubelet.client.interface import PatchType, Writer
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to
from pykubelet.controllers.framework.pod_control import attempt_all
from pykubelet.controllers.framework.work_queue import WorkQueue
from pykubelet.controllers.nodelifecycle.node_health import (
    UNKNOWN,
    EvictionPolicy,
    NodeHealthData,
    is_evicting,
    is_ready,
    is_silent,
    missing_labels,
    observe,
    ready_of,
    unknown_patch,
    wanted_taints,
)

log = get_logger(__name__)
NODES_PER_SECOND = 0.1
SLOW_NODES_PER_SECOND = 0.01
LARGE_ZONE = 50
UNHEALTHY_SHARE = 0.55
_MAX_UNSUSPICIOUS = 2
"""So many nodes may fail without the zone counting as partially disrupted."""
_EXCLUDED = "node.kubernetes.io/exclude-disruption"
_ZONE = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
SOURCE = "node-controller"
MONITOR_SECONDS = 5.0
_LEASES = "kube-node-lease"


@dataclass(frozen=True, slots=True)
class ZoneStates:
    """The disruption state of all zones."""

    rates: Mapping[str, float]
    """How many nodes per second may be tainted for eviction, by zone."""
    is_total: bool
    """No node is ready at all."""


class NodeLifecycleController:
    """Runs `monitor_next` in one worker, `taint_next` and `mark_next` in several."""

    def __init__(
        self,
        *,
        client: Writer,
        recorder: EventRecorder,
        leases: ObjectIndex[Lease],
        pods: PodIndex,
        pods_by_node: PodsByNode,
        clock: Clock,
    ) -> None:
        """`recorder` records as SOURCE; the indexes are those of the informers."""
        self._client, self._recorder, self._clock = client, recorder, clock
        self._leases, self._pods, self._pods_by_node = leases, pods, pods_by_node
        self._nodes: dict[str, Node] = {}
        self._health: dict[str, NodeHealthData] = {}
        self._evictable: set[str] = set()
        self._is_halted = False
        self._limiter = ZoneEvictionLimiter()
        self._changed = asyncio.Event()
        self.taint_queue, self.mark_queue = WorkQueue(), WorkQueue()

    def listen(self, informers: Informers) -> None:
        """Subscribes to changes of nodes and pods; call it after `pods_by_node.listen`."""
        informers.add_event_handler(NODES, added=self.node_added, updated=self.node_updated, deleted=self.node_deleted)
        informers.add_event_handler(PODS, added=self.pod_added, updated=self.pod_updated)

    def node_added(self, node: Node) -> None:
        name = node.metadata.name
        self._nodes[name] = node
        self._record_event(node, "RegisteredNode", f"Registered Node {name} in Controller")
        self.taint_queue.add(name)
        self._changed.set()

    def node_updated(self, old: Node, new: Node) -> None:
        """Enqueues a node for tainting, and its pods for marking if it became Unknown."""
        name = new.metadata.name
        self._nodes[name] = new
        self.taint_queue.add(name)
        if _ready_status(old) == _ready_status(new):
            return
        self._changed.set()
        # A kubelet that reports NotReady itself updates its pods; a silent one does not.
        if is_ready(old) and _ready_status(new) == UNKNOWN:
            self._recorder.event(_reference(new), NORMAL, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            for pod in self._pods_by_node.on(name):
                self.mark_queue.add(pod_label(pod))

    def node_deleted(self, node: Node) -> None:
        name = node.metadata.name
        self._nodes.pop(name, None)
        self._health.pop(name, None)
        self._evictable.discard(name)
        self._record_event(node, "RemovingNode", f"Removing Node {name} from Controller")

    def pod_added(self, pod: Pod) -> None:
        """Enqueues a pod that may have been bound to a node that is not ready."""
        if pod.spec.node_name:
            self.mark_queue.add(pod_label(pod))

    def pod_updated(self, old: Pod, new: Pod) -> None:
        if old.spec.node_name != new.spec.node_name:
            self.pod_added(new)

    async def monitor_next(self) -> None:
        """Checks all nodes, then waits for the next interval or until the readiness of a node changes."""
        self._changed.clear()
        await self.check()
        with suppress(TimeoutError):
            async with asyncio.timeout(MONITOR_SECONDS):
                await self._changed.wait()

    async def taint_next(self) -> None:
        await self.taint_queue.process_next(self.sync_taints)

    async def mark_next(self) -> None:
        """Waits for a pod on a node that may not be ready and marks it."""
        await self.mark_queue.process_next(self.sync_pod)

    async def check(self) -> None:
        """Marks silent nodes Unknown, and decides from which nodes pods may be evicted."""
        now, at, silent = self._clock.now(), self._clock.monotonic(), list[tuple[Node, Document]]()
        for name, node in self._nodes.items():
            lease = self._leases.get(f"{_LEASES}/{name}")
            health = self._health[name] = observe(self._health.get(name), node, lease, now=now, at=at)
            if is_silent(health, at=at) and (patch := unknown_patch(node, now)) is not None:
                silent.append((node, patch))
        self._update_evictions(at)
        await attempt_all(self._mark_unknown(node, patch) for node, patch in silent)

    async def sync_taints(self, name: str) -> None:
        """Updates the taints and deprecated labels of a node; Conflict if it has changed meanwhile."""
        node = self._nodes.get(name)
        if node is None:
            return
        taints, labels = wanted_taints(node, self._evictions(name), self._clock.now()), missing_labels(node)
        if taints == node.spec.taints and not labels:
            return
        meta = node.metadata
        # Taints are replaced as a whole, so the resource version must not have changed.
        metadata = {"uid": meta.uid, "resourceVersion": meta.resource_version, "labels": labels}
        body = {"metadata": metadata, "spec": {"taints": [to_document(taint) for taint in taints] or None}}
        with suppress(NotFound):
            await self._client.patch(NODES, name, body, patch_type=PatchType.MERGE)

    async def sync_pod(self, key: str) -> None:
        """Marks a pod not ready if its node is not; Conflict if its kubelet has changed the status meanwhile."""
        pod = self._pods.get(key)
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        ready = condition_of(pod, "Ready") if pod is not None else None
        if pod is None or node is None or ready is None or _ready_status(node) in ("True", ""):
            return
        patch = condition_patch(pod, replace(ready, status="False"), self._clock.now())
        if patch is None:
            return
        meta = pod.metadata
        # The pod seen here may be older than the status that its kubelet has just sent.
        patch["metadata"] = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        with suppress(NotFound):
            await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
            self._recorder.event(reference_to(pod), WARNING, "NodeNotReady", "Node is not ready")

    async def _mark_unknown(self, node: Node, patch: Document) -> None:
        name, health = node.metadata.name, self._health[node.metadata.name]
        seconds = round(self._clock.monotonic() - health.seen_at, 1)
        log.warning("node stopped posting heartbeats", node=name, for_seconds=seconds)
        try:
            await self._client.patch(NODES, name, patch, subresource="status")
        except ApiError as error:
            # A heartbeat may have arrived just now; otherwise the next check tries again.
            log.info("node not marked Unknown", node=name, cause=str(error))

    def _update_evictions(self, at: float) -> None:
        """Permits eviction from further nodes as the state of their zone allows."""
        zones = zone_states((node, is_ready(node)) for node in self._nodes.values())
        if self._is_halted and not zones.is_total:
            # After a full disruption every node gets its whole grace period again.
            self._health = {name: replace_fields(health, seen_at=at) for name, health in self._health.items()}
        self._is_halted = zones.is_total
        for name, node in self._nodes.items():
            zone = zone_of(node)
            if self._is_halted or _ready_status(node) in ("True", ""):
                self._evictable.discard(name)
            elif is_evicting(node) or self._limiter.take(zone, zones.rates.get(zone, 0.0), at=at):
                self._evictable.add(name)
            if wanted_taints(node, self._evictions(name), self._clock.now()) != node.spec.taints:
                self.taint_queue.add(name)

    def _evictions(self, name: str) -> EvictionPolicy:
        if self._is_halted:
            return EvictionPolicy.STOP
        return EvictionPolicy.START if name in self._evictable else EvictionPolicy.GO_ON

    def _record_event(self, node: Node, reason: str, text: str) -> None:
        self._recorder.event(_reference(node), NORMAL, reason, f"Node {node.metadata.name} event: {text}")


class ZoneEvictionLimiter:
    """Limits how fast nodes of a zone are tainted for eviction."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def take(self, zone: str, rate: float, *, at: float) -> bool:
        """Whether another node of the zone may be tainted now."""
        last = self._last.get(zone)
        if rate <= 0 or (last is not None and (at - last) * rate < 1):
            return False
        self._last[zone] = at
        return True


def zone_of(node: Node) -> str:
    """The region and zone of a node; empty if it has none."""
    labels = node.metadata.labels
    region, zone = (next((labels[key] for key in keys if key in labels), "") for keys in (_REGION, _ZONE))
    return f"{region}:\0:{zone}" if region or zone else ""


def zone_states(nodes: Iterable[tuple[Node, bool]]) -> ZoneStates:
    """Computes the state of the zones from each node and whether it is ready."""
    zones: dict[str, list[bool]] = {}
    for node, is_node_ready in nodes:
        if _EXCLUDED not in node.metadata.labels:
            zones.setdefault(zone_of(node), []).append(is_node_ready)
    is_total = bool(zones) and not any(any(states) for states in zones.values())
    return ZoneStates({zone: 0.0 if is_total else _rate(states) for zone, states in zones.items()}, is_total)


def _rate(states: list[bool]) -> float:
    failed = states.count(False)
    # A fully failed zone beside healthy ones is evicted at the normal rate.
    is_partial = failed < len(states) and failed > _MAX_UNSUSPICIOUS and failed / len(states) >= UNHEALTHY_SHARE
    if not is_partial:
        return NODES_PER_SECOND
    return SLOW_NODES_PER_SECOND if len(states) > LARGE_ZONE else 0.0


def _ready_status(node: Node) -> str:
    ready = ready_of(node)
    return ready.status if ready is not None else ""


def _reference(node: Node) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid)
