"""The DNS server of the cluster: UDP and TCP on one event loop.

Answers about the cluster come from memory in the moment of the question; those about other names from the machine's
name servers. It answers only clients that it is meant for, so that other machines can neither read the cluster's names
nor use it to flood others. Nothing that a client sends ends it: what cannot be read is answered FORMERR, or dropped.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from pykubelet.aio.log import get_logger
from pykubelet.dns.forwarder import DnsForwarder, NoAnswer
from pykubelet.dns.message import (
    IN,
    MAX_MESSAGE,
    MalformedMessage,
    Query,
    Rcode,
    RecordType,
    Sections,
    expand_name,
    header_response,
    is_query,
    opcode_of,
    read_query,
    readdressed,
    record,
    records,
    respond,
)
from pykubelet.dns.zone import Answer, ClusterZone
from pykubelet.httpserver.connections import BoundedListener, Connection, ConnectionLimits
from pykubelet.podnetwork.pod_side import PodSidePlace

log = get_logger(__name__)

PORT = 10053
"""The preferred port, as a known one is easier to ask by hand; pods use port 53 of the Service."""
# Questions of clients that are not known yet, and how long they wait: clients ask again only after five seconds.
_MAX_UNKNOWN = 64
_UNKNOWN_SECONDS = 0.5
# A port that is free for TCP may be taken for UDP.
_BIND_TRIES = 10
# Datagrams that are answered before other work of the loop goes on.
_BATCH = 32
# The buffer of the kernel for datagrams: about a thousand of them, so that a burst is not lost.
_RECEIVE_BYTES = 1024 * 1024
# A question takes at most 255 bytes of name, and options little more.
_MAX_QUERY = 4096
# Questions that a client may send over TCP without waiting for the answers.
_MAX_PIPELINED_BYTES = 2 * _MAX_QUERY
_IDLE_SECONDS = 10.0
"""How long a TCP connection may be idle, as clients open them for one question (RFC 7766 asks for a few seconds)."""
TCP_LIMITS = ConnectionLimits(total=256, unauthenticated=128, waiting=128, head_seconds=_IDLE_SECONDS)
"""Clients use TCP only for long answers. A connection takes about a kilobyte, besides what it sends."""
_TRANSFERS = (RecordType.AXFR, RecordType.IXFR)
_ALIASED = (RecordType.A, RecordType.AAAA, RecordType.CNAME)
IsAllowed = Callable[[str], bool]
"""Whether the client with an IP address gets answers."""


class DnsSockets(NamedTuple):
    """The bound sockets of a server, on the same port. The server closes them."""

    udp: socket.socket
    tcp: socket.socket

    @property
    def port(self) -> int:
        port: int = self.udp.getsockname()[1]
        return port


async def bind_sockets(address: str, port: int = PORT, place: PodSidePlace | None = None) -> DnsSockets:
    """Sockets of the same port for both protocols: `port` if it is free, else any. Raises OSError."""
    place = place or PodSidePlace()
    for chosen in (port, *[0] * _BIND_TRIES):
        tcp = None
        try:
            tcp = await place.listen(address, chosen)
            return DnsSockets(await place.bind_datagrams(address, tcp.getsockname()[1]), tcp)
        except BaseException as error:
            if tcp is not None:
                tcp.close()
            if not isinstance(error, OSError) or error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, "no port is free for both UDP and TCP", address)


class DnsServer:
    """Answers questions about the cluster, and forwards the others."""

    def __init__(
        self,
        *,
        zone: ClusterZone,
        forwarder: DnsForwarder,
        is_allowed: IsAllowed,
        limits: ConnectionLimits = TCP_LIMITS,
    ) -> None:
        self._zone, self._forwarder, self.is_allowed = zone, forwarder, is_allowed
        self._unknown: list[tuple[socket.socket, bytes, tuple[str, int]]] = []
        self.listener = BoundedListener(limits, lambda connection: _TcpConnection(self, connection))

    async def run(self, sockets: DnsSockets, ready: asyncio.Event) -> None:
        """Answer questions until cancelled; sets `ready` once the sockets are read."""
        loop, udp = asyncio.get_running_loop(), sockets.udp
        udp.setblocking(False)
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        try:
            async with asyncio.TaskGroup() as self.tasks:
                self.tasks.create_task(self.listener.run(sockets.tcp, None), name="dns: tcp")
                loop.add_reader(udp, self._receive, udp)
                ready.set()
        finally:
            loop.remove_reader(udp)
            udp.close()

    def answer(self, data: bytes, *, tcp: bool) -> bytes | Query | None:
        """The response to a message, or the query if other servers are needed; None if no response is due."""
        if not is_query(data):
            return None
        if opcode_of(data):
            return header_response(data, Rcode.NOTIMP)
        try:
            query = read_query(data)
        except MalformedMessage:
            return header_response(data, Rcode.FORMERR)
        limit = MAX_MESSAGE if tcp else query.udp_limit
        if query.edns_version:
            return respond(query, Rcode.BADVERS, limit=limit, is_authority=False)
        if query.klass != IN or query.type in _TRANSFERS:
            return respond(query, Rcode.REFUSED, limit=limit, is_authority=False)
        found = self._zone.answer(query.name, query.type)
        if found is None:
            cached = self._forwarder.cached(query)
            return readdressed(cached, query, limit=limit) if cached is not None else query
        if found.alias:
            return query
        return respond(query, found.rcode, found.sections, limit=limit, is_authority=True)

    async def forward(self, query: Query, client: str, *, tcp: bool) -> bytes:
        """The response to a query that needs other servers."""
        limit = MAX_MESSAGE if tcp else query.udp_limit
        found, asked = self._zone.answer(query.name, query.type), query
        if found is not None and found.alias:
            asked = query._replace(name=found.alias, question=found.alias + query.question[-4:])
        try:
            data = self._forwarder.cached(asked) or await self._forwarder.resolve(asked, client, tcp=tcp)
            if found is not None:
                return respond(query, *_continued(found, data), limit=limit, is_authority=True)
            return readdressed(data, query, limit=limit)
        except (NoAnswer, MalformedMessage) as error:
            log.debug("no name server answered", client=client, cause=str(error))
        except Exception as error:  # noqa: BLE001  one question must not end the server
            log.error("question not answered", error=error, client=client)
        return respond(query, Rcode.SERVFAIL, limit=limit, is_authority=False)

    def takes(self, client: str) -> bool:
        """Whether a question of a client can be forwarded now."""
        return self._forwarder.has_room(client)

    def _receive(self, udp: socket.socket) -> None:
        """Answer the datagrams that have arrived."""
        for _ in range(_BATCH):
            try:
                data, address = udp.recvfrom(MAX_MESSAGE)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # The kernel reports that a client does not receive its answer.
                continue
            # A question from port 0 cannot be answered.
            if not address[1]:
                continue
            if self.is_allowed(address[0]):
                self._answer_datagram(udp, data, address)
            elif len(self._unknown) < _MAX_UNKNOWN and is_query(data):
                self._unknown.append((udp, data, address))
                if len(self._unknown) == 1:
                    asyncio.get_running_loop().call_later(_UNKNOWN_SECONDS, self._answer_unknown)

    def _answer_unknown(self) -> None:
        """Answer the clients that have become known: a new pod may ask before the API has its address."""
        waiting, self._unknown = self._unknown, []
        for udp, data, address in waiting:
            if self.is_allowed(address[0]):
                self._answer_datagram(udp, data, address)

    def _answer_datagram(self, udp: socket.socket, data: bytes, address: tuple[str, int]) -> None:
        found = self.answer(data, tcp=False)
        if isinstance(found, Query):
            if self.takes(address[0]):
                self.tasks.create_task(self._forward_datagram(udp, found, address), name="dns: forward")
                return
            found = respond(found, Rcode.SERVFAIL, limit=found.udp_limit, is_authority=False)
        if found is not None:
            _send(udp, found, address)

    async def _forward_datagram(self, udp: socket.socket, query: Query, address: tuple[str, int]) -> None:
        _send(udp, await self.forward(query, address[0], tcp=False), address)


class _TcpConnection(asyncio.Protocol):
    """The questions of one TCP connection, answered in order."""

    def __init__(self, server: DnsServer, connection: Connection) -> None:
        self._server, self._connection = server, connection
        self._received = bytearray()
        self._is_busy = self._is_full = False
        self._timer: asyncio.TimerHandle | None = None
        self._client = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = self._connection.transport = transport
        self._client = transport.get_extra_info("peername")[0]
        if not self._server.is_allowed(self._client):
            transport.abort()
            return
        # The listener's own timer ends with the first question.
        self._wait()

    def connection_lost(self, _: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._server.listener.close(self._connection)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._answer_received()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > _MAX_PIPELINED_BYTES:
            self._transport.abort()
            return
        self._answer_received()

    def _answer_received(self) -> None:
        """Answer complete questions until one has to be forwarded or the client does not read its answers."""
        while not (self._is_busy or self._is_full) and len(self._received) >= 2:
            size = int.from_bytes(self._received[:2], "big")
            if size > _MAX_QUERY:
                self._transport.abort()
                return
            if len(self._received) < 2 + size:
                return
            message = bytes(self._received[2 : 2 + size])
            del self._received[: 2 + size]
            self._wait()
            self._server.listener.begun(self._connection)
            found = self._server.answer(message, tcp=True)
            if isinstance(found, Query) and self._server.takes(self._client):
                self._is_busy = True
                self._server.tasks.create_task(self._forward(found), name="dns: forward")
                return
            if isinstance(found, Query):
                found = respond(found, Rcode.SERVFAIL, limit=MAX_MESSAGE, is_authority=False)
            self._send(found)

    async def _forward(self, query: Query) -> None:
        found = await self._server.forward(query, self._client, tcp=True)
        self._is_busy = False
        self._send(found)
        self._answer_received()

    def _send(self, message: bytes | None) -> None:
        self._server.listener.ended(self._connection)
        if message is None:
            self._transport.abort()
        else:
            self._transport.write(len(message).to_bytes(2, "big") + message)

    def _wait(self) -> None:
        """Close the connection if nothing more is asked for some time."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._transport.abort)


def _continued(found: Answer, data: bytes) -> tuple[int, Sections]:
    """The response code and the records of an answer that another server's response continues."""
    rows = list(found.sections.answer)
    for one in records(data):
        if one.section == 0 and one.type in _ALIASED:
            is_alias = one.type == RecordType.CNAME
            value = expand_name(data, one.data) if is_alias else data[one.data : one.end]
            rows.append(record(expand_name(data, one.start), one.type, one.ttl, value))
    return data[3] & 0x0F, Sections(rows)


def _send(udp: socket.socket, message: bytes, address: tuple[str, int]) -> None:
    """Send a datagram; it is lost if the kernel has no room for it, and the client asks again."""
    with suppress(OSError):
        udp.sendto(message, address)
