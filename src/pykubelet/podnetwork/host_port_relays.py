"""Relays host ports of the machine to pods in the network of a holder.

The rules of the machine are not an ordinary user's to change. The ports are open while the agent runs. A pod does not see its client's address.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from pykubelet.httpserver.dialer import Dialer
from pykubelet.podnetwork.host_ports import PortMapping
from pykubelet.podnetwork.port_relay import RelayLimit, RelayTarget, UdpRelay, tcp_relay

MOST_CONNECTIONS = 1024
"""Of all host ports together; each takes two files and some kilobytes."""
_EVERYWHERE = "0.0.0.0"  # noqa: S104  a host port without hostIP is open at all addresses of the machine


class HostPortRelays:
    """The open host ports, by the names of the pods' networks."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer, self._limit = dialer, RelayLimit(MOST_CONNECTIONS)
        self._open: dict[str, AsyncExitStack] = {}

    async def open(self, name: str, address: str, mappings: Sequence[PortMapping]) -> None:
        """Relay the host ports of a pod until they are closed; OSError if another program has one, and then none is open."""
        stack = AsyncExitStack()
        try:
            for one in mappings:
                await self._relay(stack, one, RelayTarget(address, one.container_port))
        except BaseException:
            await stack.aclose()
            raise
        self._open[name] = stack

    async def close(self, name: str) -> None:
        """Close the host ports of a pod, if it has some."""
        if (stack := self._open.pop(name, None)) is not None:
            await stack.aclose()

    async def close_all(self) -> None:
        """Close the host ports of all pods."""
        for name in tuple(self._open):
            await self.close(name)

    async def _relay(self, stack: AsyncExitStack, mapping: PortMapping, target: RelayTarget) -> None:
        host, port = mapping.host_ip or _EVERYWHERE, mapping.host_port
        if mapping.protocol == "TCP":
            await stack.enter_async_context(tcp_relay((host,), port, target, dialer=self._dialer, limit=self._limit))
        elif mapping.protocol == "UDP":
            stack.callback(UdpRelay(host, port, target, dialer=self._dialer, limit=self._limit).close)
        else:
            raise OSError(f"{mapping.protocol} is not relayed to pods of an ordinary user")
