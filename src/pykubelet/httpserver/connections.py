"""The connections of a listener, bounded in number, memory and time before a client authenticates.

An accepted connection costs a file descriptor and little memory until its client has sent something. Then it gets one
of a few places with TLS and a parser, and keeps it until a request of it is authenticated. If places are scarce, they
go to the clients with the fewest, and those that were held for a second without an authenticated request are given up.

A client never has more than half of anything. It is an address, a /64 network of IPv6, or all of loopback. When a limit
or the reserve of file descriptors is reached, the oldest connection without an authenticated request is closed, then
the one that has been idle longest. A connection with an authenticated request under way, as a watch, is never closed.
"""

import asyncio
import ipaddress
import resource
import socket
import ssl
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import IntEnum, auto
from itertools import chain
from typing import NamedTuple

from pykubelet.aio.log import get_logger

log = get_logger(__name__)

# Accepted at once; other work of the loop goes on between two batches.
_BATCH = 64
# How long a place is left to a client that has not authenticated while others wait for one. A client on the other side
# of the world needs three round trips, less than a second.
_PLACE_SECONDS = 1.0
# The pause after the kernel had no file descriptor or memory for a connection.
_RETRY_SECONDS = 1.0
# How often closed connections are logged, with their number.
_LOG_SECONDS = 60.0
# How long a client may take to confirm the end of a TLS connection.
_TLS_END_SECONDS = 5.0
# File descriptors that are left to the database, logs and containers: a quarter of a low limit.
_RESERVED_FILES = 1024
# Of the other ones, an eighth may wait and an eighth have places at each listener of a program.
_FILES_SHARE = 8
_LOOPBACK = "loopback"


class ConnectionLimits(NamedTuple):
    """What the connections of one listener may cost. The counts are in all; one client has at most half of each."""

    total: int = 16 * 1024
    """A thousand nodes with a dozen watches each. An idle connection with TLS has about 60 KiB."""
    unauthenticated: int = 1024
    """With TLS and a parser, but without an authenticated request yet: 60 MiB."""
    waiting: int = 4096
    """Without anything received yet, or waiting for a place: about a kilobyte each."""
    head_bytes: int = 128 * 1024
    """The request line and headers of one request."""
    all_head_bytes: int = 16 * 1024 * 1024
    """Heads that have arrived in part. The parser takes up to three times as much for them."""
    head_seconds: float = 10.0
    """How long the first byte, the TLS handshake with the first head, and each further head may take."""


class ConnectionState(IntEnum):
    """Where a connection is in its life; integers, because each request looks some up."""

    SILENT = auto()
    """Nothing has been received."""
    READY = auto()
    """Something was received; waits for a place."""
    UNPROVEN = auto()
    """In the handshake, in a head, or idle after requests without credentials."""
    ASKING = auto()
    """With a request that is not authenticated yet."""
    IDLE = auto()
    """Without a request, after an authenticated one."""
    BUSY = auto()
    """With a request, after one was authenticated."""
    CLOSED = auto()


_WAITING = (ConnectionState.SILENT, ConnectionState.READY)
_PLACED = (ConnectionState.UNPROVEN, ConnectionState.ASKING)
# The order in which connections are closed for new ones. Ready ones are served soon, busy ones are never closed.
_EXPENDABLE = (ConnectionState.SILENT, *_PLACED, ConnectionState.IDLE)


class Connection:
    """One connection of a listener, from its acceptance to its end."""

    __slots__ = ("client", "head_bytes", "placed_at", "socket", "state", "timer", "transport")

    def __init__(self, accepted: socket.socket, client: str) -> None:
        self.socket, self.client = accepted, client
        self.state, self.placed_at = ConnectionState.CLOSED, 0.0
        self.transport: asyncio.Transport | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.head_bytes = 0
        """Bytes of heads that have arrived in part, or wait for earlier requests."""

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class ConnectionQueues:
    """The open connections by state, in the order in which they entered it: of all clients, and of each one.

    The first one is found in the same time however many there are: an ordinary dict would pass over those that have
    left it.
    """

    def __init__(self) -> None:
        self._in: dict[ConnectionState, OrderedDict[Connection, None]] = {
            state: OrderedDict() for state in ConnectionState
        }
        self._of: dict[tuple[ConnectionState, str], OrderedDict[Connection, None]] = {}

    def move(self, connection: Connection, state: ConnectionState) -> None:
        """Put a connection at the end of another state; closed connections are in none."""
        old, client = connection.state, connection.client
        if old is not ConnectionState.CLOSED:
            del self._in[old][connection]
            own = self._of[old, client]
            del own[connection]
            if not own:
                del self._of[old, client]
        if state is not ConnectionState.CLOSED:
            self._in[state][connection] = None
            self._of.setdefault((state, client), OrderedDict())[connection] = None
        connection.state = state

    def count(self, *states: ConnectionState) -> int:
        """How many connections are in these states; in all states if none is given."""
        return sum(len(self._in[state]) for state in states or self._in)

    def first(self, states: Iterable[ConnectionState], client: str = "") -> Connection | None:
        """The first connection of the first of these states that has any; of one client if given."""
        for state in states:
            if found := self._of.get((state, client)) if client else self._in[state]:
                return next(iter(found))
        return None

    def all(self, *states: ConnectionState) -> Iterator[Connection]:
        """The connections in these states, or in all states if none is given."""
        return chain.from_iterable(self._in[state] for state in states or self._in)


class BoundedListener:
    """Accepts the connections of a listening socket and keeps them within the limits."""

    def __init__(
        self,
        limits: ConnectionLimits,
        new_protocol: Callable[[Connection], asyncio.Protocol],
        *,
        accepts: Callable[[str], bool] | None = None,
    ) -> None:
        """The protocol must report what happens on its connection by calling the methods below.

        A connection from an address that is not in `accepts` is closed at once.
        """
        self._limits, self._new_protocol, self._accepts = limits, new_protocol, accepts
        self._queues = ConnectionQueues()
        self._ready: dict[str, deque[Connection]] = {}
        self._waiting: Counter[str] = Counter()
        self._placed: Counter[str] = Counter()
        self._all: Counter[str] = Counter()
        self._unfinished: dict[Connection, None] = {}
        self._head_bytes = 0
        self._reclaim_timer: asyncio.TimerHandle | None = None
        self._closures = _ClosureLog()

    async def run(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Accept connections until cancelled; then the listener is closed, connections with a protocol stay open."""
        self._loop, self._listener, self._tls = asyncio.get_running_loop(), listener, tls
        listener.setblocking(False)
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._loop.add_reader(listener, self._accept)
                await self._loop.create_future()
        finally:
            self._loop.remove_reader(listener)
            listener.close()
            if self._reclaim_timer is not None:
                self._reclaim_timer.cancel()
            self._closures.stop()
            self._ready.clear()
            for connection in [one for one in self._queues.all() if one.transport is None]:
                self.close(connection)
                connection.socket.close()

    def begun(self, connection: Connection) -> None:
        """A request of the connection is handled from now on."""
        connection.stop_timer()
        if connection.state is ConnectionState.IDLE:
            self._queues.move(connection, ConnectionState.BUSY)
        elif connection.state is ConnectionState.UNPROVEN:
            self._queues.move(connection, ConnectionState.ASKING)

    def authenticated(self, connection: Connection) -> None:
        """The request that is handled comes from a user: the connection no longer needs a place."""
        if connection.state in _PLACED:
            self._move(connection, ConnectionState.BUSY)
            self._grant()

    def ended(self, connection: Connection) -> None:
        """The request has been handled."""
        if connection.state is ConnectionState.BUSY:
            self._queues.move(connection, ConnectionState.IDLE)
        elif connection.state is ConnectionState.ASKING:
            self._queues.move(connection, ConnectionState.UNPROVEN)
        if connection.head_bytes:
            self._start_timer(connection)

    def head_arriving(self, connection: Connection, size: int) -> bool:
        """Count bytes of an incomplete head, or of requests that wait for an earlier one; False if they are too many."""
        if connection.state is ConnectionState.CLOSED:
            return False
        connection.head_bytes += size
        self._head_bytes += size
        self._unfinished[connection] = None
        if connection.state in (ConnectionState.UNPROVEN, ConnectionState.IDLE) and connection.timer is None:
            self._start_timer(connection)
        while self._head_bytes > self._limits.all_head_bytes:
            largest = max(self._unfinished, key=lambda one: one.head_bytes)
            self._closures.add(largest.client, "incomplete requests take too much memory")
            self.close(largest)
        return connection.head_bytes <= self._limits.head_bytes

    def head_complete(self, connection: Connection) -> None:
        """All heads that have arrived are complete, or forgotten."""
        connection.stop_timer()
        if connection.head_bytes:
            self._head_bytes -= connection.head_bytes
            connection.head_bytes = 0
            del self._unfinished[connection]

    def close(self, connection: Connection) -> None:
        """Close a connection at once."""
        state = connection.state
        if state is ConnectionState.CLOSED:
            return
        self.lost(connection)
        if state in _WAITING:
            self._loop.remove_reader(connection.socket)
            connection.socket.close()
        elif connection.transport is not None:
            connection.transport.abort()
        else:
            # The handshake fails, and its task closes the socket.
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)

    def lost(self, connection: Connection) -> None:
        """Forget a connection that is closed. Its transport is not used any more: Python 3.11.2 cannot abort a lost one."""
        state = connection.state
        if state is ConnectionState.CLOSED:
            return
        self._move(connection, ConnectionState.CLOSED)
        self.head_complete(connection)
        if state in _PLACED:
            self._grant()

    def _accept(self) -> None:
        for _ in range(_BATCH):
            try:
                accepted, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            if self._accepts is not None and not self._accepts(address[0]):
                accepted.close()
                self._closures.add(address[0], "the listener is not for this client")
                continue
            accepted.setblocking(False)
            connection = Connection(accepted, client_of(address[0]))
            if self._has_room(connection):
                self._move(connection, ConnectionState.SILENT)
                self._start_timer(connection)
                self._loop.add_reader(accepted, self._heard, connection)
            else:
                accepted.close()

    def _pause(self, error: OSError) -> None:
        """Stop accepting for a while, as the kernel would report the same connection again at once."""
        self._closures.add("", error.strerror or str(error))
        if (found := self._queues.first(_EXPENDABLE)) is not None:
            self.close(found)
        self._loop.remove_reader(self._listener)
        self._loop.call_later(_RETRY_SECONDS, self._resume)

    def _resume(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _has_room(self, new: Connection) -> bool:
        """Whether a new connection is within the limits, if need be after another one was closed for it."""
        limits, client, most_waiting = self._limits, new.client, _most(self._limits.waiting)
        if self._waiting[client] >= most_waiting // 2:
            return self._replaces(new, "too many wait", self._queues.first((ConnectionState.SILENT,), client))
        if self._queues.count(*_WAITING) >= most_waiting:
            return self._replaces(new, "too many wait", self._queues.first((ConnectionState.SILENT,)))
        if self._all[client] >= limits.total // 2:
            return self._replaces(new, "too many of one client", self._queues.first(_EXPENDABLE, client))
        # The kernel gives each file the lowest free number: all below this one are in use.
        if new.socket.fileno() >= _usable_files():
            return self._replaces(new, "few file descriptors are left", self._queues.first(_EXPENDABLE))
        if self._queues.count() >= limits.total:
            return self._replaces(new, "too many connections", self._queues.first(_EXPENDABLE))
        return True

    def _replaces(self, new: Connection, reason: str, old: Connection | None) -> bool:
        """Close an old connection for a new one; False if there is none to close."""
        self._closures.add((old or new).client, reason)
        if old is not None:
            self.close(old)
        return old is not None

    def _heard(self, connection: Connection) -> None:
        """Let a connection wait for a place once its client has sent something, unless that is its end."""
        self._loop.remove_reader(connection.socket)
        try:
            is_open = connection.socket.recv(1, socket.MSG_PEEK) != b""
        except OSError:
            is_open = False
        if not is_open:
            self.close(connection)
            return
        connection.stop_timer()
        self._move(connection, ConnectionState.READY)
        self._ready.setdefault(connection.client, deque()).append(connection)
        self._grant()

    def _grant(self) -> None:
        """Give free places to connections that wait for one, those of the clients with the fewest first."""
        most = _most(self._limits.unauthenticated)
        while self._ready and self._queues.count(*_PLACED) < most:
            client = min(self._ready, key=self._placed.__getitem__)
            if self._placed[client] >= most // 2:
                break
            queue = self._ready[client]
            connection = queue.popleft()
            if not queue:
                del self._ready[client]
            self._move(connection, ConnectionState.UNPROVEN)
            self._start_timer(connection)
            self._tasks.create_task(self._open(connection))
        if self._ready and self._reclaim_timer is None:
            self._reclaim_timer = self._loop.call_later(_PLACE_SECONDS, self._reclaim)

    def _reclaim(self) -> None:
        """Close connections that have held a place for long, for those that wait for one."""
        self._reclaim_timer = None
        before, needed = self._loop.time() - _PLACE_SECONDS, sum(map(len, self._ready.values()))
        is_full = self._queues.count(*_PLACED) >= _most(self._limits.unauthenticated)
        placed = self._queues.all(*_PLACED)
        old = [one for one in placed if one.placed_at <= before and (is_full or one.client in self._ready)]
        for connection in old[:needed]:
            self._closures.add(connection.client, "too many without a complete request")
            self.close(connection)
        self._grant()

    async def _open(self, connection: Connection) -> None:
        """Start TLS, if there is any, and the protocol."""
        limits, tls = self._limits, self._tls
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._new_protocol(connection),
                connection.socket,
                ssl=tls,
                ssl_handshake_timeout=limits.head_seconds if tls else None,
                ssl_shutdown_timeout=_TLS_END_SECONDS if tls else None,
            )
        except OSError as error:
            log.debug("connection failed", client=connection.client, cause=str(error))
            self.close(connection)
        except Exception as error:  # noqa: BLE001  the listener goes on, whatever happens to one connection
            log.error("connection failed", error=error, client=connection.client)
            self.close(connection)

    def _start_timer(self, connection: Connection) -> None:
        connection.timer = self._loop.call_later(self._limits.head_seconds, self._too_slow, connection)

    def _too_slow(self, connection: Connection) -> None:
        connection.timer = None
        log.debug("no complete request in time", client=connection.client)
        self.close(connection)

    def _move(self, connection: Connection, state: ConnectionState) -> None:
        """Put a connection into another state, and count it there."""
        old, client = connection.state, connection.client
        self._queues.move(connection, state)
        if state is ConnectionState.UNPROVEN:
            connection.placed_at = self._loop.time()
        _count(self._waiting, client, (state in _WAITING) - (old in _WAITING))
        _count(self._placed, client, (state in _PLACED) - (old in _PLACED))
        _count(self._all, client, (old is ConnectionState.CLOSED) - (state is ConnectionState.CLOSED))


def client_of(address: str) -> str:
    """The client at an IP address: all of loopback is one, and so is a /64 network of IPv6."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return _LOOPBACK if found.is_loopback else str(ipaddress.ip_network((found, 64), strict=False))
        found = found.ipv4_mapped
    return _LOOPBACK if found.is_loopback else str(found)


def _usable_files() -> int:
    """How many file descriptors may be in use when a connection is accepted."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit - min(_RESERVED_FILES, limit // 4)


def _most(limit: int) -> int:
    """A limit for unauthenticated connections, lower if the program may open few files."""
    return min(limit, _usable_files() // _FILES_SHARE)


def _count(counts: Counter[str], client: str, change: int) -> None:
    if change:
        counts[client] += change
        if not counts[client]:
            del counts[client]


class _ClosureLog:
    """Logs connections that were closed for a limit: the first at once, later ones as a number each minute."""

    def __init__(self) -> None:
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, client: str, reason: str) -> None:
        """Count a connection that was closed or could not be accepted."""
        if self._timer is None:
            log.warning("connections are closed or refused", reason=reason, client=client or None)
            self._wait()
        else:
            self._count += 1

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOG_SECONDS, self._report)

    def _report(self) -> None:
        self._timer = None
        if self._count:
            log.warning("more connections were closed or refused", connections=self._count, seconds=_LOG_SECONDS)
            self._count = 0
            self._wait()
