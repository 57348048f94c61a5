"""Puts a test into a network namespace of its own, with everything that it starts, so that the machine's stays as it is."""

import ctypes
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pykubelet.podnetwork.namespaces import NetworkNamespaces
from pykubelet.podnetwork.netlink import Netlink
from requirements import missing

_NEW_NETWORK = 0x40000000
_SET_FLAGS, _UP = 0x8914, 0x1
_libc = ctypes.CDLL(None, use_errno=True)


def require(is_possible: bool, what: str) -> None:
    """Fails a test in CI and skips it elsewhere if something is missing."""
    if not is_possible:
        missing(what)


@contextmanager
def own_network() -> Iterator[None]:
    """A network namespace with loopback only, for this thread and the threads and processes that it starts meanwhile."""
    require(os.geteuid() == 0, "only root may make network namespaces")
    with Path("/proc/thread-self/ns/net").open("rb") as own:
        require(_libc.unshare(_NEW_NETWORK) == 0, "this machine permits no network namespaces")
        try:
            with socket.socket() as any_socket:
                fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh", b"lo", _UP))
            yield
        finally:
            assert _libc.setns(own.fileno(), _NEW_NETWORK) == 0


class AnotherMachine:
    """192.0.2.2, which knows a route to this one, 192.0.2.1, and none to its pods."""

    address, own_address = "192.0.2.2", "192.0.2.1"

    def __init__(self, namespaces: NetworkNamespaces) -> None:
        self._namespaces = namespaces

    def listener(self, port: int) -> socket.socket:
        """A TCP socket there that listens."""
        with self._namespaces.entered("other"):
            made = socket.create_server(("", port))
        made.settimeout(10)
        return made

    def socket(self, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
        """A socket there, wherever it is used."""
        with self._namespaces.entered("other"):
            made = socket.socket(socket.AF_INET, kind)
        made.settimeout(10)
        return made


@contextmanager
def another_machine(folder: Path) -> Iterator[AnotherMachine]:
    """Another machine on a link of this thread's network namespace."""
    namespaces, here = NetworkNamespaces(folder), Netlink()
    with namespaces.created("other"):
        there = Netlink()
    with namespaces.path("other").open("rb") as other:
        here.create_veth("uplink", peer="eth0", peer_index=2, namespace=other.fileno())
    index = socket.if_nametoindex("uplink")
    # It is no pod.
    here.join_group(index, 0)
    here.add_address(AnotherMachine.own_address, index)
    here.add_route(AnotherMachine.address, index, source=AnotherMachine.own_address)
    there.set_up(2)
    there.add_address(AnotherMachine.address, 2)
    there.add_route(AnotherMachine.own_address, 2, source=AnotherMachine.address)
    with closing(here), closing(there):
        yield AnotherMachine(namespaces)
    namespaces.remove("other")


def connect_machine(address: str = "192.168.77.1/24", gateway: str = "192.168.77.2") -> None:
    """Gives this thread's namespace an address besides loopback and a default route, as every machine has them.

    The route leads nowhere: nothing answers at its other end.
    """
    commands = (
        "link add out0 type veth peer name out1",
        f"addr add {address} dev out0",
        "link set out0 up",
        "link set out1 up",
        f"route add default via {gateway}",
    )
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)


def links() -> list[str]:
    """The names of the links in this thread's namespace, without loopback."""
    return [name for _, name in socket.if_nameindex() if name != "lo"]


def routes() -> list[str]:
    """The destinations of the IPv4 routes in this thread's namespace."""
    rows = [line.split() for line in Path("/proc/thread-self/net/route").read_text().splitlines()[1:]]
    return [socket.inet_ntoa(bytes.fromhex(row[1])[::-1]) for row in rows]


def nft_tables() -> list[str]:
    """The names of the nftables tables in this thread's namespace."""
    program = shutil.which("nft", path="/usr/sbin:/usr/bin:/sbin:/bin")
    require(program is not None, "nft is not installed")
    listed = subprocess.run([str(program), "list", "tables"], capture_output=True, text=True, check=True).stdout
    return [line.split()[-1] for line in listed.splitlines()]


def nft_elements(*, flush: bool = False) -> list[str]:
    """The elements of all sets and maps of this thread's namespace, as text; `flush` deletes all rules instead."""
    program = shutil.which("nft", path="/usr/sbin:/usr/bin:/sbin:/bin")
    require(program is not None, "nft is not installed")
    command = [str(program), *(("flush",) if flush else ("--json", "list")), "ruleset"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(listed)["nftables"] if listed else []
    return [str(part) for one in found for kind in ("set", "map") for part in one.get(kind, {}).get("elem", ())]
