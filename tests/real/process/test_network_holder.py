"""The process that keeps the networks of an ordinary user's pods: what it answers, and what it refuses."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import ordinary_user
from process_lab import until
from pykubelet.aio.packets import receive, send
from pykubelet.podnetwork.holder_client import FOLDER, HolderClient
from requirements import needs_root

pytestmark = needs_root
CIDR, SERVICES = "10.99.2.0/29", "10.96.0.0/12"
NAME, OTHER = "a" * 64, "b" * 64


@pytest.fixture
async def holder() -> AsyncIterator[HolderClient]:
    """A holder of this user, which is root here, in namespaces of its own."""
    with TemporaryDirectory() as folder:
        client = HolderClient(Path(folder), pod_cidr=CIDR, service_cidr=SERVICES)
        await client.open()
        yield client
        await client.take_over({}, "")
        client.close()
        await until(lambda: not (Path(folder) / FOLDER / "socket").exists())


async def test_networks_and_sockets_are_those_of_the_holder(holder: HolderClient) -> None:
    assert await holder.take_over({OTHER: "10.99.2.5"}, "10.99.2.5") == [OTHER]
    address = await holder.attach(NAME)
    assert address == "10.99.2.6"
    server = await holder.open_socket(NAME, socket.AF_INET, socket.SOCK_STREAM)
    client = await holder.open_socket("", socket.AF_INET, socket.SOCK_STREAM)
    with server, client:
        server.bind(("", 80))
        server.listen()
        async with asyncio.timeout(5):
            await asyncio.get_running_loop().sock_connect(client, (address, 80))
            connection, peer = await asyncio.get_running_loop().sock_accept(server)
        connection.close()
        assert peer[0] == holder.gateway == "10.99.2.1"
    result = await holder.run_nft(["--json", "list", "tables"])
    assert (result.exit_code, result.errors) == (0, b"")
    assert (await holder.run_nft(["-f", "-"], "nonsense")).exit_code == 1
    assert not any(name.startswith("veth" + "a" * 4) for _, name in socket.if_nameindex())


@pytest.mark.parametrize(
    "request_",
    [
        {"op": "attach", "name": "../../etc"},
        {"op": "attach", "name": 5},
        {"op": "attach"},
        {"op": "socket", "name": "", "family": int(socket.AF_UNIX), "kind": 1, "protocol": 0},
        {"op": "socket", "name": "", "family": int(socket.AF_INET), "kind": 3, "protocol": 1},
        {"op": "take_over", "known": [], "last": ""},
        {"op": "nft", "arguments": ["-f", "-"]},
        {"op": "run", "program": "/bin/sh"},
        {"no": "operation"},
    ],
)
async def test_malformed_request_is_refused_and_the_next_one_served(
    holder: HolderClient, request_: dict[str, object]
) -> None:
    with pytest.raises(OSError, match="invalid request"):
        await holder._exchange({"op": "none", **request_})
    assert await holder.attach(NAME)


async def test_malformed_packet_ends_only_its_connection(holder: HolderClient) -> None:
    for packet in (b"no json", b"[]", b'"text"'):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            stranger.settimeout(5)
            stranger.connect(f"{holder.holder}/socket")
            stranger.send(packet)
            assert receive(stranger) == (None, [])
    assert await holder.attach(NAME)


async def test_other_user_is_refused(holder: HolderClient) -> None:
    """The folder alone keeps others out; the holder also asks the kernel who connects."""
    for path in (holder.holder, str(Path(holder.holder).parent), f"{holder.holder}/socket"):
        os.chmod(path, 0o777)  # noqa: PTH101  the loop may wait here
    ask = "import socket, sys; s = socket.socket(1, 5); s.connect(sys.argv[1]); s.send(b'{}'); print(s.recv(10))"
    command = [sys.executable, ordinary_user.__file__, "12345", sys.executable, "-c", ask, f"{holder.holder}/socket"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=20, check=False)
    assert done.stdout == "b''\n" or "BrokenPipeError" in done.stderr or "ConnectionResetError" in done.stderr


async def test_cancelled_request_does_not_disturb_the_next(holder: HolderClient) -> None:
    for turns in range(6):
        task = asyncio.create_task(holder.open_socket("", socket.AF_INET, socket.SOCK_STREAM))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result().close()
    with await holder.open_socket("", socket.AF_INET, socket.SOCK_DGRAM) as last:
        assert last.type == socket.SOCK_DGRAM


async def test_connections_are_bounded(holder: HolderClient) -> None:
    crowd = [await asyncio.to_thread(_connected, holder.holder) for _ in range(70)]
    try:
        # The last ones are closed at once; the others are served.
        answers = [await asyncio.to_thread(_hello, one) for one in crowd]
        assert answers[0]
        assert not answers[-1]
        assert 50 < sum(answers) < 65
    finally:
        for one in crowd:
            one.close()
    assert await holder.attach(NAME)


def _connected(folder: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.connect(f"{folder}/socket")
    made.settimeout(5)
    return made


def _hello(connection: socket.socket) -> bool:
    """Whether the holder answers."""
    try:
        send(connection, {"op": "hello", "id": 1})
        return receive(connection)[0] is not None
    except OSError:
        return False
