"""Probes and hooks of every kind against real processes."""

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from process_cluster import ProcessCluster, free_port, pod, shell

# The limit for all waits of one test together.
pytestmark = pytest.mark.timeout(120)
FOREVER = "exec sleep 1000"
QUICK = {"periodSeconds": 1, "failureThreshold": 1}
# Answers gRPC health checks with SERVING.
GRPC_SERVER = """
import sys, grpc
from concurrent.futures import ThreadPoolExecutor
answer = grpc.unary_unary_rpc_method_handler(lambda request, context: bytes([8, 1]))
service = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": answer})
server = grpc.server(ThreadPoolExecutor(1), handlers=[service])
server.add_insecure_port("0.0.0.0:" + sys.argv[1])
server.start()
server.wait_for_termination()
"""


def probe(kind: str, port: int, file: Path) -> dict[str, Any]:
    """A probe that succeeds while a server listens at the port, or while the file exists."""
    probes: dict[str, dict[str, Any]] = {
        "http": {"httpGet": {"host": "127.0.0.1", "port": port, "path": "/"}},
        "tcp": {"tcpSocket": {"host": "127.0.0.1", "port": port}},
        # Connects to the address of the pod, which is the machine's.
        "grpc": {"grpc": {"port": port}},
        "exec": {"exec": {"command": ["test", "-f", str(file)]}},
    }
    return probes[kind]


def listens_while(file: Path, kind: str, port: int) -> str:
    """A script that runs a server at the port while a file exists."""
    web = f"python3 -m http.server --bind 127.0.0.1 --directory {file.parent} {port}"
    (file.parent / "grpc_server.py").write_text(GRPC_SERVER)
    command = f"{sys.executable} {file.parent}/grpc_server.py {port}" if kind == "grpc" else web
    gone, there = f"while test ! -f {file}; do sleep 0.05; done", f"while test -f {file}; do sleep 0.05; done"
    return f"while true; do {gone}; {command} & {there}; kill $!; wait; done"


def test_readiness_follows_every_kind_of_probe(cluster: ProcessCluster, tmp_path: Path) -> None:
    """The pod is ready only while the probes of all containers succeed."""
    kinds = ("http", "tcp", "grpc", "exec")
    files, containers = {kind: tmp_path / kind for kind in kinds}, []
    for kind, file in files.items():
        port = free_port()
        script = FOREVER if kind == "exec" else listens_while(file, kind, port)
        containers.append(shell(script, kind, readinessProbe={**probe(kind, port, file), **QUICK, "timeoutSeconds": 2}))
    cluster.create(pod("watched", *containers))
    cluster.until_seen("Running", "{.status.phase}", "pod", "watched")
    assert not any(status["ready"] for status in cluster.pod("watched")["status"]["containerStatuses"])
    for file in files.values():
        file.touch()
    cluster.until("condition=Ready", "watched")
    for index, kind in enumerate(sorted(kinds)):
        files[kind].unlink()
        cluster.until_field(f".status.containerStatuses[{index}].ready", "false", "watched")
    cluster.until("condition=Ready=false", "watched")


REFUSED = {
    "http": 'Get "http://127.0.0.1:{0}/": dial tcp 127.0.0.1:{0}: connect: connection refused',
    "tcp": "dial tcp 127.0.0.1:{0}: connect: connection refused",
    "grpc": "timeout: failed to connect service",
    "exec": "sick",
}


def test_liveness_of_every_kind_restarts_only_what_is_dead(cluster: ProcessCluster) -> None:
    """A container whose probe fails is restarted with an event; the other container is not."""
    ports = {kind: free_port() for kind in REFUSED}
    for kind, port in ports.items():
        sick = {"exec": {"command": ["sh", "-c", "echo sick; exit 1"]}}
        liveness = {**(sick if kind == "exec" else probe(kind, port, Path())), **QUICK}
        cluster.create(pod(f"dying-{kind}", shell(FOREVER, livenessProbe=liveness), shell(FOREVER, "neighbour")))
    for kind, port in ports.items():
        name = f"dying-{kind}"
        cluster.until_seen("143", "{.status.containerStatuses[0].lastState.terminated.exitCode}", "pod", name)
        cluster.until_said(name, "Unhealthy", f"Liveness probe failed: {REFUSED[kind].format(port)}")
        cluster.until_said(name, "Killing", "Container main failed liveness probe, will be restarted")
        dying, neighbour = cluster.pod(name)["status"]["containerStatuses"]
        assert dying["restartCount"] > neighbour["restartCount"] == 0


def test_startup_probe_holds_back_the_others(cluster: ProcessCluster, tmp_path: Path) -> None:
    """Before it succeeds, `started` is false and a failing liveness probe has no effect."""
    up = {"exec": {"command": ["test", "-f", f"{tmp_path}/up"]}, "periodSeconds": 1, "failureThreshold": 100}
    main = shell(FOREVER, startupProbe=up, livenessProbe={**up, "failureThreshold": 1})
    cluster.create(pod("slow", main))
    cluster.until_said("slow", "Unhealthy", "Startup probe failed")
    status = cluster.pod("slow")["status"]["containerStatuses"][0]
    assert (status["started"], status["ready"], status["restartCount"]) == (False, False, 0)
    (tmp_path / "up").touch()
    cluster.until("condition=Ready", "slow")
    status = cluster.pod("slow")["status"]["containerStatuses"][0]
    assert (status["started"], status["restartCount"]) == (True, 0)


class Listener(ThreadingHTTPServer):
    """An HTTP server that records the requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        super().__init__(("127.0.0.1", 0), Answer)


class Answer(BaseHTTPRequestHandler):
    """The request handler of a `Listener`."""

    server: Listener

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("X-Hook", "")))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""


@pytest.fixture
def listener() -> Iterator[Listener]:
    """An HTTP server for hooks."""
    with Listener() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_hooks_run_after_the_start_and_before_the_end(
    cluster: ProcessCluster, listener: Listener, tmp_path: Path
) -> None:
    """Exec and HTTP hooks run; TERM is sent after the preStop hook has completed."""
    told = tmp_path / "told"
    call = {"host": "127.0.0.1", "port": listener.server_port, "httpHeaders": [{"name": "X-Hook", "value": "yes"}]}
    commands = {
        "postStart": {"exec": {"command": ["sh", "-c", f"echo after start >>{told}"]}},
        "preStop": {"exec": {"command": ["sh", "-c", f"sleep 0.3; echo before stop >>{told}"]}},
    }
    calls = {"postStart": {"httpGet": {**call, "path": "/start"}}, "preStop": {"httpGet": {**call, "path": "/stop"}}}
    first = shell(f"trap 'echo TERM >>{told}; exit' TERM; while true; do sleep 0.05; done", "first", lifecycle=commands)
    cluster.run(pod("hooked", first, shell(FOREVER, "second", lifecycle=calls), terminationGracePeriodSeconds=30))
    assert told.read_text() == "after start\n"
    assert listener.asked == [("/start", "yes")]
    cluster.kubectl("delete", "pod", "hooked")
    assert told.read_text().splitlines() == ["after start", "before stop", "TERM"]
    assert listener.asked == [("/start", "yes"), ("/stop", "yes")]


@pytest.mark.parametrize("kind", ["exec", "http"])
def test_failing_post_start_hook_ends_its_container(cluster: ProcessCluster, kind: str) -> None:
    """The container is killed, and an event has the reason."""
    hook = {
        "exec": {"exec": {"command": ["sh", "-c", "echo no luck; exit 7"]}},
        "http": {"httpGet": {"host": "127.0.0.1", "port": free_port(), "path": "/nobody"}},
    }[kind]
    main = shell(FOREVER, lifecycle={"postStart": hook})
    shown = cluster.finish(pod(f"hook-{kind}", main, restartPolicy="Never"), "Failed")
    assert shown["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    assert cluster.until_said(f"hook-{kind}", "FailedPostStartHook", "PostStartHook failed")


def test_pre_stop_hook_that_never_ends_is_cut_off_by_the_grace(cluster: ProcessCluster) -> None:
    """The deletion of the pod completes."""
    hook = {"preStop": {"exec": {"command": ["sleep", "1000"]}}}
    cluster.run(pod("endless-hook", shell(FOREVER, lifecycle=hook), terminationGracePeriodSeconds=1))
    assert "deleted" in cluster.kubectl("delete", "pod", "endless-hook", "--timeout=30s")
