"""The page of `pykubelet node`, standalone and in a cluster with the node's limited rights."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from browser import browser
from kubectl import Kubectl
from page_lab import PageLab
from pykubelet.aio.clock import SystemClock
from pykubelet.apiserver.certs.kubeconfig import Endpoint, ensure_kubeconfig, node_identity
from pykubelet.apiserver.certs.pki import open_pki
from pykubelet_process import NodeProcess, ServerProcess

pytestmark = pytest.mark.timeout(180)
RUNS = "document.querySelectorAll('.body .row').length === 1 && document.querySelector('.body .row').innerText.includes('Running')"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, image: 'a:1'}]}
"""


@asynccontextmanager
async def looked_at(node: NodeProcess) -> AsyncIterator[PageLab]:
    """A running node, and a browser signed in to its page."""
    try:
        await asyncio.to_thread(node.start)
        assert node.has_said("page http://127.0.0.1:")
        async with browser(node.folder / "profile") as tab:
            lab = PageLab(node, node.folder / "node", tab)
            await lab.sign_in()
            yield lab
            assert [line for line in node.lines if "Traceback" in line or " E " in line] == []
    finally:
        if node.is_running:
            node.kill()


async def test_page_of_a_node_on_its_own_shows_its_static_pods(tmp_path: Path) -> None:
    """It shows and explains the pods, and states that there is no API server for other objects."""
    manifest = tmp_path / "web.yaml"
    manifest.write_text(POD)
    async with looked_at(NodeProcess(tmp_path, "--manifests", str(manifest), "--runtime", "sim")) as lab:
        await lab.tab.until(RUNS)
        assert await lab.tab.run("document.querySelector('.s-server .number').textContent") == "none"
        await lab.tab.run("location.hash = '#/pod/default/web-node-1'")
        await lab.tab.until_text("Nothing blocks this pod")
        await lab.tab.run("location.hash = '#/events'")
        await lab.tab.until_text("this node runs without an API server")
        manifest.unlink()
        await lab.tab.run("location.hash = '#/pods'")
        await lab.tab.until_text("No pods yet")
        assert lab.faults() == []


async def test_page_of_a_node_in_a_cluster_shows_what_the_node_may_read(tmp_path: Path) -> None:
    """It shows its own pods and its own node; forbidden objects are reported as such."""
    server, now = ServerProcess(tmp_path), SystemClock().now()
    try:
        await asyncio.to_thread(server.start)
        kubectl = Kubectl(server.kubeconfig, "default", tmp_path / "cache")
        pki, endpoint = open_pki(server.data / "pki", hosts=(), now=now), server.url
        kubeconfig = tmp_path / "node.kubeconfig"
        ensure_kubeconfig(
            kubeconfig, pki, Endpoint(endpoint, pki.authority.certificate_pem), node_identity("node-1"), now=now
        )
        async with looked_at(NodeProcess(tmp_path, "--kubeconfig", str(kubeconfig), "--runtime", "sim")) as lab:
            here = POD.replace("spec: {", "spec: {nodeName: node-1, ")
            await asyncio.to_thread(kubectl, "create", "-f", "-", text=here)
            await asyncio.to_thread(kubectl, "create", "-f", "-", text=POD.replace("web", "elsewhere"))
            await lab.tab.until(RUNS)
            await lab.tab.run("location.hash = '#/nodes'")
            await lab.tab.until("document.querySelector('.of-nodes .body .row')?.innerText.includes('node-1')")
            await lab.tab.run("location.hash = '#/events'")
            await lab.tab.until_text("does not let this node read them")
            await lab.tab.run("location.hash = '#/objects//v1/secrets'")
            await lab.tab.until_text("forbidden")
            await lab.tab.run("location.hash = '#/object//v1/pods/default/web'")
            await lab.tab.until_text("nodeName: node-1")
    finally:
        server.kill()
