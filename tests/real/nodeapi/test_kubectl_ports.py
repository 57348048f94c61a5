"""kubectl port-forward through our API server to a node, by tunnelled and by plain SPDY."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from node_cluster import SPDY, WEB_SOCKET, Cluster

BOTH = pytest.mark.parametrize("protocol", [WEB_SOCKET, SPDY], ids=["tunnel", "spdy"])


async def say_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A program in a pod that echoes everything and closes at EOF."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def break_off(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A program in a pod that resets its connections."""
    writer.transport.abort()


@asynccontextmanager
async def forwarding(
    cluster: Cluster, port: int, protocol: dict[str, str]
) -> AsyncIterator[tuple[int, asyncio.subprocess.Process]]:
    """Run `kubectl port-forward` of one port; yields the local port and the process."""
    process = await cluster.start("port-forward", "web", f":{port}", "--address=127.0.0.1", environment=protocol)
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), 15)).decode()
    found = re.fullmatch(r"Forwarding from 127\.0\.0\.1:(\d+) -> \d+\n", line)
    assert found, line + (await process.communicate())[1].decode()
    try:
        yield int(found[1]), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def through(port: int, given: bytes) -> bytes:
    """Send bytes to a port and return everything that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def send() -> None:
        writer.write(given)
        await writer.drain()
        writer.write_eof()

    _, received = await asyncio.gather(send(), reader.read(-1))
    writer.close()
    return received


@BOTH
async def test_port_forward_carries_many_connections_at_once(cluster: Cluster, protocol: dict[str, str]) -> None:
    """Ten concurrent connections carry half a megabyte each, and another one works afterwards."""
    await cluster.run_pod()
    program = await asyncio.start_server(say_back, "127.0.0.1", 0)
    async with program, forwarding(cluster, program.sockets[0].getsockname()[1], protocol) as (port, _):
        sent = [os.urandom(500_000) for _ in range(10)]
        assert await asyncio.wait_for(asyncio.gather(*(through(port, one) for one in sent)), 15) == sent
        assert await asyncio.wait_for(through(port, b"again"), 10) == b"again"


@BOTH
async def test_port_forward_reports_a_closed_port(cluster: Cluster, protocol: dict[str, str]) -> None:
    """kubectl prints the node's error."""
    await cluster.run_pod()
    program = await asyncio.start_server(say_back, "127.0.0.1", 0)
    closed = program.sockets[0].getsockname()[1]
    program.close()
    await program.wait_closed()
    async with forwarding(cluster, closed, protocol) as (port, process):
        assert await asyncio.wait_for(through(port, b"anybody?"), 10) == b""
        assert process.stderr is not None
        told = (await asyncio.wait_for(process.stderr.readline(), 10)).decode()
    assert f"error forwarding port {closed} to pod web, uid uid-default-web: failed to connect" in told


@BOTH
async def test_port_forward_outlives_a_connection_that_is_reset(cluster: Cluster, protocol: dict[str, str]) -> None:
    """A reset ends only its own connection."""
    await cluster.run_pod()
    program = await asyncio.start_server(break_off, "127.0.0.1", 0)
    number = program.sockets[0].getsockname()[1]
    async with program, forwarding(cluster, number, protocol) as (port, process):
        for _ in range(3):
            try:
                assert await asyncio.wait_for(through(port, b"hello"), 10) == b""
            except ConnectionError:
                continue
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.wait(), 0.3)
