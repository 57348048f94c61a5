"""Connections without credentials that cost memory, file descriptors or log lines, against a real cluster."""

import json
import resource
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from connection_attacks import (
    admin,
    anybody,
    half_requests,
    many_files,
    silent_connections,
    status_of,
    usage_of,
)
from pykubelet_process import UpProcess

pytestmark = pytest.mark.timeout(120)
# Without limits, single attacks took 130 to 1,000 MB.
MOST_MEGABYTES = 80


class Target(NamedTuple):
    """A cluster, its memory after the start, its three ports, and the administrator's TLS."""

    up: UpProcess
    megabytes: int
    api: int
    node: int
    page: int
    admin: ssl.SSLContext

    def assert_answers(self) -> None:
        """Another client of each port is answered."""
        assert status_of(self.api, self.admin, "/api/v1/namespaces") == 200
        assert status_of(self.node, self.admin, "/pods") == 200
        assert status_of(self.page, None, "/") == 403

    def assert_memory(self) -> None:
        """The attacks so far have taken little memory."""
        assert usage_of(self.up.pid).peak_megabytes - self.megabytes < MOST_MEGABYTES


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("attacked")
    up = UpProcess(folder, runtime="sim").start()
    try:
        assert up.has_said("page http://127.0.0.1:", within_seconds=20)
        said = next(line for line in up.lines if line.startswith("page "))
        credentials = admin(up.kubeconfig, folder)
        page = int(said.split(":")[2].partition("/")[0])
        node = node_port(up.port, credentials)
        yield Target(up, usage_of(up.pid).peak_megabytes, up.port, node, page, credentials)
    finally:
        assert up.stop() == 0


def node_port(api: int, credentials: ssl.SSLContext) -> int:
    """The port of the node's API, once the node has reported it."""
    pause = threading.Event()
    for _ in range(200):
        with urllib.request.urlopen(f"https://127.0.0.1:{api}/api/v1/nodes", context=credentials, timeout=20) as answer:
            for node in json.load(answer)["items"]:
                if endpoints := node["status"].get("daemonEndpoints"):
                    return int(endpoints["kubeletEndpoint"]["Port"])
        pause.wait(0.1)
    raise AssertionError("the node does not report its port")


@pytest.mark.parametrize(("port", "line"), [("api", 64_000), ("node", 64_000), ("page", 16_000)])
def test_requests_that_do_not_end_take_little_memory(target: Target, port: str, line: int) -> None:
    """Sixty with as many and as long headers as each may be, but more than all may be. Others are answered meanwhile."""
    number: int = getattr(target, port)
    with half_requests(number, 60, lines=60, size=line, tls=None if port == "page" else anybody()):
        target.assert_answers()
        target.assert_memory()


def test_unfinished_requests_of_all_clients_take_little_memory(target: Target) -> None:
    """Three hundred that are each within the limit for one, but 33 MB together."""
    with half_requests(target.api, 300, lines=2, size=56_000, tls=anybody()) as whole:
        assert whole > 100
        target.assert_answers()
        target.assert_memory()


@pytest.mark.parametrize(("port", "most"), [("api", 2048), ("node", 1024), ("page", 128)])
def test_silent_connections_take_few_files_and_no_buffers(target: Target, port: str, most: int) -> None:
    """Three thousand: the oldest of them are closed for new ones, which is logged once."""
    before, lines = usage_of(target.up.pid), len(target.up.lines)
    with many_files(), silent_connections(getattr(target, port), 3000):
        target.assert_answers()
        during = usage_of(target.up.pid)
        assert during.files - before.files <= most + 16
        target.assert_memory()
        assert sum(map(len, target.up.lines[lines:])) < 1024


def test_connections_never_take_the_last_files(target: Target) -> None:
    """With a limit of 200 open files, a quarter of it is left; the server goes on, and the log stays short."""
    limits = resource.prlimit(target.up.pid, resource.RLIMIT_NOFILE)
    lines = len(target.up.lines)
    resource.prlimit(target.up.pid, resource.RLIMIT_NOFILE, (200, limits[1]))
    try:
        page, node = silent_connections(target.page, 150), silent_connections(target.node, 150)
        with page, node, silent_connections(target.api, 150) as flood:
            target.assert_answers()
            assert usage_of(target.up.pid).files <= 150
            assert is_closed(flood[0])
        assert sum(map(len, target.up.lines[lines:])) < 2048
    finally:
        resource.prlimit(target.up.pid, resource.RLIMIT_NOFILE, limits)


def is_closed(client: socket.socket) -> bool:
    """Whether the other side has closed a connection."""
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_anonymous_requests_leave_the_audit_log_to_users(target: Target) -> None:
    """Forty with long paths, which had lines of 120 KB each, add a few short ones; the lines of users stay."""
    path = Path(target.up.data) / "audit.log"
    before = path.read_bytes()
    target_path = f"/api/v1/namespaces/default/pods/{'x' * 60_000}"
    with anybody().wrap_socket(socket.create_connection(("127.0.0.1", target.api), timeout=30)) as client:
        for _ in range(40):
            client.sendall(f"DELETE {target_path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            answer = b""
            while not answer.endswith((b"}", b"}\n")):
                answer += client.recv(65536)
            assert b" 403 " in answer
    after = path.read_bytes()
    assert after.startswith(before)
    assert len(after) - len(before) < 16 * 1024
