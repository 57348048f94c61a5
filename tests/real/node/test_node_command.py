"""`pykubelet node` as a process with the simulated runtime: pod sources, signals, and configuration errors."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kubectl import Kubectl
from pykubelet_process import NodeProcess, ServerProcess

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {"containers": [{"name": "main", "image": "example/image:1"}]},
}


def manifest(name: str) -> str:
    """A pod manifest as JSON."""
    return json.dumps({**POD, "metadata": {"name": name}})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A real API server."""
    process = ServerProcess(tmp_path_factory.mktemp("server")).start()
    yield process
    assert process.stop() == 0


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """The URL of a list with one pod, served only with the right header."""

    async def answer(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer secret-value":
            return web.Response(status=401)
        items = [json.loads(manifest("from-url"))]
        return web.json_response({"apiVersion": "v1", "kind": "PodList", "items": items})

    app = web.Application()
    app.router.add_get("/pods", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield f"http://127.0.0.1:{port}/pods"
    await runner.cleanup()


async def test_node_runs_pods_of_all_three_sources(server: ServerProcess, url: str, tmp_path: Path) -> None:
    """Pods of a folder, a URL and the API server become ready; the log never has the header's value."""
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "one.json").write_text(manifest("from-file"))
    headers = tmp_path / "headers"
    headers.touch(0o600)
    headers.write_text("Authorization: Bearer secret-value\n")
    kubectl = Kubectl(server.kubeconfig, "default", tmp_path / "cache")
    node = NodeProcess(
        tmp_path,
        *("--kubeconfig", str(server.kubeconfig), "--runtime", "sim", "--manifests", str(manifests)),
        *("--manifest-url", url, "--manifest-url-header-file", str(headers), "--verbose"),
    )
    await asyncio.to_thread(node.start)
    bound = {**POD, "metadata": {"name": "from-api"}, "spec": {**POD["spec"], "nodeName": "node-1"}}
    await asyncio.to_thread(kubectl, "create", "-f", "-", text=json.dumps(bound))
    names = ("from-api", "from-file-node-1", "from-url-node-1")
    waiting = ("wait", "--for=condition=Ready", "--timeout=10s", *(f"pod/{name}" for name in names))
    assert (await asyncio.to_thread(kubectl, *waiting)).count("condition met") == 3
    await asyncio.to_thread(kubectl, "delete", "pod", "from-api", "--timeout=10s")
    (manifests / "one.json").unlink()
    await asyncio.to_thread(kubectl, "wait", "--for=delete", "--timeout=10s", "pod/from-file-node-1")
    assert await asyncio.to_thread(node.stop) == 0
    assert "secret-value" not in "".join(node.lines)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_node_on_its_own_stops_cleanly(tmp_path: Path, how: signal.Signals) -> None:
    """Without an API server it runs the pods of a folder, logs events, and exits with code 0 on a signal."""
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "one.json").write_text(manifest("web"))
    node = NodeProcess(tmp_path, "--runtime", "sim", "--manifests", str(manifests)).start()
    assert node.has_said("Started container main")
    assert node.stop(how) == 0


def test_node_without_its_api_server_stops_cleanly(tmp_path: Path) -> None:
    """It retries while the server is down, and exits with code 0 on a signal."""
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    context = {"name": "c", "context": {"cluster": "c", "user": ""}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "contexts": [context],
        "current-context": "c",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    node = NodeProcess(tmp_path, "--runtime", "sim", "--kubeconfig", str(tmp_path / "kubeconfig"))
    node.launch()
    assert node.has_said("node not registered")
    assert node.stop() == 0
    assert "Traceback" not in "".join(node.lines)


def test_node_is_ready_before_it_has_any_pod(server: ServerProcess, tmp_path: Path) -> None:
    """It creates a missing root folder and measures its disk."""
    node = NodeProcess(tmp_path, "--runtime", "sim", "--kubeconfig", str(server.kubeconfig), name="empty").start()
    kubectl = Kubectl(server.kubeconfig, "default", tmp_path / "cache")
    assert "condition met" in kubectl("wait", "--for=condition=Ready", "--timeout=10s", "node/empty")
    assert node.stop() == 0


MISTAKES = {
    "no source": (["--runtime", "sim"], 1, "error: there is nothing to run"),
    "no such runtime": (
        ["--runtime", "cri", "--cri-socket", "/nowhere.sock", "--manifests", "."],
        1,
        "error: the container runtime at /nowhere.sock does not answer",
    ),
    "joining without a kubeconfig": (
        ["--runtime", "sim", "--bootstrap-kubeconfig", "broken"],
        2,
        "--bootstrap-kubeconfig needs --kubeconfig",
    ),
    "unknown runtime": (["--runtime", "docker", "--manifests", "."], 2, "Invalid value for '--runtime'"),
    "URL": (["--runtime", "sim", "--manifest-url", "ftp://x"], 1, "error: the manifest URL needs the scheme"),
    "header": (["--runtime", "sim", "--manifest-url-header", "secret"], 2, "needs the form KEY:VALUE"),
    "headers for all": (["--runtime", "sim", "--manifest-url-header-file", "broken"], 2, "others may read or write"),
    "kubeconfig": (["--runtime", "sim", "--kubeconfig", "broken"], 1, "error: "),
    "folder": (["--runtime", "sim", "--manifests", ".", "--root-dir", "broken/node"], 1, "Not a directory"),
}


@pytest.mark.parametrize(("arguments", "code", "message"), MISTAKES.values(), ids=MISTAKES)
def test_configuration_error_is_one_line(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    """Each error has its exit code and no traceback."""
    (tmp_path / "broken").write_text("{")
    command = [sys.executable, "-m", "pykubelet", "node", "--root-dir", str(tmp_path / "node"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=20, check=False)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
