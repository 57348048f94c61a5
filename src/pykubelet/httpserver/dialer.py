"""Opens connections to pods and to others, each with a socket of the network in which its address is.

A socket belongs to the network namespace it was made in. Pods of an ordinary user are in a namespace that only another
process may enter, which hands sockets out. All other addresses are the machine's.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

OpenSocket = Callable[[str, socket.SocketKind], Awaitable[socket.socket | None]]
"""A socket, which does not block, for an address in another network; None for addresses of the machine's network."""
_PREPARED: ContextVar[list[socket.socket] | None] = ContextVar("prepared sockets", default=None)
"""The sockets for the next connection of the running task."""


class Dialer:
    """Opens connections; `elsewhere` has the sockets for addresses that are not in the machine's network."""

    def __init__(self, elsewhere: OpenSocket | None = None) -> None:
        self._elsewhere = elsewhere

    async def open_connection(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None, server_hostname: str | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect; OSError if that fails."""
        end = await self._open(host)
        if end is None:
            return await asyncio.open_connection(host, port, ssl=tls, server_hostname=server_hostname)
        try:
            await asyncio.get_running_loop().sock_connect(end, (host, port))
            return await asyncio.open_connection(
                sock=end, ssl=tls, server_hostname=(server_hostname or host) if tls else None
            )
        except BaseException:
            end.close()
            raise

    @asynccontextmanager
    async def prepared(self, host: str) -> AsyncIterator[None]:
        """Have a socket ready for one connection of aiohttp to a host, whose `socket_factory` cannot wait for one."""
        end = await self._open(host)
        ready = [] if end is None else [end]
        token = _PREPARED.set(ready)
        try:
            yield
        finally:
            _PREPARED.reset(token)
            for unused in ready:
                unused.close()

    def socket_factory(self, place: tuple[Any, ...]) -> socket.socket:
        """The prepared socket, or one of the machine; for aiohttp's connector."""
        family, kind, protocol, _, _ = place
        if ready := _PREPARED.get():
            return ready.pop()
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made

    async def open_datagrams(self, host: str, port: int) -> socket.socket:
        """A UDP socket, which does not block, that sends to an IP address and receives from it; OSError if impossible."""
        end = await self._open(host, socket.SOCK_DGRAM)
        if end is None:
            end = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
            end.setblocking(False)
        try:
            end.connect((host, port))
        except BaseException:
            end.close()
            raise
        return end

    async def _open(self, host: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket | None:
        return None if self._elsewhere is None else await self._elsewhere(host, kind)
