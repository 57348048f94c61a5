"""Start and stop of `pykubelet apiserver`: files, exit codes, and error messages."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from kubectl import Kubectl
from pykubelet_process import ADMIN_TOKEN, ServerProcess


def start(*options: str) -> "subprocess.CompletedProcess[str]":
    """Run the command until it exits."""
    command = [sys.executable, "-m", "pykubelet", "apiserver", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


def test_server_writes_a_private_kubeconfig_that_works(tmp_path: Path) -> None:
    """Only the owner may read it, and it stays the same after a restart."""
    server = ServerProcess(tmp_path).start()
    try:
        assert stat.S_IMODE(server.kubeconfig.stat().st_mode) == 0o600
        assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
        first = server.kubeconfig.read_bytes()
        kubectl = Kubectl(server.kubeconfig, "default", tmp_path / "cache")
        assert "default" in kubectl("get", "namespaces", "-o", "name")
        assert server.stop() == 0
        server.start()
        assert server.kubeconfig.read_bytes() == first
        assert "kube-system" in kubectl("get", "namespaces", "-o", "name")
    finally:
        server.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_server_ends_watches_and_exits_with_code_0_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """An open watch ends after a complete line and does not delay the exit."""
    server = ServerProcess(tmp_path).start()
    connection = HTTPSConnection("127.0.0.1", server.port, context=server.tls(), timeout=15)
    with closing(connection):
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        connection.request("GET", "/api/v1/namespaces?watch=1", headers=headers)
        response = connection.getresponse()
        first = json.loads(response.readline())
        assert first["type"] == "ADDED"
        os.kill(server.pid, number)
        rest = [json.loads(line) for line in response]
    assert {event["type"] for event in rest} <= {"ADDED"}
    assert server.stop() == 0
    assert not [line for line in server.lines if "Traceback" in line]


def test_server_answers_requests_under_way_before_it_stops(tmp_path: Path) -> None:
    """A write whose body arrives after the stop signal is still answered."""
    server = ServerProcess(tmp_path).start()
    body = b'{"metadata":{"name":"last"}}'
    connection = HTTPSConnection("127.0.0.1", server.port, context=server.tls(), timeout=15)
    with closing(connection):
        connection.putrequest("POST", "/api/v1/namespaces/default/configmaps")
        connection.putheader("Authorization", f"Bearer {ADMIN_TOKEN}")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:10])
        stopped = threading.Thread(target=server.stop)
        threading.Timer(0.5, connection.send, [body[10:]]).start()
        threading.Timer(0.2, stopped.start).start()
        assert connection.getresponse().status == 201
    assert server.stop() == 0


def test_server_says_which_port_is_taken(tmp_path: Path) -> None:
    """The exit code is 1, and stderr is one line without a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = start("--data-dir", str(tmp_path / "d"), "--port", str(port))
    start_of_error = f"error: port {port} of 127.0.0.1 is in use by "
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(start_of_error)
    assert f"(process {os.getpid()}): stop it, or choose another port with --port" in done.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param(
            ["--token-file", "{tmp}/tokens"], "{tmp}/tokens:2: a line must have at least 3 columns", id="tokens"
        ),
        pytest.param(["--data-dir", "{tmp}/tokens/x"], "{tmp}/tokens/x: Not a directory", id="folder"),
        pytest.param(["--bind", "192.0.2.77"], "192.0.2.77:0: ", id="address"),
        pytest.param(["--tls-cert", "{tmp}/tokens", "--tls-key", "{tmp}/tokens"], "cannot be used for TLS", id="tls"),
        pytest.param(["--client-ca", "{tmp}/tokens"], "cannot be used for TLS", id="client authority"),
        pytest.param(["--encryption-key", "{tmp}/tokens"], "{tmp}/tokens", id="key"),
    ],
)
def test_server_says_what_is_wrong_when_it_cannot_start(tmp_path: Path, options: list[str], complaint: str) -> None:
    """One line names the place and the reason; the exit code is 1."""
    (tmp_path / "tokens").write_text("token,user,uid\nbad line\n")
    (tmp_path / "tokens").chmod(0o600)
    filled = [option.format(tmp=tmp_path) for option in options]
    done = start("--port", "0", "--data-dir", str(tmp_path / "d"), *filled)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert complaint.format(tmp=tmp_path) in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [["--port", "70000"], ["--tls-cert", __file__], ["--nonsense"]])
def test_server_exits_with_code_2_and_the_usage_for_invalid_arguments(options: list[str]) -> None:
    done = start(*options)
    assert done.returncode == 2
    assert "Usage:" in done.stderr


def test_server_uses_the_certificate_it_is_given(tmp_path: Path) -> None:
    """The generated kubeconfig trusts this certificate."""
    for name in ("own", "given"):
        (tmp_path / name).mkdir()
    own = ServerProcess(tmp_path / "own").start()
    assert own.stop() == 0
    pki = own.data / "pki"
    tls = ["--tls-cert", str(pki / "apiserver.crt"), "--tls-key", str(pki / "apiserver.key")]
    server = ServerProcess(tmp_path / "given", *tls).start()
    try:
        kubectl = Kubectl(server.kubeconfig, "default", tmp_path / "cache")
        assert "default" in kubectl("get", "namespaces", "-o", "name")
    finally:
        assert server.stop() == 0
