"""Relays of TCP connections and UDP datagrams, on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest

from pykubelet.httpserver.dialer import Dialer
from pykubelet.podnetwork.port_relay import RelayLimit, RelayTarget, UdpRelay, tcp_relay

LOOPBACK = "127.0.0.1"


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


async def _shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers only after the client has ended its request."""
    writer.write((await reader.read()).upper())
    writer.close()


@asynccontextmanager
async def shouting_server() -> AsyncIterator[RelayTarget]:
    server = await asyncio.start_server(_shout, LOOPBACK, 0)
    async with server:
        yield RelayTarget(LOOPBACK, server.sockets[0].getsockname()[1])


async def ask(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    with closing(writer):
        writer.write(data)
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), 5)


async def test_relay_passes_all_bytes_and_the_end_of_each_direction() -> None:
    port, data = free_port(), b"abc" * 300_000
    async with shouting_server() as target, tcp_relay((LOOPBACK,), port, target, dialer=Dialer(), limit=RelayLimit(8)):
        answers = await asyncio.gather(*(ask(port, data) for _ in range(4)))
    assert answers == [data.upper()] * 4


async def test_connection_above_the_limit_is_closed_and_a_later_one_served() -> None:
    port = free_port()
    async with shouting_server() as target, tcp_relay((LOOPBACK,), port, target, dialer=Dialer(), limit=RelayLimit(1)):
        _, first = await asyncio.open_connection(LOOPBACK, port)
        reader, second = await asyncio.open_connection(LOOPBACK, port)
        with closing(second):
            assert await asyncio.wait_for(_until_closed(reader), 5) == b""
        first.close()
        await first.wait_closed()
        async with asyncio.timeout(5):
            while await _until_closed_after(port, b"x") != b"X":
                await asyncio.sleep(0.01)


async def _until_closed(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def _until_closed_after(port: int, data: bytes) -> bytes:
    try:
        return await ask(port, data)
    except OSError:
        return b""


async def test_connection_to_a_service_without_endpoints_is_closed() -> None:
    port, target = free_port(), RelayTarget(LOOPBACK, free_port())
    async with tcp_relay((LOOPBACK,), port, target, dialer=Dialer(), limit=RelayLimit(8)):
        assert await _until_closed_after(port, b"x") == b""


async def test_taken_port_is_an_error_and_leaves_no_listener() -> None:
    port = free_port()
    with socket.create_server((LOOPBACK, port)), pytest.raises(OSError, match="in use"):
        async with tcp_relay(
            ("127.0.0.2", LOOPBACK), port, RelayTarget(LOOPBACK, 1), dialer=Dialer(), limit=RelayLimit(8)
        ):
            pass
    socket.create_server(("127.0.0.2", port)).close()


async def test_each_udp_client_gets_its_own_answers() -> None:
    loop, port = asyncio.get_running_loop(), free_port(socket.SOCK_DGRAM)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((LOOPBACK, 0))
        server.setblocking(False)

        def answer() -> None:
            data, peer = server.recvfrom(100)
            server.sendto(data.upper(), peer)

        loop.add_reader(server, answer)
        limit = RelayLimit(2)
        relay = UdpRelay(LOOPBACK, port, RelayTarget(*server.getsockname()), dialer=Dialer(), limit=limit)
        clients = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        for number, client in enumerate(clients):
            client.setblocking(False)
            client.connect((LOOPBACK, port))
            client.send(f"client {number}".encode())
        found = [await asyncio.wait_for(loop.sock_recv(client, 100), 5) for client in clients]
        assert found == [b"CLIENT 0", b"CLIENT 1"]
        assert not limit.take()
        relay.close()
        assert limit.take()
        loop.remove_reader(server)
        for client in clients:
            client.close()
