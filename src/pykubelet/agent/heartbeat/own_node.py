"""This node's own object, as the API server shows it: what the node has and where it is.

In: the watch of the one node. Out: the newest that was seen, or, before anything was, what the node would say of
itself. Upstream: nodeLister, GetNode and getNodeAnyWay in pkg/kubelet/kubelet.go and kubelet_getters.go.
"""

import asyncio
from collections.abc import Mapping

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import Node
from pykubelet.api.typed import NODES
from pykubelet.kube.client import Selection
from pykubelet.kube.reflector import ListerWatcher, Reflector


class OwnNode:
    """What is known of one node; a Sink of its own reflector. Without a client it is what it says of itself."""

    def __init__(self, *, initial: Node, client: ListerWatcher | None, clock: Clock) -> None:
        self._initial, self._shown = initial, None if client is not None else initial
        self.is_known = asyncio.Event()
        """Set once the API server knows the node, at once if there is none."""
        if client is None:
            self.is_known.set()
        name = Selection(fields=f"metadata.name={initial.metadata.name}")
        self._reflector = (
            Reflector(client=client, kind=NODES, sink=self, clock=clock, selection=name) if client is not None else None
        )

    def shown(self) -> Node | None:
        """The node as the API server last showed it."""
        return self._shown

    def node(self, name: str) -> Node:
        """The same; NotFound if it was not seen yet, or is another one."""
        if self._shown is None or self._shown.metadata.name != name:
            raise NotFound(f'node "{name}" not found')
        return self._shown

    def allocatable(self) -> Mapping[str, str]:
        """What the node has for pods, by resource."""
        return self.anyway().status.allocatable

    def host_ips(self) -> tuple[str, ...]:
        """Its addresses, the preferred one first."""
        addresses = self.anyway().status.addresses
        return tuple(one.address for one in addresses if one.type == "InternalIP")[:2]

    def anyway(self) -> Node:
        """The node as it was last seen, or, before that, as it would say itself."""
        return self._shown if self._shown is not None else self._initial

    def added(self, node: Node, /) -> None:
        self._shown = node
        self.is_known.set()

    def modified(self, node: Node, /) -> None:
        self._shown = node

    def deleted(self, _: Node, /) -> None:
        self._shown = None

    def synced(self) -> None:
        """Nothing depends on it: a node that is not there is registered by somebody else."""

    async def run(self, ready: asyncio.Event) -> None:
        """Follow the node until cancelled; returns at once without a client."""
        if self._reflector is None:
            ready.set()
            return
        await self._reflector.run(ready)


class NodeAnyway:
    """A node for admission, which must not depend on the API server; a NodeLookup."""

    def __init__(self, own: OwnNode) -> None:
        self._own = own

    def node(self, name: str) -> Node:  # noqa: ARG002  there is only one
        """The node, known or not."""
        return self._own.anyway()
