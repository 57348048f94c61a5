"""Process pods with networks of their own: addresses, sockets, routes, and what is left of them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from own_network import another_machine, links, nft_tables, own_network, routes
from process_lab import IPS, Lab, Ward, make_runtime, stop_everything, unmount_below, until
from pykubelet.api.generated.core import PodSecurityContext
from pykubelet.runtimes.process.runtime import ProcessRuntime
from pykubelet.runtimes.protocol import RuntimeFailure, RuntimePod, SandboxRequest

CIDR = "10.99.0.0/29"
"""Five addresses for pods."""
# Serves its own name at port 8080 of each address, as any two replicas of an app.
_SERVER = """
import http.server, socket, socketserver, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(socket.gethostname().encode())
    def log_message(self, *_): pass
http.server.HTTPServer.server_bind = socketserver.TCPServer.server_bind  # the other one asks a name server
server = http.server.HTTPServer((sys.argv[1], 8080), Handler); print("serves", flush=True); server.serve_forever()
"""


@pytest.fixture(autouse=True)
def _own_machine(tmp_path: Path) -> Iterator[None]:
    with own_network():
        try:
            yield
        finally:
            unmount_below(tmp_path)


@pytest.fixture
async def runtime(root: Path) -> AsyncIterator[ProcessRuntime]:
    async with make_runtime(root, pod_cidr=CIDR) as runtime:
        yield runtime
        await stop_everything(runtime)


def mounts(root: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line.split()[1] for line in lines if Path(line.split()[1]).is_relative_to(root)]


async def server(lab: Lab, listen: str = "0.0.0.0") -> Ward:
    ward = await lab.start("python3", "-c", _SERVER, listen)
    await until(lambda: "serves" in ward.log)
    return ward


def address_of(pod: RuntimePod) -> str:
    (address,) = pod.sandboxes[0].ips
    return address


async def fetch(host: str, port: int = 8080) -> str:
    reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 10)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return answer.rpartition("\n")[2]


async def test_pods_listen_on_one_port_and_reach_each_other_and_the_node(lab: Lab) -> None:
    first, second = await server(lab), await server(lab)
    addresses = [address_of(await one.inspect()) for one in (first, second)]
    assert len(set(addresses)) == 2
    names = [one.pod.metadata.name for one in (first, second)]
    assert [await fetch(address) for address in addresses] == names
    ask = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"
    assert await lab.output_of("python3", "-c", ask, f"http://{addresses[1]}:8080") == f"{names[1]}\n"
    node = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = node.sockets[0].getsockname()[1]
    connect = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10)"
    # The machine's loopback is not the pod's.
    refused = await lab.start("python3", "-c", connect, "127.0.0.1", str(port))
    assert (await refused.until_ended()).exit_code != 0
    assert "ConnectionRefusedError" in refused.log
    node.close()


async def test_exec_and_port_forward_enter_the_pod_of_the_sandbox(lab: Lab, runtime: ProcessRuntime) -> None:
    """Also a port that listens on the pod's loopback only."""
    ward = await server(lab, "127.0.0.1")
    with pytest.raises(ConnectionRefusedError):
        await fetch("127.0.0.1")
    async with runtime.connect(ward.sandbox_id, 8080) as connection:
        await connection.writer.write(b"GET / HTTP/1.0\r\n\r\n")
        answer = b"".join([part async for part in _parts(connection.reader.read)])
    assert answer.endswith(ward.pod.metadata.name.encode())
    with pytest.raises(RuntimeFailure, match=r"failed to connect to localhost:9 inside the pod"):
        async with runtime.connect(ward.sandbox_id, 9):
            pass
    code, output = await ward.run("sh", "-c", "ls /proc/self/fd >/dev/null; cut -d: -f1 /proc/net/dev | tail -n +3")
    assert (code, sorted(output.split())) == (0, ["eth0", "lo"])


async def _parts(read: object) -> AsyncIterator[bytes]:
    assert callable(read)
    while part := await read():
        yield part


async def test_ordinary_user_may_listen_on_port_80_of_its_pod(lab: Lab) -> None:
    listen = "import socket; socket.create_server(('', 80)); print('listens')"
    context = {"security_context": PodSecurityContext(run_as_user=65534)}
    assert await lab.output_of("python3", "-c", listen, pod=context) == "listens\n"


async def test_host_network_stays_on_the_machine(lab: Lab, runtime: ProcessRuntime) -> None:
    ward = await lab.create("sleep", "1000", pod={"host_network": True})
    assert (await ward.inspect()).sandboxes[0].ips == ()
    assert links() == []


async def test_stopped_pod_leaves_nothing(root: Path) -> None:
    """No link, route, mount or rule; the runtime without pods leaves nothing either."""
    async with make_runtime(root, pod_cidr=CIDR) as runtime:
        lab = Lab(runtime, root.parent)
        wards = [await lab.start("sleep", "1000") for _ in range(3)]
        addresses = sorted([address_of(await one.inspect()) for one in wards])
        assert len(links()) == 3
        assert sorted(routes()) == addresses
        assert len(nft_tables()) == 1
        for ward in wards:
            await runtime.stop(ward.sandbox_id, 0)
        await until(lambda: links() == routes() == [])
        assert mounts(root) == []
    assert nft_tables() == []


async def test_container_does_not_keep_the_network_of_another_pod(lab: Lab, runtime: ProcessRuntime) -> None:
    """Its mount namespace was made while the other network existed."""
    first = await lab.start("sleep", "1000")
    second = await lab.start("sleep", "1000")
    await runtime.stop(first.sandbox_id, 0)
    await until(lambda: len(links()) == 1)
    assert (await second.told()).state.value == "running"


async def test_pod_keeps_its_network_when_the_agent_restarts(root: Path) -> None:
    async with make_runtime(root, pod_cidr=CIDR) as runtime:
        ward = await server(Lab(runtime, root.parent))
        address = address_of(await ward.inspect())
    # As another option than before: what runs keeps its network.
    for cidr in (CIDR, ""):
        async with make_runtime(root, pod_cidr=cidr) as again:
            ward.runtime = again
            assert address_of(await ward.inspect()) == address
            assert await fetch(address) == ward.pod.metadata.name
    async with make_runtime(root, pod_cidr=CIDR) as again:
        other = await Lab(again, root.parent).create("sleep", "1000")
        assert address_of(await other.inspect()) != address
        await stop_everything(again)
        await until(lambda: links() == [])


async def test_what_no_sandbox_owns_is_removed_at_start(root: Path) -> None:
    """An agent was killed before it had recorded the sandbox; the pods of another node keep their networks."""
    async with make_runtime(root, pod_cidr=CIDR) as runtime, make_runtime(root.parent / "b", pod_cidr=CIDR) as other:
        kept = await server(Lab(other, root.parent))
        ward = await Lab(runtime, root.parent).create("sleep", "1000")
        assert address_of(await ward.inspect()) != address_of(await kept.inspect())
        (root / "sandboxes" / ward.sandbox_id / "sandbox.json").unlink()
        assert len(nft_tables()) == 2
    async with make_runtime(root, pod_cidr=CIDR), make_runtime(root.parent / "b", pod_cidr=CIDR) as other:
        await until(lambda: len(links()) == 1)
        assert await fetch(address_of(await kept.inspect())) == kept.pod.metadata.name
        assert mounts(root) == []
        await stop_everything(other)


async def test_sandbox_whose_network_is_gone_is_not_ready(root: Path) -> None:
    async with make_runtime(root, pod_cidr=CIDR) as runtime:
        ward = await Lab(runtime, root.parent).create("sleep", "1000")
        assert (await ward.inspect()).sandboxes[0].is_ready
    unmount_below(root)
    await until(lambda: links() == [])
    async with make_runtime(root, pod_cidr=CIDR) as again:
        ward.runtime = again
        assert not (await ward.inspect()).sandboxes[0].is_ready


async def test_pod_without_a_free_address_says_so_and_leaves_nothing(lab: Lab, runtime: ProcessRuntime) -> None:
    wards = [await lab.create("sleep", "1000") for _ in range(5)]
    request = lab.request("sleep", "1000")
    wanted = SandboxRequest(pod=request.pod, attempt=0, hostname="pod", log_directory=str(lab.folder))
    with pytest.raises(RuntimeFailure, match=r"no free address in 10\.99\.0\.0/29"):
        await runtime.create_sandbox(wanted)
    await until(lambda: len(links()) == 5)
    await runtime.stop(wards[2].sandbox_id, 0)
    await until(lambda: len(links()) == 4)
    await runtime.create_sandbox(wanted)
    assert len({address_of(pod) for pod in await runtime.pods() if pod.sandboxes[0].is_ready}) == 5


async def test_cancelled_creation_leaves_no_ready_sandbox_without_a_network(lab: Lab, runtime: ProcessRuntime) -> None:
    for turns in range(8):
        request = lab.request("sleep", "1000")
        wanted = SandboxRequest(pod=request.pod, attempt=0, hostname="pod", log_directory=str(lab.folder))
        creation = asyncio.create_task(runtime.create_sandbox(wanted))
        for _ in range(turns):
            await asyncio.sleep(0.0005)
        creation.cancel()
        await asyncio.wait([creation])
        sandboxes = [one for pod in await runtime.pods() for one in pod.sandboxes]
        assert all(one.ips != IPS for one in sandboxes if one.is_ready)
        for one in sandboxes:
            await runtime.stop(one.id, 0)
            await runtime.remove(one.id)
    await until(lambda: links() == [])


async def test_pods_reach_addresses_outside_of_their_range_as_the_node(lab: Lab, tmp_path: Path) -> None:
    connect = "import socket; print(socket.create_connection(('192.0.2.2', 80), timeout=10).getsockname()[0])"
    with another_machine(tmp_path / "machines") as other, other.listener(80) as listener:
        client = await lab.start("python3", "-c", connect)
        connection, (peer, _) = await asyncio.to_thread(listener.accept)
        connection.close()
        ended = await client.until_ended()
        assert (ended.exit_code, peer) == (0, "192.0.2.1")
        assert client.log == f"{address_of(await client.inspect())}\n"
