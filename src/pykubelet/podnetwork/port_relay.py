"""Relays connections and datagrams of one port of this machine to an address of a Service.

What is relayed comes from this node for the Service: endpoints do not see the client's address.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import NamedTuple

from pykubelet.aio.log import get_logger
from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.listener import listen

log = get_logger(__name__)

_CHUNK_BYTES = 64 * 1024
_CONNECT_SECONDS = 10.0
_DATAGRAM_BYTES = 64 * 1024
_MAX_WAITING = 16
"""Datagrams of a new client until it has a socket."""
_BATCH = 64
"""Datagrams that are relayed before other work of the loop goes on."""
UDP_IDLE_SECONDS = 60.0
"""How long a UDP client without traffic keeps its endpoint; the kernel's connection tracking has 30 to 120 seconds."""


class RelayTarget(NamedTuple):
    """The address of a Service, and its port."""

    host: str
    port: int


class RelayLimit:
    """Counts the connections and UDP clients of all relays of a node."""

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0

    def take(self) -> bool:
        """Count one more; False if there are too many."""
        if self._count >= self._most:
            log.warning("a connection to a node port is refused: too many are open", limit=self._most)
            return False
        self._count += 1
        return True

    def release(self) -> None:
        self._count -= 1


@asynccontextmanager
async def tcp_relay(
    addresses: Sequence[str], port: int, target: RelayTarget, *, dialer: Dialer, limit: RelayLimit
) -> AsyncIterator[None]:
    """Relay TCP connections for the duration of the context. OSError if the port is taken at one of the addresses."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(listen(address, port)) for address in addresses]
        relayed: set[asyncio.Task[None]] = set()

        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            work = _relay_connection(reader, writer, target=target, dialer=dialer, limit=limit)
            task = asyncio.get_running_loop().create_task(work, name="relay: connection")
            relayed.add(task)
            task.add_done_callback(relayed.discard)

        servers = [await asyncio.start_server(serve, sock=one, limit=_CHUNK_BYTES) for one in listeners]
        # The servers close their sockets.
        stack.pop_all()
        try:
            yield
        finally:
            for server in servers:
                server.close()
            for task in relayed:
                task.cancel()


async def _relay_connection(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    target: RelayTarget,
    dialer: Dialer,
    limit: RelayLimit,
) -> None:
    if not limit.take():
        writer.transport.abort()
        return
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            inner_reader, inner_writer = await dialer.open_connection(*target)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, inner_writer), name="relay: request")
                group.create_task(_copy(inner_reader, writer), name="relay: answer")
        finally:
            inner_writer.transport.abort()
    except (OSError, TimeoutError) as error:
        log.debug("connection to a node port is not relayed", error=error, service=f"{target.host}:{target.port}")
    finally:
        limit.release()
        writer.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy until the end, and pass the end on; a lost connection is an end too."""
    with suppress(OSError):
        while data := await source.read(_CHUNK_BYTES):
            sink.write(data)
            await sink.drain()
    with suppress(OSError):
        await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()


class _UdpClient:
    """One client of a UDP port, and the socket that sends its datagrams on."""

    def __init__(self, now: float) -> None:
        self.end: socket.socket | None = None
        self.waiting: list[bytes] = []
        self.active_at = now


class UdpRelay:
    """Relays the datagrams of one port at one address until it is closed."""

    def __init__(self, address: str, port: int, target: RelayTarget, *, dialer: Dialer, limit: RelayLimit) -> None:
        """OSError if the port is taken."""
        self._target, self._dialer, self._limit = target, dialer, limit
        self._loop = asyncio.get_running_loop()
        self._clients: dict[tuple[str, int], _UdpClient] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._listener.setblocking(False)
            self._listener.bind((address, port))
        except BaseException:
            self._listener.close()
            raise
        self._loop.add_reader(self._listener, self._receive)

    def close(self) -> None:
        """Close the port and the sockets of its clients."""
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        for peer in tuple(self._clients):
            self._forget(peer)

    def _receive(self) -> None:
        for _ in range(_BATCH):
            try:
                data, peer = self._listener.recvfrom(_DATAGRAM_BYTES)
            except OSError:
                return
            client = self._clients.get(peer) or self._add(peer)
            if client is None:
                continue
            client.active_at = self._loop.time()
            if client.end is not None:
                with suppress(OSError):
                    client.end.send(data)
            elif len(client.waiting) < _MAX_WAITING:
                client.waiting.append(data)

    def _add(self, peer: tuple[str, int]) -> _UdpClient | None:
        """A new client, which gets its socket a moment later; None if there are too many."""
        if not self._limit.take():
            return None
        client = self._clients[peer] = _UdpClient(self._loop.time())
        task = self._loop.create_task(self._open(peer, client), name="relay: datagrams")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._loop.call_later(UDP_IDLE_SECONDS, self._expire, peer, client)
        return client

    async def _open(self, peer: tuple[str, int], client: _UdpClient) -> None:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                client.end = await self._dialer.open_datagrams(*self._target)
        except (OSError, TimeoutError) as error:
            log.debug("datagrams of a node port are not relayed", error=error, service=f"{self._target.host}")
            self._forget(peer)
            return
        self._loop.add_reader(client.end, self._answer, peer, client.end)
        for data in client.waiting:
            with suppress(OSError):
                client.end.send(data)
        client.waiting.clear()

    def _answer(self, peer: tuple[str, int], end: socket.socket) -> None:
        for _ in range(_BATCH):
            try:
                data = end.recv(_DATAGRAM_BYTES)
            except OSError:
                # Nothing more to read, or nothing listens at the endpoint.
                return
            self._clients[peer].active_at = self._loop.time()
            with suppress(OSError):
                self._listener.sendto(data, peer)

    def _expire(self, peer: tuple[str, int], client: _UdpClient) -> None:
        if self._clients.get(peer) is not client:
            return
        left = client.active_at + UDP_IDLE_SECONDS - self._loop.time()
        if left > 0:
            self._loop.call_later(left, self._expire, peer, client)
        else:
            self._forget(peer)

    def _forget(self, peer: tuple[str, int]) -> None:
        client = self._clients.pop(peer)
        self._limit.release()
        if client.end is not None:
            self._loop.remove_reader(client.end)
            client.end.close()
