"""A DNS server on loopback, a small server that it forwards to, and dig."""

import asyncio
import re
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from pykubelet.aio.clock import SystemClock
from pykubelet.aio.tasks import running
from pykubelet.dns.forwarder import DnsForwarder, ResolvConf
from pykubelet.dns.server import DnsServer, bind_sockets
from pykubelet.dns.zone import ClusterZone
from requirements import needs

LOOPBACK = "127.0.0.1"
needs_dig = needs(shutil.which("dig"), "dig is missing (Debian: bind9-dnsutils)")


@dataclass(kw_only=True)
class DnsLab:
    """A running server with its zone, and the machine's resolv.conf."""

    zone: ClusterZone
    port: int
    resolv_conf: Path

    async def dig(self, *arguments: str) -> str:
        """What dig prints, with single spaces; it fails if there is no answer at all."""
        command = ["dig", f"@{LOOPBACK}", "-p", str(self.port), "+tries=1", "+time=10", *arguments]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        printed, _ = await process.communicate()
        assert process.returncode == 0, printed.decode()
        return re.sub(r"[ \t]+", " ", printed.decode())

    async def short(self, *arguments: str) -> list[str]:
        """The data of the answer's records, sorted."""
        return sorted((await self.dig("+short", *arguments)).split("\n")[:-1])

    async def send(self, data: bytes, *, seconds: float = 5.0) -> bytes | None:
        """The response to a datagram, None if none came."""
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as asking:
            asking.connect((LOOPBACK, self.port))
            await loop.sock_sendall(asking, data)
            try:
                async with asyncio.timeout(seconds):
                    return await loop.sock_recv(asking, 65_535)
            except TimeoutError:
                return None


@asynccontextmanager
async def dns_lab(
    folder: Path, *, upstream_port: int = 1, excluded: Sequence[str] = (), is_allowed: Callable[[str], bool] = bool
) -> AsyncIterator[DnsLab]:
    """Run a server of `cluster.local` on a free port of loopback that forwards to a port of loopback."""
    conf = folder / "resolv.conf"
    conf.write_text(f"nameserver {LOOPBACK}\n")
    zone, sockets = ClusterZone("cluster.local"), await bind_sockets(LOOPBACK, 0)
    read = ResolvConf(conf, port=upstream_port, excluded=frozenset(excluded))
    server = DnsServer(zone=zone, forwarder=DnsForwarder(read, time=SystemClock().monotonic), is_allowed=is_allowed)
    port, ready = sockets.port, asyncio.Event()
    async with running({"dns": lambda: server.run(sockets, ready)}):
        await ready.wait()
        yield DnsLab(zone=zone, port=port, resolv_conf=conf)


@dataclass
class UpstreamServer:
    """A name server of the machine, which answers as `respond` says and records the questions."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    delay_seconds: float = 0.0
    held: list[Callable[[], None]] | None = None
    """The calls that send responses over UDP, if they are held back."""
    is_lying: bool = False
    """Whether responses with a wrong ID, and to another question, come before the right one."""

    def response(self, query: dns.message.Message, *, tcp: bool) -> bytes:
        name = query.question[0].name.to_text()
        self.asked.append(f"{name} {'tcp' if tcp else 'udp'}")
        self.ids.append(query.id)
        made = dns.message.make_response(query)
        if name.lower().startswith("missing."):
            made.set_rcode(dns.rcode.NXDOMAIN)
            made.authority = [dns.rrset.from_text("test.", 60, "IN", "SOA", "a.test. b.test. 1 2 3 4 60")]
        elif name.lower().startswith("broken."):
            made.set_rcode(dns.rcode.SERVFAIL)
        elif name.lower().startswith("long."):
            made.answer = [dns.rrset.from_text(name, 60, "IN", "A", *(f"192.0.2.{n}" for n in range(1, 101)))]
        else:
            alias = dns.rrset.from_text(name, 60, "IN", "CNAME", f"real.{name}")
            made.answer = [alias, dns.rrset.from_text(f"real.{name}", 60, "IN", "A", "192.0.2.53")]
        if not tcp and len(made.to_wire(max_size=65_535)) > 512:
            made.answer = []
            made.flags |= dns.flags.TC
        return made.to_wire(max_size=65_535)


class _UpstreamProtocol(asyncio.DatagramProtocol):
    def __init__(self, server: UpstreamServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        self._server.ports.append(address[1])
        response = self._server.response(query, tcp=False)
        if self._server.is_lying:
            self._transport.sendto(bytes([response[0] ^ 1]) + response[1:], address)
            other = dns.message.make_response(dns.message.make_query("other.test", "A", id=query.id))
            self._transport.sendto(other.to_wire(), address)
        send = partial(self._transport.sendto, response, address)
        if self._server.held is None:
            asyncio.get_running_loop().call_later(self._server.delay_seconds, send)
        else:
            self._server.held.append(send)


@asynccontextmanager
async def upstream_server() -> AsyncIterator[UpstreamServer]:
    """Run a name server on loopback, over UDP and TCP."""
    server, sockets = UpstreamServer(), await bind_sockets(LOOPBACK, 0)
    server.port = sockets.port

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(2), "big")
        response = server.response(dns.message.from_wire(await reader.readexactly(size)), tcp=True)
        writer.write(len(response).to_bytes(2, "big") + response)
        writer.close()

    loop = asyncio.get_running_loop()
    udp, _ = await loop.create_datagram_endpoint(lambda: _UpstreamProtocol(server), sock=sockets.udp)
    try:
        async with await asyncio.start_server(serve, sock=sockets.tcp):
            yield server
    finally:
        udp.close()
