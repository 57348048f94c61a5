"""What a running cluster exposes to other users of its machine: sockets, files, and memory."""

import json
import socket
import ssl
import stat
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl import Kubectl
from pykubelet.podnetwork.node_address import node_address
from pykubelet_process import UpProcess

pytestmark = pytest.mark.timeout(120)
_LISTENING = "0A"
SECRET = "correct-horse-battery-staple"
MANIFEST = f"""
apiVersion: v1
kind: Secret
metadata: {{name: words}}
stringData: {{password: {SECRET}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  containers:
  - name: main
    image: example/main:1
    env: [{{name: PASSWORD, valueFrom: {{secretKeyRef: {{name: words, key: password}}}}}}]
    volumeMounts: [{{name: words, mountPath: /words}}]
  volumes: [{{name: words, secret: {{secretName: words}}}}]
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpProcess]:
    """A cluster with a pod that uses a secret, and its log in full detail."""
    folder = tmp_path_factory.mktemp("surface")
    (folder / "pod.yaml").write_text(MANIFEST)
    process = UpProcess(folder, str(folder / "pod.yaml"), "--verbose", runtime="sim").start()
    try:
        kubectl = Kubectl(process.kubeconfig, "default", folder / "cache")
        kubectl("wait", "--for=create", "--timeout=30s", "pod/web-node-1")
        kubectl("wait", "--for=condition=Ready", "--timeout=30s", "pod/web-node-1")
        yield process
        # The secret is in a memory mount, which would outlive the process.
        (folder / "pod.yaml").unlink()
        kubectl("wait", "--for=delete", "--timeout=60s", "pod/web-node-1")
        pause = threading.Event()
        while str(process.data) in Path("/proc/mounts").read_text():
            pause.wait(0.1)
    finally:
        assert process.stop() == 0


def listening(pid: int) -> list[tuple[str, int]]:
    """The addresses and ports on which a process listens."""
    held = set()
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        try:
            held.add(str(handle.readlink()))
        except FileNotFoundError:
            continue
    found = []
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        table = Path(f"/proc/{pid}/net/{name}")
        for fields in (line.split() for line in table.read_text().splitlines()[1:]) if table.exists() else ():
            if fields[3] == _LISTENING and f"socket:[{fields[9]}]" in held:
                address, port = fields[1].split(":")
                words = struct.unpack(f">{len(address) // 8}I", bytes.fromhex(address))
                found.append((socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words)), int(port, 16)))
    return found


def page_port(up: UpProcess) -> int:
    assert up.has_said("page http://127.0.0.1:", within_seconds=20)
    said = next(line for line in up.lines if line.startswith("page "))
    return int(said.partition("http://127.0.0.1:")[2].partition("/")[0])


def dns_port(up: UpProcess) -> int:
    said = next(line for line in up.lines if "cluster DNS listens" in line)
    return int(said.partition("port=")[2].split()[0])


def test_every_port_is_local_and_asks_who_is_there(up: UpProcess) -> None:
    """API server and node accept only TLS; no port gives anonymous clients any data.

    The one listener that is not on loopback is for pods; tests/real/apiserver/test_in_cluster.py shows whom it refuses.
    """
    page = page_port(up)
    # DNS answers only this machine and pods: tests/real/dns.
    ports = [place for place in listening(up.pid) if place[1] != dns_port(up)]
    to_pods = {(own, up.port) for own in [node_address()] if own}
    assert {place for place in ports if place[0] != "127.0.0.1"} == to_pods
    secured = [place for place in ports if place[1] != page]
    assert (len(ports), len(secured)) == (3 + len(to_pods), 2 + len(to_pods))
    for path in ("/", "/?key=guessed", "/stream", "/view/guessed/", "/pods/default/web-node-1", "/metrics"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{page}{path}", timeout=20)
        with refused.value as answer:
            assert (answer.code in {401, 403, 404}, b"web-node-1" in answer.read()) == (True, False), path
    stranger = ssl.create_default_context()
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    for address, port in secured:
        for path in ("/metrics", "/pods", "/api/v1/secrets", "/exec/default/web-node-1/main?command=id", "/logs/"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"https://{address}:{port}{path}", context=stranger, timeout=20)
            refused.value.close()
            assert refused.value.code in {401, 403}, path
        with socket.create_connection((address, port), timeout=20) as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" not in plain.recv(100)


def test_nothing_on_disk_is_for_others(up: UpProcess) -> None:
    """The data folder has mode 0700, others can write nothing in it, and secret files have mode 0600."""
    assert stat.S_IMODE(up.data.stat().st_mode) == 0o700
    for path in (path for path in up.data.rglob("*") if not path.is_symlink()):
        mode = stat.S_IMODE(path.stat().st_mode)
        # Volumes are shared by containers of any user, below a folder that only the node can enter.
        if "/volumes/kubernetes.io~" in str(path):
            continue
        assert not mode & stat.S_IWOTH or "/containers/" in str(path), path
        if path.suffix in {".key", ".kubeconfig", ".db"}:
            assert mode == 0o600, path


def test_crash_writes_no_memory_to_disk(up: UpProcess) -> None:
    """Core dumps are disabled, since memory holds keys and secrets."""
    limits = Path(f"/proc/{up.pid}/limits").read_text().splitlines()
    assert next(line.split()[4:6] for line in limits if line.startswith("Max core file size")) == ["0", "0"]


def test_secret_is_in_no_log(up: UpProcess) -> None:
    """Neither plain nor base64, in the verbose log or the audit log."""
    kubectl = Kubectl(up.kubeconfig, "default", up.data.parent / "cache")
    kept = json.loads(kubectl("get", "secret", "words", "-o", "json"))["data"]["password"]
    told = "".join(up.lines) + (up.data / "audit.log").read_text()
    assert "pods changed" in told
    assert SECRET not in told
    assert kept not in told
