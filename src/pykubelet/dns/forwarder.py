"""Forwards questions about other names to the machine's name servers, and caches their answers.

Each question is sent with a random ID from a socket of its own, whose port the kernel chooses at random, and only a
response from that server with that ID and question counts. The same question of several clients is sent once. The
servers of resolv.conf are asked one after the other, beginning with the one that answered last.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from pykubelet.aio.ids import random_bits
from pykubelet.aio.log import get_logger
from pykubelet.dns.message import (
    CD,
    MAX_MESSAGE,
    RD,
    TC,
    MalformedMessage,
    Query,
    Rcode,
    RecordType,
    is_response_to,
    make_query,
    records,
)
from pykubelet.runtimes.dns import parse_resolver

log = get_logger(__name__)

DNS_PORT = 53
_TIMEOUT_SECONDS = 2.0
"""The time of one server; clients wait five seconds and ask again."""
_MAX_SERVERS = 3
"""As many as the C library uses."""
MAX_OUTSTANDING = 256
"""Questions that wait for a server at once: each takes a file descriptor. One client has at most half of them."""
_MAX_CACHED = 1000
# A larger response is not kept, so that the cache takes 4 MB at most.
_MAX_CACHED_BYTES = 4096
_MAX_CACHED_SECONDS = 30
"""As in the usual configuration of CoreDNS."""
_CHECK_SECONDS = 1.0
"""How often resolv.conf is checked for changes at most."""
# Larger ones have the highest bit set, which means none (RFC 2181).
_MAX_TTL = 2**31 - 1
_ANSWERS = (Rcode.NOERROR, Rcode.NXDOMAIN)
_ID_BITS = 16
_Key = tuple[bytes, int, int, int, bytes]


class NoAnswer(Exception):
    """No server answered; the message says why."""


class ResolvConf:
    """The name servers of a resolv.conf, read again when the file changes."""

    def __init__(self, path: Path, *, port: int = DNS_PORT, excluded: frozenset[str] = frozenset()) -> None:
        """`excluded` are addresses of this server, which must not ask itself."""
        self._path, self._port, self._excluded = path, port, excluded
        self._version: object = None
        self._checked_at = -_CHECK_SECONDS
        self._servers: tuple[tuple[str, int], ...] = ()

    def servers(self, now: float) -> Sequence[tuple[str, int]]:
        """The addresses of the servers. Reads a small local file if it has changed."""
        if now - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            try:
                stat = self._path.stat()
                version = stat.st_mtime_ns, stat.st_ino, stat.st_size
                if version != self._version:
                    self._read()
                    self._version = version
            except OSError as error:
                if self._version != error.errno:
                    log.warning("name servers of the machine are unknown", path=self._path, cause=error.strerror)
                self._version, self._servers = error.errno, ()
        return self._servers

    def _read(self) -> None:
        found = parse_resolver(self._path.read_text(errors="replace")).servers
        used = [server for server in found if server not in self._excluded]
        if len(used) < len(found):
            log.warning("resolv.conf names this DNS server itself, which is not asked", path=self._path)
        self._servers = tuple((server, self._port) for server in used[:_MAX_SERVERS])


class _Cached:
    """A response, and where its records have their time to live."""

    __slots__ = ("data", "ends_at", "kept_at", "ttls")

    def __init__(self, data: bytes, ttls: Sequence[tuple[int, int]], kept_at: float, seconds: float) -> None:
        self.data, self.ttls, self.kept_at, self.ends_at = data, ttls, kept_at, kept_at + seconds

    def at(self, now: float) -> bytes:
        """The response with the time to live that is left."""
        data, age = bytearray(self.data), int(now - self.kept_at)
        for place, seconds in self.ttls:
            data[place : place + 4] = max(0, seconds - age).to_bytes(4, "big")
        return bytes(data)


class DnsForwarder:
    """Asks the machine's name servers. Used by one event loop."""

    def __init__(self, conf: ResolvConf, *, time: Callable[[], float]) -> None:
        self._conf, self._time = conf, time
        self._cache: dict[_Key, _Cached] = {}
        self._outstanding: dict[tuple[_Key, bool], asyncio.Future[bytes]] = {}
        self._clients: Counter[str] = Counter()
        self._preferred = 0

    def cached(self, query: Query) -> bytes | None:
        """A response to the same question that is still valid."""
        key = _key(query)
        found = self._cache.get(key)
        if found is None:
            return None
        now = self._time()
        if now >= found.ends_at:
            del self._cache[key]
            return None
        return found.at(now)

    def has_room(self, client: str) -> bool:
        """Whether another question of a client may be forwarded now."""
        return self._clients.total() < MAX_OUTSTANDING and self._clients[client] < MAX_OUTSTANDING // 2

    async def resolve(self, query: Query, client: str, *, tcp: bool) -> bytes:
        """The response of the first server that answers; raises NoAnswer. The caller checked `has_room`."""
        key = (_key(query), tcp)
        self._clients[client] += 1
        try:
            if (same := self._outstanding.get(key)) is not None:
                # Shielded: this client's end must not be that of the others.
                return await asyncio.shield(same)
            return await self._resolve_once(key, query, tcp=tcp)
        finally:
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]

    async def _resolve_once(self, key: tuple[_Key, bool], query: Query, *, tcp: bool) -> bytes:
        """Asks, and gives the result to the clients that ask the same meanwhile."""
        result = self._outstanding[key] = asyncio.get_running_loop().create_future()
        try:
            data = await self._ask_each(query, tcp=tcp)
        except NoAnswer as error:
            result.set_exception(error)
            # There may be no other client.
            result.exception()
            raise
        except BaseException:
            result.cancel()
            raise
        finally:
            del self._outstanding[key]
        result.set_result(data)
        self._keep(key[0], data)
        return data

    async def _ask_each(self, query: Query, *, tcp: bool) -> bytes:
        servers = self._conf.servers(self._time())
        if not servers:
            raise NoAnswer("the machine has no name server")
        failure, refusal = "", b""
        for index in range(len(servers)):
            chosen = (self._preferred + index) % len(servers)
            try:
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    data = await (_ask_tcp if tcp else _ask_udp)(servers[chosen], query)
            except TimeoutError:
                failure = f"{servers[chosen][0]} does not answer"
            except (OSError, MalformedMessage, asyncio.IncompleteReadError) as error:
                failure = f"{servers[chosen][0]}: {error}"
            else:
                if data[3] & 0x0F in _ANSWERS:
                    self._preferred = chosen
                    return data
                # Another server may know more; if none does, the client gets what this one said.
                refusal = data
        if refusal:
            return refusal
        raise NoAnswer(failure)

    def _keep(self, key: _Key, data: bytes) -> None:
        """Remembers a response as long as all its records are valid; a negative one as long as its SOA says."""
        if data[2] & TC >> 8 or data[3] & 0x0F not in _ANSWERS or len(data) > _MAX_CACHED_BYTES:
            return
        found = [record for record in records(data) if record.type != RecordType.OPT]
        seconds = [record.ttl for record in found]
        # The last four bytes of a SOA record are the time for which a name is known not to exist.
        seconds += [
            int.from_bytes(data[record.end - 4 : record.end], "big")
            for record in found
            if record.type == RecordType.SOA
        ]
        shortest = min(seconds, default=0)
        if not 0 < shortest <= _MAX_TTL:
            return
        self._cache.pop(key, None)
        while len(self._cache) >= _MAX_CACHED:
            del self._cache[next(iter(self._cache))]
        ttls = [(record.data - 6, record.ttl) for record in found]
        self._cache[key] = _Cached(data, ttls, self._time(), min(shortest, _MAX_CACHED_SECONDS))


def _key(query: Query) -> _Key:
    """What decides about the response of another server."""
    return query.name, query.type, query.klass, query.flags & (RD | CD), query.opt


async def _ask_udp(server: tuple[str, int], query: Query) -> bytes:
    """The response of one server over UDP; raises OSError, as when nothing listens there."""
    loop, (host, port) = asyncio.get_running_loop(), server
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as asking:
        # Connected: the kernel drops what comes from elsewhere, and reports that nothing listens.
        asking.connect((host, port))
        id = random_bits(_ID_BITS)
        await loop.sock_sendall(asking, make_query(id, query))
        while True:
            data = await loop.sock_recv(asking, MAX_MESSAGE)
            if is_response_to(data, id, query):
                return _checked(data)


async def _ask_tcp(server: tuple[str, int], query: Query) -> bytes:
    """The response of one server over TCP."""
    reader, writer = await asyncio.open_connection(*server)
    try:
        id = random_bits(_ID_BITS)
        message = make_query(id, query)
        writer.write(len(message).to_bytes(2, "big") + message)
        data = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
        if not is_response_to(data, id, query):
            raise MalformedMessage("response to another question")
        return _checked(data)
    finally:
        writer.transport.abort()


def _checked(data: bytes) -> bytes:
    """The response, whose records have all been found complete."""
    for _ in records(data):
        pass
    return data
