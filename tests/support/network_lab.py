"""A small network of its own: a node, pods behind routed veths, and a client outside, each a network namespace.

A namespace lives as long as a process that waits in it; nothing is left behind, and the machine's own network is not
touched. `inside` moves the calling thread, so that sockets and processes that it makes belong there.
"""

import asyncio
import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from requirements import missing

T = TypeVar("T")
NODE_IP, CLIENT_IP = "192.168.77.1", "192.168.77.2"
NODE_IP6, CLIENT_IP6 = "fd77::1", "fd77::2"
SERVICE_RANGE = "10.96.0.0/12"
_GATEWAY = "169.254.1.1"
_NEW_NET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
SECONDS = 5.0


def require_root_and_nft() -> None:
    """Fails the tests in CI and skips them elsewhere if this user cannot make namespaces, or nft is missing."""
    if os.geteuid() != 0:
        missing("only root may make network namespaces without a user namespace")
    if any(shutil.which(program) is None for program in ("nft", "ip", "unshare", "nsenter")):
        missing("nft, ip, unshare or nsenter is missing: scripts/setup --for-tests")


def _set_namespace(path: Path) -> None:
    with path.open("rb") as namespace:
        _join(namespace)


def _join(namespace: BinaryIO) -> None:
    if _LIBC.setns(namespace.fileno(), _NEW_NET):
        raise OSError(ctypes.get_errno(), f"setns {namespace.name}")


class Namespace:
    """A network namespace with loopback up."""

    def __init__(self) -> None:
        # It ends with this process, which holds the other end of its input.
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        self._holder.stdout.readline()
        self.pid = self._holder.pid
        self.path = Path(f"/proc/{self.pid}/ns/net")

    def close(self) -> None:
        self._holder.communicate(b"")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Moves this thread into the namespace while the context lasts."""
        with Path("/proc/thread-self/ns/net").open("rb") as own:
            _set_namespace(self.path)
            try:
                yield
            finally:
                _join(own)

    @property
    def enter(self) -> list[str]:
        """The command that runs another one inside."""
        return ["nsenter", f"--net={self.path}"]

    def run(self, *command: str, text: str = "") -> str:
        done = subprocess.run([*self.enter, *command], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, text, done.stderr)
        return done.stdout

    def ip(self, *commands: str) -> None:
        """Run commands of `ip`."""
        self.run("ip", "-batch", "-", text="\n".join(commands) + "\n")

    def sysctl(self, **values: int) -> None:
        """Set values below /proc/sys/net, with __ in place of slashes."""
        self.run(
            "sh",
            "-c",
            ";".join(f"echo {value} >/proc/sys/net/{name.replace('__', '/')}" for name, value in values.items()),
        )

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in a thread of its own in the namespace."""

        def work() -> T:
            _set_namespace(self.path)
            return function()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(work).result()

    def run_async(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run an event loop in the namespace, with the threads and processes that it starts."""
        return self.call(lambda: asyncio.run(main()))


class NetworkLab:
    """The node's namespace, the client's, and those of pods by address."""

    def __init__(self) -> None:
        require_root_and_nft()
        self.node, self.client = Namespace(), Namespace()
        self.pods: dict[str, Namespace] = {}
        self._sockets: list[socket.socket] = []
        self.node.sysctl(ipv4__ip_forward=1, ipv6__conf__all__forwarding=1)
        self.node.ip(
            f"link add out0 type veth peer name eth0 netns {self.client.pid}",
            f"addr add {NODE_IP}/24 dev out0",
            f"addr add {NODE_IP6}/64 dev out0 nodad",
            "link set out0 up",
            # Addresses of Services need some route, as every machine has one.
            "link add far0 type veth peer name far1",
            "addr add 198.51.100.1/24 dev far0",
            "link set far0 up",
            "link set far1 up",
            "route add default via 198.51.100.2",
        )
        self.client.ip(
            f"addr add {CLIENT_IP}/24 dev eth0",
            f"addr add {CLIENT_IP6}/64 dev eth0 nodad",
            "link set eth0 up",
            f"route add default via {NODE_IP}",
            f"route add default via {NODE_IP6}",
        )

    def close(self) -> None:
        for each in self._sockets:
            # Wakes the thread that waits for a packet or a connection.
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for namespace in (*self.pods.values(), self.node, self.client):
            namespace.close()

    def add_pod(self, address: str) -> Namespace:
        """Make a pod's namespace with this address."""
        pod, number = Namespace(), len(self.pods)
        is_ipv6 = ":" in address
        gateway, length = ("fe80::1", 128) if is_ipv6 else (_GATEWAY, 32)
        self.node.ip(
            f"link add pod{number} type veth peer name eth0 netns {pod.pid}",
            f"addr add {gateway}/{64 if is_ipv6 else 32} dev pod{number}{' nodad' if is_ipv6 else ''}",
            f"link set pod{number} up",
            f"route add {address}/{length} dev pod{number}",
        )
        pod.ip(
            f"addr add {address}/{length} dev eth0{' nodad' if is_ipv6 else ''}",
            "link set eth0 up",
            *(() if is_ipv6 else (f"route add {gateway} dev eth0 scope link",)),
            f"route add default via {gateway} dev eth0",
        )
        self.pods[address] = pod
        return pod

    def serve(self, address: str, port: int, kind: socket.SocketKind = socket.SOCK_STREAM, protocol: int = 0) -> None:
        """Have a pod answer on a port with its own address and its client's: `10.1.0.1 10.1.0.9`."""
        with self.pods[address].inside():
            server = _socket(address, kind, protocol)
        server.bind((address, port))
        self._sockets.append(server)
        if kind is socket.SOCK_STREAM:
            server.listen(50)
        work = _answer_connections if kind is socket.SOCK_STREAM else _answer_packets
        threading.Thread(target=work, args=(server, address), daemon=True).start()


def _socket(address: str, kind: socket.SocketKind, protocol: int = 0) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind, protocol)
    if kind is socket.SOCK_STREAM:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made


def _answer_connections(server: socket.socket, address: str) -> None:
    with suppress(OSError):
        while True:
            connection, peer = server.accept()
            threading.Thread(target=_answer, args=(connection, f"{address} {peer[0]}\n"), daemon=True).start()


def _answer(connection: socket.socket, answer: str) -> None:
    """Answer each line, until the client closes."""
    with suppress(OSError), connection:
        while connection.recv(100):
            connection.sendall(answer.encode())


def _answer_packets(server: socket.socket, address: str) -> None:
    with suppress(OSError):
        while True:
            data, peer = server.recvfrom(100)
            if not data:
                # The lab ends.
                return
            server.sendto(f"{address} {peer[0]}\n".encode(), peer)


class Caller:
    """A client's socket, connected to an address of a Service; each `ask` returns who answered and whom it saw."""

    def __init__(
        self,
        place: Namespace,
        address: str,
        port: int,
        kind: socket.SocketKind = socket.SOCK_STREAM,
        *,
        protocol: int = 0,
        seconds: float = SECONDS,
    ) -> None:
        with place.inside():
            self._socket = _socket(address, kind, protocol)
        try:
            self._socket.settimeout(seconds)
            self._socket.connect((address, port))
        except OSError:
            self._socket.close()
            raise

    def ask(self) -> tuple[str, str]:
        self._socket.send(b"?")
        server, client = self._socket.recv(100).decode().split()
        return server, client

    def close(self) -> None:
        self._socket.close()


def ask(
    place: Namespace, address: str, port: int, kind: socket.SocketKind = socket.SOCK_STREAM, **options: Any
) -> tuple[str, str]:
    """Connect once and return who answered, and the client address that it saw."""
    caller = Caller(place, address, port, kind, **options)
    try:
        return caller.ask()
    finally:
        caller.close()
