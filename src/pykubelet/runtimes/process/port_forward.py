"""Forwards connections to ports that a pod's own processes listen on.

In a network of its own, a pod is reached at its localhost. Other process pods share the machine's network. Connections go only to sockets of the pod's own processes: otherwise the right
to forward ports of one pod would be the right to reach everything that trusts loopback.
"""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from socket import AF_INET, AF_INET6, AddressFamily, socket
from typing import NamedTuple

from pykubelet.httpserver.http_failure import dial_failure
from pykubelet.runtimes.process.stats import members, read_processes
from pykubelet.runtimes.protocol import PortForwardConnection, RuntimeFailure

_BLOCK_BYTES = 64 * 1024
_PROC = Path("/proc")
ADDRESSES = ("127.0.0.1", "::1")
_LISTENING = "0A"
# Tables and addresses in the notation of /proc/net, in the kernel's order of preference: a socket bound to the address
# itself before one bound to all addresses, IPv4 before IPv6.
_PREFERRED = {
    "127.0.0.1": (
        ("tcp", "0100007F"),
        ("tcp", "00000000"),
        ("tcp6", "0000000000000000FFFF00000100007F"),
        ("tcp6", "0" * 32),
    ),
    "::1": (("tcp6", "00000000000000000000000001000000"), ("tcp6", "0" * 32)),
}


class Listener(NamedTuple):
    """A listening TCP socket."""

    table: str
    address: str
    port: int
    inode: str


def parse_listeners(table: str, text: str) -> list[Listener]:
    """Parses /proc/net/tcp or tcp6; `table` is its name."""
    rows = [line.split() for line in text.splitlines()[1:]]
    listening = [row for row in rows if len(row) > 9 and row[3] == _LISTENING]
    return [Listener(table, *_place(row[1]), row[9]) for row in listening]


def answering(listeners: list[Listener], port: int) -> dict[str, frozenset[str]]:
    """The sockets (inodes) that accept connections at each loopback address; omits addresses without one."""
    found: dict[str, frozenset[str]] = {}
    for address, order in _PREFERRED.items():
        for place in order:
            inodes = frozenset(one.inode for one in listeners if (one.table, one.address, one.port) == (*place, port))
            if inodes:
                found[address] = inodes
                break
    return found


def _place(text: str) -> tuple[str, int]:
    address, _, port = text.partition(":")
    return address, int(port, 16)


class _LocalPortReader:
    """Reads from a port; a lost connection is the end of the data."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def read(self) -> bytes:
        try:
            return await self._reader.read(_BLOCK_BYTES)
        except OSError:
            return b""


class _PortWriter:
    """Writes to a port; drops data after a lost connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, data: bytes) -> None:
        with suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()

    async def close(self) -> None:
        # Half closed: the answer may still come.
        with suppress(OSError):
            if self._writer.can_write_eof():
                self._writer.write_eof()


@asynccontextmanager
async def open_local_port(
    port: int, addresses: Callable[[], Awaitable[Sequence[str]]]
) -> AsyncIterator[PortForwardConnection]:
    """Connects to a port at an address where the pod listens; RuntimeFailure if there is none."""
    async with _connected(await _opened(port, await addresses())) as connection:
        yield connection


@asynccontextmanager
async def open_pod_port(
    port: int, open_socket: Callable[[AddressFamily], Awaitable[socket]]
) -> AsyncIterator[PortForwardConnection]:
    """Connects to a port at localhost in the network of the sockets that `open_socket` opens; RuntimeFailure if impossible."""
    reasons = []
    for family, address in zip((AF_INET, AF_INET6), ADDRESSES, strict=True):
        try:
            end = await open_socket(family)
        except OSError as error:
            raise RuntimeFailure(f"the network of the pod cannot be entered: {error.strerror}") from error
        try:
            await asyncio.get_running_loop().sock_connect(end, (address, port))
        except OSError as error:
            end.close()
            reasons.append(dial_failure(address, port, error))
            continue
        except BaseException:
            end.close()
            raise
        async with _connected(await asyncio.open_connection(sock=end)) as connection:
            yield connection
        return
    raise RuntimeFailure(f"failed to connect to localhost:{port} inside the pod: {', '.join(reasons)}")


@asynccontextmanager
async def _connected(
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> AsyncIterator[PortForwardConnection]:
    reader, writer = streams
    try:
        yield PortForwardConnection(_LocalPortReader(reader), _PortWriter(writer))
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _opened(port: int, addresses: Sequence[str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reasons = []
    # By address: resolving a name may be slow, and its combined errors are not readable.
    for address in ADDRESSES:
        if address not in addresses:
            # Another process may listen there; the pod must not reach it.
            reasons.append(dial_failure(address, port, ConnectionRefusedError(errno.ECONNREFUSED, "refused")))
            continue
        try:
            return await asyncio.open_connection(address, port)
        except OSError as error:
            reasons.append(dial_failure(address, port, error))
    raise RuntimeFailure(f"failed to connect to localhost:{port} inside the pod: {', '.join(reasons)}")


def own_addresses(port: int, supervisors: Collection[int], proc: Path = _PROC) -> tuple[str, ...]:
    """The loopback addresses where only descendants of these shims listen on a port. Blocks."""
    found = answering([one for name in ("tcp", "tcp6") for one in _listeners(name, proc)], port)
    if not found:
        return ()
    held = _sockets_below(supervisors, proc)
    return tuple(address for address in ADDRESSES if address in found and found[address] <= held)


def _listeners(name: str, proc: Path) -> list[Listener]:
    with suppress(FileNotFoundError):
        return parse_listeners(name, (proc / "self/net" / name).read_text())
    return []


def _sockets_below(supervisors: Collection[int], proc: Path) -> set[str]:
    held: set[str] = set()
    for pids in members(read_processes(proc), supervisors).values():
        for pid in pids:
            with suppress(OSError):
                held |= {_inode(handle) for handle in (proc / str(pid) / "fd").iterdir()}
    return held


def _inode(handle: Path) -> str:
    with suppress(OSError):
        return str(handle.readlink()).removeprefix("socket:[").removesuffix("]")
    return ""
