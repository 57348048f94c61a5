"""`pykubelet check --cis` against real programs: defaults pass, and weakened settings are found."""

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.aio.clock import SystemClock
from pykubelet.cli.actions.check import CisPaths, gather_facts
from pykubelet.runtimes.process.cgroups import find_cgroups
from pykubelet_process import NodeProcess, ServerProcess, UpProcess

pytestmark = pytest.mark.timeout(120)
HAS_PIDS = "pids" in find_cgroups().folders


class PlainUp(UpProcess):
    """`pykubelet up` with default options: the node has the name of the machine."""

    def command(self) -> list[str]:
        return ["up", "--data-dir", str(self.data), "--port", str(self.port), "--runtime", "sim", "--no-service-proxy"]


class PlainNode(NodeProcess):
    """`pykubelet node` with the name of the machine."""

    def command(self) -> list[str]:
        options = super().command()
        place = options.index("--node-name")
        return [*options[:place], *options[place + 2 :]]


def report(*options: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """The findings by ID; the command must exit with this code."""
    command = [sys.executable, "-m", "pykubelet", "check", "--cis", "-o", "json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return {finding["id"]: finding for finding in json.loads(done.stdout)}


def verdicts(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {id: finding["verdict"] for id, finding in found.items()}


@pytest.fixture
def up(tmp_path: Path) -> Iterator[UpProcess]:
    process = PlainUp(tmp_path).start()
    yield process
    assert process.stop() == 0


def test_cluster_passes_by_default(up: UpProcess) -> None:
    """The text output has the same findings."""
    found = verdicts(report("--data-dir", str(up.data)))
    assert len(found) == 25
    assert "FAIL" not in found.values()
    passed = {id for id, verdict in found.items() if verdict == "PASS"}
    assert {"4.1.5", "4.1.6", "4.1.7", "4.1.8", "4.1.9", "4.1.10"} <= passed
    assert {"4.2.1", "4.2.2", "4.2.3", "4.2.4", "4.2.5", "4.2.7", "4.2.9", "4.2.11", "4.2.12"} <= passed
    command = [sys.executable, "-m", "pykubelet", "check", "--cis", "--data-dir", str(up.data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "4.2.1    PASS" in done.stdout


def test_loosened_files_fail(up: UpProcess) -> None:
    """Files that others can read, and a unit without network restrictions, fail with advice."""
    up.kubeconfig.chmod(0o644)
    (up.data / "pki/ca.crt").chmod(0o666)
    (up.data / "node/node.json").chmod(0o604)
    (up.data / "node/pki/kubelet.key").chmod(0o640)
    unit = up.data / "pykubelet.service"
    unit.write_text("[Service]\nExecStart=pykubelet node\n")
    unit.chmod(0o644)
    found = report("--data-dir", str(up.data), "--service-file", str(unit), code=1)
    failed = {id for id, verdict in verdicts(found).items() if verdict == "FAIL"}
    assert failed == {"4.1.1", "4.1.5", "4.1.7", "4.1.9", "4.2.9", "4.2.15"}
    assert found["4.1.5"]["advice"] == f"chmod 600 {up.kubeconfig}"


def test_node_passes_by_default(tmp_path: Path) -> None:
    """The node has the process runtime and a separate API server."""
    server = ServerProcess(tmp_path).start()
    node = PlainNode(tmp_path, "--runtime", "process", "--kubeconfig", str(server.kubeconfig))
    try:
        node.start_up()
        found = verdicts(report("--root-dir", str(tmp_path / "node"), code=0 if HAS_PIDS else 1))
        failed = {id for id, verdict in found.items() if verdict == "FAIL"}
        assert failed == (set() if HAS_PIDS else {"4.2.13"})
        assert found["4.2.10"] == "PASS"
        assert node.stop() == 0
        stopped = verdicts(report("--root-dir", str(tmp_path / "node"), code=1))
        assert stopped["4.2.1"] == "FAIL"
    finally:
        for program in (node, server):
            if program.is_running:
                program.kill()


def test_loose_node_fails(tmp_path: Path) -> None:
    """The node has no PID limit, no certificate rotation, and another name."""
    server = ServerProcess(tmp_path).start()
    options = ("--pod-max-pids", "-1", "--no-rotate-certificates", "--kubeconfig", str(server.kubeconfig))
    node = NodeProcess(tmp_path, "--runtime", "process", *options, name="other")
    try:
        node.start()
        found = verdicts(report("--root-dir", str(tmp_path / "node"), code=1))
        assert {id for id, verdict in found.items() if verdict == "FAIL"} == {"4.2.7", "4.2.10", "4.2.13"}
    finally:
        for program in (node, server):
            if program.is_running:
                program.kill()


def test_weak_server_is_found_out(tmp_path: Path) -> None:
    """A server at the node's port with a weak cipher and anonymous access is detected."""
    up = PlainUp(tmp_path).start()
    assert up.stop() == 0
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(up.data / "node/pki/kubelet.crt", up.data / "node/pki/kubelet.key")
    context.set_ciphers("ECDHE-ECDSA-AES128-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256")
    with Impostor(context) as port:
        path = up.data / "node/node.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "port": port}))
        places = CisPaths(root=up.data / "node", data=up.data)

        server = gather_facts(places, SystemClock().now()).server
    assert server is not None
    assert (server.anonymous_code, server.weak_cipher) == (200, "ECDHE-ECDSA-AES128-SHA256 of TLSv1.2")


def test_invalid_arguments_and_a_missing_node_are_errors(tmp_path: Path) -> None:
    """The error is on stderr, with exit code 1 or 2."""
    for options, code, words in (
        (["--cis", "--data-dir", str(tmp_path)], 1, "no node was run"),
        (["--cis", "pod.yaml"], 2, "--cis takes no manifests"),
        ([], 2, "give manifests or --cis"),
    ):
        command = [sys.executable, "-m", "pykubelet", "check", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=os.environ)
        assert (done.returncode, words in done.stderr) == (code, True), done.stderr


class Impostor:
    """A TLS server that answers two connections at its own port."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._listener = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> int:
        self._thread.start()
        port: int = self._listener.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        self._thread.join(timeout=20)
        self._listener.close()

    def _serve(self) -> None:
        for _ in range(2):
            plain, _ = self._listener.accept()
            with self._context.wrap_socket(plain, server_side=True) as secure:
                if secure.recv(1000):
                    secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
