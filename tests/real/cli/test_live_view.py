"""`pykubelet up` on a terminal redraws its table of pods in place."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_lab import Pykubelet
from kubectl import Kubectl
from terminal import Terminal

pytestmark = pytest.mark.timeout(120)
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, image: "example/web:1"}]}
"""


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Terminal]:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "web.yaml").write_text(POD)
    options = ["--data-dir", str(tmp_path / "data"), "--port", "0", "--runtime", "sim", "--node-name", "node-1"]
    options.append("--no-service-proxy")
    with Pykubelet(tmp_path / "none").terminal("up", str(manifests), *options) as made:
        yield made


def test_up_prints_its_address_and_redraws_its_pods(screen: Terminal, tmp_path: Path) -> None:
    """The table adapts to the width of the window; Ctrl-C ends the program with code 0."""
    screen.until("ready https://127.0.0.1:")
    screen.until(f"export KUBECONFIG={tmp_path}/data/admin.kubeconfig")
    screen.until("NAMESPACE")
    screen.until("web-node-1")
    screen.until("Running")
    kubectl = Kubectl(tmp_path / "data/admin.kubeconfig", "default", tmp_path / "cache")
    kubectl("run", "second", "--image=example/web:1")
    # The cursor moves up, and the table is erased and redrawn.
    screen.until("\x1b[J")
    screen.until("second")
    screen.resize(33, 30)
    os.kill(screen.process.pid, signal.SIGWINCH)
    screen.until("web-node-1   1/1\x1b")
    screen.type("\x03")
    assert screen.process.wait(30) == 0


def test_up_with_details_prints_plain_lines(tmp_path: Path) -> None:
    """With -v there is no table among the log lines."""
    options = ["--data-dir", str(tmp_path / "data"), "--port", "0", "--runtime", "sim", "--node-name", "node-1"]
    options.append("--no-service-proxy")
    with Pykubelet(tmp_path / "none").terminal("up", "-v", *options) as screen:
        before = screen.until("ready https://127.0.0.1:")
        screen.process.send_signal(signal.SIGTERM)
        assert screen.process.wait(30) == 0
    assert "\x1b[" not in before
