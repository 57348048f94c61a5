"""Listens on the node ports of Services at this machine's addresses and relays them to the Services.

For a node whose pods are in a network that only a holder may enter. As with kube-proxy in its userspace mode, which was the
first one, each connection passes this process.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import ObjectReference, Service
from pykubelet.api.scheme import SERVICES
from pykubelet.client.interface import Selection
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.client.reflector import ListerWatcher, Reflector
from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.http_failure import errno_text
from pykubelet.podnetwork.port_relay import RelayLimit, RelayTarget, UdpRelay, tcp_relay
from pykubelet.proxy.serviceport import PROXY_NAME_LABEL, IPFamily, service_ports

log = get_logger(__name__)

_RETRY_SECONDS = 10.0
"""How often a port that another program has is tried again."""
MOST_CONNECTIONS = 1024
"""Of all node ports together; each takes two files and some kilobytes."""


class NodePort(NamedTuple):
    """A port of this machine: `tcp`, `udp` or `sctp`, and its number."""

    protocol: str
    port: int


class _Relayed(NamedTuple):
    """Where a node port leads, and the Service that it belongs to."""

    target: RelayTarget
    service: ObjectReference


def node_ports(service: Service) -> dict[NodePort, RelayTarget]:
    """The node ports of a Service, and where they lead."""
    return {
        NodePort(name.protocol, port.node_port): RelayTarget(port.cluster_ip, port.port)
        for name, port in service_ports(service, IPFamily.IPV4).items()
        if port.node_port
    }


class NodePortRelay:
    """Keeps the relays as the Services say."""

    def __init__(
        self, *, client: ListerWatcher, clock: Clock, dialer: Dialer, recorder: EventRecorder, addresses: Sequence[str]
    ) -> None:
        """Listens at all `addresses`."""
        self._client, self._clock, self._dialer, self._recorder = client, clock, dialer, recorder
        self._addresses = addresses
        self._wanted: dict[NodePort, _Relayed] = {}
        self._ports: dict[tuple[str, str], frozenset[NodePort]] = {}
        """The node ports of each Service."""
        self._changed: set[NodePort] = set()
        self._open: dict[NodePort, tuple[RelayTarget, AsyncExitStack]] = {}
        self._failed: set[NodePort] = set()
        self._wake = asyncio.Event()
        self._limit = RelayLimit(MOST_CONNECTIONS)

    def added(self, service: Service, /) -> None:
        self._put(service, node_ports(service))

    def modified(self, service: Service, /) -> None:
        self._put(service, node_ports(service))

    def deleted(self, service: Service, /) -> None:
        self._put(service, {})

    def synced(self) -> None:
        """Does nothing: each Service is relayed as soon as it is known."""

    async def run(self, ready: asyncio.Event) -> None:
        """Relay the node ports of all Services until cancelled."""
        reflector = Reflector(
            client=self._client,
            kind=SERVICES,
            sink=self,
            clock=self._clock,
            selection=Selection(labels=f"!{PROXY_NAME_LABEL}"),
        )
        try:
            async with asyncio.TaskGroup() as group:
                start_supervised(group, "node ports' services", partial(reflector.run, ready))
                while True:
                    await self._sync()
                    await self._wait()
        finally:
            for _, stack in self._open.values():
                await stack.aclose()
            self._open.clear()

    def _put(self, service: Service, found: dict[NodePort, RelayTarget]) -> None:
        key = service.metadata.namespace, service.metadata.name
        before = self._ports.pop(key, frozenset())
        for gone in before - found.keys():
            self._wanted.pop(gone, None)
        reference = reference_to(service)
        self._wanted |= {port: _Relayed(target, reference) for port, target in found.items()}
        if found:
            self._ports[key] = frozenset(found)
        if before or found:
            self._changed |= before | found.keys()
            self._wake.set()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(_RETRY_SECONDS if self._failed else None):
                await self._wake.wait()
        except TimeoutError:
            self._changed |= self._failed

    async def _sync(self) -> None:
        """Open, move and close the relays of the ports that changed."""
        self._wake.clear()
        changed, self._changed = self._changed, set()
        for port in changed:
            wanted, open = self._wanted.get(port), self._open.get(port)
            if open is not None and (wanted is None or wanted.target != open[0]):
                del self._open[port]
                await open[1].aclose()
                open = None
            if wanted is None:
                self._failed.discard(port)
            elif open is None:
                await self._relay(port, wanted)

    async def _relay(self, port: NodePort, wanted: _Relayed) -> None:
        stack = AsyncExitStack()
        try:
            await self._listen(stack, port, wanted.target)
        except OSError as error:
            await stack.aclose()
            if port not in self._failed:
                self._failed.add(port)
                message = f"node port {port.port} ({port.protocol.upper()}) is not available: {errno_text(error)}"
                self._recorder.event(wanted.service, WARNING, "NodePortNotAvailable", message)
            return
        self._failed.discard(port)
        self._open[port] = wanted.target, stack

    async def _listen(self, stack: AsyncExitStack, port: NodePort, target: RelayTarget) -> None:
        """Relay a port until the stack is closed; OSError if that is impossible."""
        if port.protocol == "tcp":
            relay = tcp_relay(self._addresses, port.port, target, dialer=self._dialer, limit=self._limit)
            await stack.enter_async_context(relay)
        elif port.protocol == "udp":
            for address in self._addresses:
                udp = UdpRelay(address, port.port, target, dialer=self._dialer, limit=self._limit)
                stack.callback(udp.close)
        else:
            raise OSError(f"{port.protocol.upper()} is not relayed to pods of an ordinary user")
