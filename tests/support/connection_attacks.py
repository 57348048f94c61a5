"""Clients that open connections to harm a server, and what the server's process uses meanwhile."""

import base64
import resource
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import yaml

_ANSWER_SECONDS = 30.0
_TRIES = 100


class ProcessUsage(NamedTuple):
    """What a process uses: its largest memory so far, and its open files."""

    peak_megabytes: int
    files: int


def usage_of(pid: int) -> ProcessUsage:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    return ProcessUsage(peak // 1024, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()))


@contextmanager
def many_files() -> Iterator[None]:
    """Raise this process's limit of open files for the duration of the context."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def anybody() -> ssl.SSLContext:
    """TLS of a client without credentials that trusts every server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def admin(kubeconfig: Path, folder: Path) -> ssl.SSLContext:
    """TLS of the administrator; writes the certificate into a folder."""
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    pem = folder / "admin.pem"
    pem.write_bytes(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
    context = anybody()
    context.load_cert_chain(pem)
    return context


@contextmanager
def silent_connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Connections over which nothing is sent."""
    pause = threading.Event()
    with ExitStack() as stack:
        opened = []
        for number in range(count):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
            opened.append(client)
            if number % 100 == 99:
                # Not faster than the server empties the kernel's queue.
                pause.wait(0.02)
        yield opened


@contextmanager
def half_requests(port: int, count: int, *, lines: int, size: int, tls: ssl.SSLContext | None) -> Iterator[int]:
    """Connections with a request whose headers do not end; gives how many of them have sent all these lines."""
    headers = b"".join(b"X-%d: %s\r\n" % (number, b"a" * size) for number in range(lines))
    head = b"GET / HTTP/1.1\r\nHost: x\r\n" + headers + b"X: "
    with ExitStack() as stack:
        whole = 0
        for _ in range(count):
            with suppress(OSError):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
                if tls is not None:
                    client = stack.enter_context(tls.wrap_socket(client))
                client.sendall(head)
                whole += 1
        yield whole


def status_of(port: int, tls: ssl.SSLContext | None, path: str) -> int:
    """The status code that a new client gets; tried again while its connections are closed."""
    pause = threading.Event()
    for _ in range(_TRIES):
        try:
            with ExitStack() as stack:
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_SECONDS))
                if tls is not None:
                    client = stack.enter_context(tls.wrap_socket(client))
                client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                return int(client.recv(64).split()[1])
        except (OSError, IndexError):
            pause.wait(0.1)
    raise AssertionError(f"port {port} does not answer")
