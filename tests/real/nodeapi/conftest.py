"""A real API server per test module, and a node whose API uses it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from node_api_rig import NODE, NodeRig, own_tls
from node_cluster import Cluster
from pykubelet.aio.clock import SystemClock
from pykubelet.client.clientcmd import load_kubeconfig
from pykubelet.client.rest import RestClient
from pykubelet.kubelet.server.auth import ApiServerAccessReviewer
from pykubelet_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path_factory.mktemp("server")).start()
    yield process
    assert process.stop() == 0


@pytest.fixture
async def cluster(server: ServerProcess, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A node that delegates access decisions to the server, and to which the server proxies requests."""
    rig, clock = NodeRig(tmp_path), SystemClock()
    access = load_kubeconfig([str(server.kubeconfig)], environment={}, clock=clock)
    tls = await asyncio.to_thread(own_tls, tmp_path, server.data / "pki" / "ca.crt")
    async with RestClient(access, clock=clock) as api:
        judge = ApiServerAccessReviewer(api=api, node_name=NODE, clock=clock)
        async with rig.serving(tls, judge) as port:
            made = Cluster(server, rig, port, tmp_path / "cache")
            addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
            status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
            await made.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}, status)
            yield made
            await made.kubectl("delete", "pod", "--all", "--grace-period=0", "--force")
