"""Assigns `spec.podCIDR` to nodes that have none, and takes it back when a node is deleted.

What is taken is known from the nodes themselves. A node for which no range is left gets an event, and a range as soon as
another node is deleted.

Upstream: pkg/controller/nodeipam/ipam/range_allocator.go, pkg/controller/nodeipam/node_ipam_controller.go
"""

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import NamedTuple

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Node, ObjectReference
from pykubelet.api.scheme import NODES
from pykubelet.api.serializer import Document
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client, PatchType
from pykubelet.client.recorder import NORMAL, EventRecorder
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.controllers.nodeipam.cidr_set import CidrSet

log = get_logger(__name__)

SOURCE = "cidrAllocator"
"""The component of events."""
NOT_AVAILABLE = "CIDRNotAvailable"


class NodeRanges(NamedTuple):
    """The cluster's range, and the ranges of nodes that will register with them, by name."""

    cluster: IPv4Network
    chosen: Mapping[str, str] = {}


class RangeAllocator(KeyedController):
    """Syncs nodes by name. It must have listed all nodes before its first sync, as workers wait for informers."""

    def __init__(
        self, *, client: Client, recorder: EventRecorder, nodes: ObjectIndex[Node], ranges: NodeRanges
    ) -> None:
        self._client, self._recorder, self._nodes = client, recorder, nodes
        self._cluster_cidr, self._cidrs = ranges.cluster, CidrSet(ranges.cluster)
        self._held: dict[str, tuple[str, ...]] = {
            name: (cidr,) for name, cidr in ranges.chosen.items() if self._cidrs.occupy(cidr)
        }
        """The ranges that are taken for each node, also one that is only being assigned."""
        self._waiting: dict[str, None] = {}
        """Nodes for which no range was left, in order."""
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(NODES, changed=self._changed, deleted=self._deleted)

    async def sync(self, name: str) -> None:
        node = self._nodes.get(f"/{name}")
        if node is None or node.spec.pod_cidr:
            return
        if not self._held.get(name):
            cidr = self._cidrs.allocate_next()
            if cidr is None:
                self._report_exhaustion(name)
                return
            self._held[name] = (cidr,)
        await self._client.patch(NODES, name, pod_cidr_patch(node, self._held[name]), patch_type=PatchType.MERGE)
        log.info("range of pods assigned", node=name, cidr=",".join(self._held[name]))

    def _changed(self, node: Node) -> None:
        name, found = node.metadata.name, node.spec.pod_cidrs
        if not found:
            self.queue.add(name)
            return
        held = self._held.get(name, ())
        if found == held:
            return
        self._held[name] = found
        for cidr in found:
            if not self._cidrs.occupy(cidr):
                log.warning("range of a node not in the cluster's", node=name, cidr=cidr, cluster=self._cluster_cidr)
        self._release(held)

    def _deleted(self, node: Node) -> None:
        self._waiting.pop(node.metadata.name, None)
        self._release(self._held.pop(node.metadata.name, ()))

    def _release(self, cidrs: tuple[str, ...]) -> None:
        for cidr in cidrs:
            self._cidrs.release(cidr)
            if (waiting := next(iter(self._waiting), None)) is not None:
                del self._waiting[waiting]
                self.queue.add(waiting)

    def _report_exhaustion(self, name: str) -> None:
        self._waiting[name] = None
        reference = ObjectReference(kind="Node", name=name, uid=name)
        self._recorder.event(reference, NORMAL, NOT_AVAILABLE, f"Node {name} status is now: {NOT_AVAILABLE}")
        log.warning("no range of pods left for a node", node=name, cluster=self._cluster_cidr)


def pod_cidr_patch(node: Node, cidrs: tuple[str, ...]) -> Document:
    """The merge patch that assigns ranges to a node."""
    return {"metadata": {"uid": node.metadata.uid}, "spec": {"podCIDR": cidrs[0], "podCIDRs": list(cidrs)}}
