"""Where servers of this node listen for pods, and how they get their sockets.

Pods reach the machine's own address. Pods of an ordinary user are in a network that only a holder may enter: they reach
their gateway there, with sockets that the holder hands out.
"""

import ipaddress
import socket
from collections.abc import Sequence

from pykubelet.httpserver.listener import BACKLOG, listen
from pykubelet.podnetwork.holder_client import HolderClient
from pykubelet.podnetwork.node_address import node_address


class PodSidePlace:
    """The machine's own address."""

    is_private = False
    """Whether only pods of this node can connect."""

    def current(self) -> tuple[str, int]:
        """The address, empty if there is none, and a number that changes if servers have to listen there again."""
        return node_address(), 0

    async def listen(self, address: str, port: int) -> socket.socket:
        """A listening TCP socket; OSError if the port is taken, or the address is not there."""
        return listen(address, port)

    async def bind_datagrams(self, address: str, port: int) -> socket.socket:
        """A bound UDP socket; OSError as above."""
        made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        return bound(made, address, port)


class HolderSide(PodSidePlace):
    """The gateway of pods in the network that a holder keeps."""

    is_private = True

    def __init__(self, holder: HolderClient, ranges: Sequence[str]) -> None:
        """Addresses of pods and Services are in `ranges`."""
        self._holder, self._ranges = holder, tuple(map(ipaddress.ip_network, ranges))

    async def open_socket(self, host: str, kind: socket.SocketKind) -> socket.socket | None:
        """A socket for the address of a pod or Service; None for all others."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return None
        if not any(address in each for each in self._ranges):
            return None
        return await self._holder.open_socket("", socket.AF_INET, kind)

    def current(self) -> tuple[str, int]:
        return self._holder.gateway, self._holder.generation

    async def listen(self, address: str, port: int) -> socket.socket:
        made = await self._holder.open_socket("", socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound(made, address, port).listen(BACKLOG)
        except BaseException:
            made.close()
            raise
        return made

    async def bind_datagrams(self, address: str, port: int) -> socket.socket:
        return bound(await self._holder.open_socket("", socket.AF_INET, socket.SOCK_DGRAM), address, port)


def bound(made: socket.socket, address: str, port: int) -> socket.socket:
    """The socket, bound; closes it if that fails."""
    try:
        made.bind((address, port))
    except BaseException:
        made.close()
        raise
    return made
