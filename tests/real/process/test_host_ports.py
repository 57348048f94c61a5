"""Host ports of process pods with networks of their own, and what such pods cannot send."""

import asyncio
import fcntl
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from own_network import AnotherMachine, another_machine, nft_elements, own_network
from process_lab import Lab, Ward, make_runtime, stop_everything, unmount_below, until
from pykubelet.api.generated.core import ContainerPort
from pykubelet.podnetwork.namespaces import NetworkNamespaces
from pykubelet.podnetwork.nft import run_nft
from pykubelet.runtimes.process.runtime import ProcessRuntime
from pykubelet.runtimes.protocol import RuntimeFailure
from requirements import needs

CIDR, GATEWAY = "10.99.0.0/28", "10.99.0.1"
MACHINE = AnotherMachine.own_address
# Answers each message with its own name and the address of the sender, as it sees it.
_SERVER = """
import socket, sys, threading
kind = int(sys.argv[1])
server = socket.socket(socket.AF_INET, kind)
server.bind(("", 80))
if kind == socket.SOCK_STREAM:
    server.listen()
print("serves", flush=True)
def answer(connection, peer):
    connection.recv(100)
    connection.sendall(f"{socket.gethostname()} {peer}".encode())
    connection.close()
while True:
    if kind == socket.SOCK_STREAM:
        connection, (peer, _) = server.accept()
        threading.Thread(target=answer, args=(connection, peer), daemon=True).start()
    else:
        _, peer = server.recvfrom(100)
        server.sendto(f"{socket.gethostname()} {peer[0]}".encode(), peer)
"""
_ASK = "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10); s.send(b'?'); print(s.recv(99).decode())"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path) -> Iterator[AnotherMachine]:
    """Another machine; the test's own one is a network namespace."""
    with own_network(), another_machine(tmp_path / "machines") as other:
        try:
            yield other
        finally:
            unmount_below(tmp_path)


@pytest.fixture
async def runtime(root: Path) -> AsyncIterator[ProcessRuntime]:
    async with make_runtime(root, pod_cidr=CIDR) as runtime:
        yield runtime
        await stop_everything(runtime)


async def server(lab: Lab, *ports: ContainerPort, kind: socket.SocketKind = socket.SOCK_STREAM) -> Ward:
    """A pod that serves port 80 and has these host ports."""
    ward = await lab.start("python3", "-c", _SERVER, str(int(kind)), ports=ports)
    await until(lambda: "serves" in ward.log)
    return ward


def host_port(number: int = 8080, host_ip: str = "", protocol: str = "TCP") -> ContainerPort:
    return ContainerPort(container_port=80, host_port=number, host_ip=host_ip, protocol=protocol)


async def address_of(ward: Ward) -> str:
    (address,) = (await ward.inspect()).sandboxes[0].ips
    return address


def ask(client: socket.socket, address: str, port: int = 8080) -> list[str]:
    """Who answers, and whom that saw. Blocks."""
    with client:
        client.settimeout(10)
        client.connect((address, port))
        client.send(b"?")
        return client.recv(100).decode().split()


async def asked(client: socket.socket, address: str, port: int = 8080) -> list[str]:
    return await asyncio.to_thread(ask, client, address, port)


def here(kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    return socket.socket(socket.AF_INET, kind)


async def test_host_port_is_reached_from_everywhere(lab: Lab, machine: AnotherMachine) -> None:
    """From this machine, also at 127.0.0.1, from another one, from another pod and from the pod itself."""
    web = await server(lab, host_port())
    name = web.pod.metadata.name
    assert await asked(here(), MACHINE) == [name, MACHINE]
    assert await asked(here(), GATEWAY) == [name, GATEWAY]
    # A pod cannot answer 127.0.0.1: it sees the node.
    assert await asked(here(), "127.0.0.1") == [name, GATEWAY]
    assert await asked(machine.socket(), MACHINE) == [name, machine.address]
    client = await lab.start("python3", "-c", _ASK, MACHINE, "8080")
    await client.until_ended()
    assert client.log == f"{name} {await address_of(client)}\n"
    # Its own packets come back to it, so they have to have another source.
    code, said = await web.run("python3", "-c", _ASK, MACHINE, "8080")
    assert (code, said) == (0, f"{name} {GATEWAY}\n")
    # Only where the port is local: this is somebody else's.
    with machine.listener(8080) as other:
        reached = socket.create_connection((machine.address, 8080), 10)
        other.accept()[0].close()
        reached.close()


async def test_host_port_of_udp_and_of_several_ports(lab: Lab, machine: AnotherMachine) -> None:
    ports = (host_port(5353, protocol="UDP"), host_port(5354, protocol="UDP"))
    ward = await server(lab, *ports, kind=socket.SOCK_DGRAM)
    name = ward.pod.metadata.name
    for port in (5353, 5354):
        assert await asked(here(socket.SOCK_DGRAM), "127.0.0.1", port) == [name, GATEWAY]
        assert await asked(machine.socket(socket.SOCK_DGRAM), MACHINE, port) == [name, machine.address]
    with pytest.raises(ConnectionRefusedError):
        await asked(here(), MACHINE, 5353)


async def test_host_port_of_sctp_is_one_of_the_map(lab: Lab) -> None:
    """Not every kernel has SCTP sockets."""
    await lab.create("sleep", "1000", ports=(host_port(protocol="SCTP"),))
    assert any("'sctp', 8080" in one for one in nft_elements())


async def test_host_ip_is_respected(lab: Lab, machine: AnotherMachine) -> None:
    """One port leads to two pods by its address; a port on loopback is not reached from outside."""
    inner, outer = await server(lab, host_port(host_ip="127.0.0.1")), await server(lab, host_port(host_ip=MACHINE))
    assert (await asked(here(), "127.0.0.1"))[0] == inner.pod.metadata.name
    assert (await asked(here(), MACHINE))[0] == outer.pod.metadata.name
    assert (await asked(machine.socket(), MACHINE))[0] == outer.pod.metadata.name
    await server(lab, host_port(9090, host_ip="127.0.0.1"))
    for client in (here(), machine.socket()):
        with pytest.raises(ConnectionRefusedError):
            await asked(client, MACHINE, 9090)
    with pytest.raises(
        RuntimeFailure, match=r"hostPort 1 at hostIP ::1: the networks of pods have IPv4 addresses only"
    ):
        await server(lab, host_port(1, host_ip="::1"))


async def test_host_port_comes_before_a_program_of_the_machine_and_ends_with_its_pod(
    lab: Lab, runtime: ProcessRuntime
) -> None:
    """A second pod is refused while the port is in use, and gets it afterwards."""
    with socket.create_server((MACHINE, 8080)) as own:
        first = await server(lab, host_port())
        assert (await asked(here(), MACHINE))[0] == first.pod.metadata.name
        with pytest.raises(RuntimeFailure, match=r"another pod of this node has the hostPort 8080"):
            await server(lab, host_port())
        await runtime.stop(first.sandbox_id, 0)
        assert nft_elements() == []
        with socket.create_connection((MACHINE, 8080), 10):
            own.accept()[0].close()
    second = await server(lab, host_port())
    assert (await asked(here(), MACHINE))[0] == second.pod.metadata.name


async def test_services_come_before_host_ports(root: Path, machine: AnotherMachine) -> None:
    """Whichever rules were there first. The table is one as the service proxy writes."""
    chains = "".join(
        f"chain {hook} {{ type nat hook {hook} priority -100; tcp dport 8080 redirect to :8081; }};"
        for hook in ("prerouting", "output")
    )

    async def write_services() -> None:
        table = "table ip services"
        result = await run_nft(("-f", "-"), f"add {table}\ndelete {table}\n{table} {{ {chains} }}\n")
        assert result.exit_code == 0, result.errors

    def reached(client: socket.socket, listener: socket.socket, address: str) -> None:
        client.settimeout(10)
        with client:
            client.connect((address, 8080))
            listener.settimeout(10)
            listener.accept()[0].close()

    await write_services()
    with socket.create_server(("", 8081)) as listener:
        async with make_runtime(root, pod_cidr=CIDR) as runtime:
            await server(Lab(runtime, root.parent), host_port())
            for _ in range(2):
                await asyncio.to_thread(reached, machine.socket(), listener, MACHINE)
                await asyncio.to_thread(reached, here(), listener, "127.0.0.1")
                await write_services()
            await stop_everything(runtime)


async def test_udp_client_that_keeps_its_port_reaches_the_next_pod(lab: Lab, runtime: ProcessRuntime) -> None:
    first = await server(lab, host_port(protocol="UDP"), kind=socket.SOCK_DGRAM)
    with here(socket.SOCK_DGRAM) as client:
        client.settimeout(10)
        client.connect((MACHINE, 8080))
        client.send(b"?")
        assert client.recv(100).split()[0].decode() == first.pod.metadata.name
        await runtime.stop(first.sandbox_id, 0)
        with suppress(OSError):
            # Nothing answers, which the kernel remembers too.
            client.send(b"?")
        second = await server(lab, host_port(protocol="UDP"), kind=socket.SOCK_DGRAM)
        client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        client.send(b"?")
        assert client.recv(100).split()[0].decode() == second.pod.metadata.name


async def test_host_ports_outlive_the_agent(root: Path) -> None:
    """Also with the option that gives new pods no networks; the table goes with the last pod."""
    async with make_runtime(root, pod_cidr=CIDR) as runtime:
        ward = await server(Lab(runtime, root.parent), host_port())
        name = ward.pod.metadata.name
    assert (await asked(here(), "127.0.0.1"))[0] == name
    with socket.create_connection(("127.0.0.1", 8080), 10) as kept:
        for cidr in (CIDR, ""):
            async with make_runtime(root, pod_cidr=cidr) as again:
                assert (await asked(here(), "127.0.0.1"))[0] == name
                if not cidr:
                    kept.send(b"?")
                    assert kept.recv(100).decode().split()[0] == name
                    await stop_everything(again)
                    assert nft_elements() == []


async def test_flushed_rules_come_back_with_the_next_change(lab: Lab, runtime: ProcessRuntime) -> None:
    gone, kept = await server(lab, host_port()), await server(lab, host_port(8081))
    nft_elements(flush=True)
    await runtime.stop(gone.sandbox_id, 0)
    assert (await asked(here(), "127.0.0.1", 8081))[0] == kept.pod.metadata.name


def udp_frame(destination: str, source: str, to: tuple[str, int]) -> bytes:
    """An Ethernet frame with a UDP packet that says `?`; `destination` is an Ethernet address in hexadecimal digits."""
    payload = struct.pack(">HHHH", 40000, to[1], 9, 0) + b"?"
    addresses = socket.inet_aton(source) + socket.inet_aton(to[0])
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, 17, 0) + addresses
    total = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header = header[:10] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + header[12:]
    return bytes.fromhex(destination) + bytes(6) + b"\x08\x00" + header + payload


async def test_pods_reach_no_loopback_server_and_cannot_forge_their_address(root: Path, lab: Lab) -> None:
    """What a root process in the pod sends below the kernel's own checks; with host ports, which open the link a little."""
    ward = await server(lab, host_port())
    own = await address_of(ward)
    ethernet = ethernet_of(f"veth{ward.sandbox_id[:11]}")
    with (
        NetworkNamespaces(root / "networks").entered(ward.sandbox_id),
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw,
    ):
        raw.bind(("eth0", 0x0800))
        sender = raw.dup()
    with here(socket.SOCK_DGRAM) as loopback, here(socket.SOCK_DGRAM) as node, sender:
        loopback.bind(("127.0.0.1", 7000))
        node.bind((GATEWAY, 7000))
        for source in (own, "127.0.0.1", "10.99.0.14"):
            sender.send(udp_frame(ethernet, source, ("127.0.0.1", 7000)))
        for source in ("10.99.0.14", "192.0.2.77", AnotherMachine.address, own):
            sender.send(udp_frame(ethernet, source, (GATEWAY, 7000)))
        node.settimeout(10)
        # The kernel handles the packets of a link in their order.
        assert node.recvfrom(10)[1][0] == own
        for each in (loopback, node):
            each.setblocking(False)
            with pytest.raises(BlockingIOError):
                each.recv(10)


def router_advertisement(source: str = "fe80::99") -> bytes:
    """An Ethernet frame by which its sender offers all nodes of the link to be their router."""
    addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, "ff02::1")
    message = struct.pack(">BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0)
    total = sum(struct.unpack(">28H", addresses + struct.pack(">II", len(message), socket.IPPROTO_ICMPV6) + message))
    total = (total & 0xFFFF) + (total >> 16)
    message = message[:2] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + message[4:]
    header = struct.pack(">IHBB", 6 << 28, len(message), socket.IPPROTO_ICMPV6, 255)
    return bytes.fromhex("333300000001") + bytes.fromhex("020000000099") + b"\x86\xdd" + header + addresses + message


def enable_ipv6(link: str) -> None:
    Path(f"/proc/sys/net/ipv6/conf/{link}/disable_ipv6").write_text("0")


def ipv6_default_routes(link: str) -> list[str]:
    """The routes of all addresses through a link."""
    rows = Path("/proc/thread-self/net/ipv6_route").read_text().splitlines()
    return [row for row in rows if row.split()[1] == "00" and row.split()[9] == link]


@needs(Path("/proc/net/if_inet6").exists(), "this machine has no IPv6")
async def test_pod_cannot_become_the_router_of_the_machine(root: Path) -> None:
    """As with CVE-2020-10749; also not a pod of an earlier agent. The kernel accepts advertisements by default."""
    async with make_runtime(root, pod_cidr=CIDR) as runtime:
        ward = await server(Lab(runtime, root.parent))
        link, own = f"veth{ward.sandbox_id[:11]}", await address_of(ward)
        advertise(root / "networks", ward.sandbox_id, udp_frame(ethernet_of(link), own, (GATEWAY, 7000)))
        assert ipv6_default_routes(link) == []
    enable_ipv6(link)
    async with make_runtime(root, pod_cidr=CIDR) as runtime:
        advertise(root / "networks", ward.sandbox_id, udp_frame(ethernet_of(link), own, (GATEWAY, 7000)))
        assert ipv6_default_routes(link) == []
        await stop_everything(runtime)


def advertise(networks: Path, name: str, last: bytes) -> None:
    """Have a pod offer to be the router of the machine, and wait until that has seen it; `last` comes to its port 7000."""
    with (
        NetworkNamespaces(networks).entered(name),
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw,
    ):
        raw.bind(("eth0", 0x0800))
        sender = raw.dup()
    with here(socket.SOCK_DGRAM) as node, sender:
        node.bind((GATEWAY, 7000))
        node.settimeout(10)
        sender.send(router_advertisement())
        # The kernel handles the packets of a link in their order.
        sender.send(last)
        node.recv(10)


def ethernet_of(link: str) -> str:
    """The Ethernet address of a link, in hexadecimal digits."""
    with socket.socket() as any_socket:
        return fcntl.ioctl(any_socket, 0x8927, struct.pack("256s", link.encode()))[18:24].hex()
