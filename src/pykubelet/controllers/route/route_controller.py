"""Keeps this machine's routes to the pods of other nodes, one for each node through its address.

Upstream's controller has a cloud make the routes. Here each node makes its own, which is possible for nodes that reach each
other directly; a node that is not reached this way gets an event. The controller of `up` also reports, for every node,
whether there is a route to it: condition NetworkUnavailable.

Upstream: pkg/controller/route/route_controller.go
"""

from ipaddress import IPv4Network
from typing import NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Node, ObjectReference
from pykubelet.api.scheme import NODES
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client, PatchType
from pykubelet.client.recorder import WARNING, EventRecorder
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.podnetwork.node_address import own_addresses
from pykubelet.podnetwork.routes import HostRoutes

log = get_logger(__name__)

SOURCE = "route_controller"
"""The component of events."""
NETWORK_UNAVAILABLE = "NetworkUnavailable"
_ALL = ""
"""The key of the comparison with the routes of the kernel."""
_COMPARE_SECONDS = 60.0
"""How often that is done, because a link that goes down takes its routes along."""


class PodRoute(NamedTuple):
    """A range of pods and the address of their node."""

    destination: str
    gateway: str


class RouteController(KeyedController):
    """Syncs nodes by name; `cluster_cidr` bounds the routes that it removes."""

    def __init__(
        self,
        *,
        client: Client,
        recorder: EventRecorder,
        clock: Clock,
        nodes: ObjectIndex[Node],
        node_name: str,
        cluster_cidr: IPv4Network,
        reports: bool,
    ) -> None:
        """`reports`: whether to set the condition of nodes, which only one controller of a cluster does."""
        self._client, self._recorder, self._clock, self._nodes = client, recorder, clock, nodes
        self._node_name, self._cluster_cidr, self._reports = node_name, cluster_cidr, reports
        self._kernel = HostRoutes()
        self._routes: dict[str, PodRoute] = {}
        self._failed: dict[str, str] = {}
        """The reported reason for nodes that cannot be reached."""
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(NODES, changed=self._changed, deleted=self._deleted)
        self.queue.add(_ALL)

    async def sync(self, name: str) -> None:
        if name == _ALL:
            await self._compare()
            return
        node = self._nodes.get(f"/{name}")
        route = None if node is None or name == self._node_name else route_to(node, self._cluster_cidr)
        if route is not None and any(str(own) == route.gateway for own in own_addresses()):
            # A node of this machine: its pods are in the same network.
            route = None
        problem = await self._ensure(name, route)
        if node is not None:
            self._record(node, problem)
            await self._report(node, problem)
        if problem:
            raise OSError(problem)

    async def remove_all(self) -> None:
        """Remove every route of this cluster."""
        await self._kernel.remove_within(self._cluster_cidr)

    async def _ensure(self, name: str, route: PodRoute | None) -> str:
        """Make the route to a node as it should be; returns why that is impossible."""
        if (old := self._routes.get(name)) == route:
            return ""
        if old is not None:
            await self._kernel.remove(old.destination)
            del self._routes[name]
        if route is None:
            return ""
        try:
            await self._kernel.add(*route)
        except OSError as error:
            return f"no route to {route.destination} through {route.gateway}: {error.strerror or error}"
        self._routes[name] = route
        log.info("route to pods of a node added", node=name, destination=route.destination, gateway=route.gateway)
        return ""

    async def _compare(self) -> None:
        """Compare with the kernel: remove routes to nodes that are gone, and add those that another program removed."""
        wanted = {route.destination for node in self._nodes.all() if (route := route_to(node, self._cluster_cidr))}
        present = await self._kernel.present()
        for destination in present:
            if IPv4Network(destination).overlaps(self._cluster_cidr) and destination not in wanted:
                await self._kernel.remove(destination)
        for name, route in tuple(self._routes.items()):
            if present.get(route.destination) != route.gateway:
                del self._routes[name]
                self.queue.add(name)
        self.queue.add_after(_ALL, _COMPARE_SECONDS)

    def _changed(self, node: Node) -> None:
        name = node.metadata.name
        has_condition = not self._reports or network_condition(node) is not None
        if self._routes.get(name) != route_to(node, self._cluster_cidr) or not has_condition:
            self.queue.add(name)

    def _deleted(self, node: Node) -> None:
        self._failed.pop(node.metadata.name, None)
        self.queue.add(node.metadata.name)

    def _record(self, node: Node, problem: str) -> None:
        """Report a new reason as an event of the node."""
        name = node.metadata.name
        if problem and self._failed.get(name) != problem:
            reference = ObjectReference(kind="Node", name=name, uid=name)
            text = (
                f"Could not create a route from node {self._node_name}: {problem}; nodes must reach each other directly"
            )
            self._recorder.event(reference, WARNING, "FailedToCreateRoute", text)
        if problem:
            self._failed[name] = problem
        else:
            self._failed.pop(name, None)

    async def _report(self, node: Node, problem: str) -> None:
        if not self._reports or network_condition(node) == (status := "True" if problem else "False"):
            return
        patch = condition_patch(status, format_time(self._clock.now()))
        await self._client.patch(NODES, node.metadata.name, patch, patch_type=PatchType.STRATEGIC, subresource="status")


def route_to(node: Node, cluster: IPv4Network) -> PodRoute | None:
    """The route to the pods of a node; None if it has no range in the cluster's, or no IPv4 address."""
    gateway = next(
        (one.address for one in node.status.addresses if one.type == "InternalIP" and "." in one.address), ""
    )
    try:
        destination = IPv4Network(node.spec.pod_cidr)
    except ValueError:
        return None
    if not gateway or not destination.subnet_of(cluster):
        return None
    return PodRoute(str(destination), gateway)


def network_condition(node: Node) -> str | None:
    """The status of the condition NetworkUnavailable."""
    return next((one.status for one in node.status.conditions if one.type == NETWORK_UNAVAILABLE), None)


def condition_patch(status: str, now: str) -> Document:
    """The patch that sets the condition, with upstream's reasons and messages."""
    is_unavailable = status == "True"
    return {
        "status": {
            "conditions": [
                {
                    "type": NETWORK_UNAVAILABLE,
                    "status": status,
                    "reason": "NoRouteCreated" if is_unavailable else "RouteCreated",
                    "message": "RouteController failed to create a route"
                    if is_unavailable
                    else "RouteController created a route",
                    "lastTransitionTime": now,
                    "lastHeartbeatTime": now,
                }
            ]
        }
    }
