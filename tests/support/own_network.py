"""Puts a test into a network namespace of its own, with everything that it starts, so that the machine's stays as it is."""

import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
