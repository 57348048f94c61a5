"""Rollouts of StatefulSets and DaemonSets and their history, with a real kubectl and real controllers over HTTP."""

import asyncio
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from controller_rig import NAMESPACE
from kubectl import Kubectl
from pykubelet.aio.clock import SystemClock
from pykubelet.aio.tasks import running
from pykubelet.client.clientcmd import load_kubeconfig
from pykubelet.client.rest import RestClient
from pykubelet_process import ServerProcess
from workload_rig import Cluster

pytestmark = pytest.mark.timeout(120)
WAIT = "--timeout=40s"


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """kubectl for a server with both controllers, fake nodes, and one set of each kind."""
    server, clock = ServerProcess(tmp_path).start(), SystemClock()
    access = load_kubeconfig([str(server.kubeconfig)], environment=os.environ, clock=clock)
    async with RestClient(access, clock=clock) as client:
        world = Cluster(client, clock=clock)
        async with running({"pods": partial(world.nodes.run, 0.1)}), world.controllers():
            await world.create_nodes("n1", "n2")
            await world.create_set(replicas=2)
            await world.create_daemon()
            yield Kubectl(server.kubeconfig, NAMESPACE, tmp_path / "cache")
    server.stop()


@pytest.mark.parametrize(
    ("kind", "done"),
    [
        ("sts/web", "partitioned roll out complete: 2 new pods have been updated"),
        ("ds/web", 'daemon set "web" successfully rolled out'),
    ],
)
async def test_kubectl_follows_a_rollout_and_rolls_it_back(kubectl: Kubectl, kind: str, done: str) -> None:
    """kubectl reads generation, counts and revisions of the set, and numbers, causes and templates of its history."""

    def history() -> list[list[str]]:
        return [row.split() for row in kubectl("rollout", "history", kind).splitlines()[2:4]]

    def act() -> None:
        assert done in kubectl("rollout", "status", kind, WAIT)
        kubectl("annotate", kind, "kubernetes.io/change-cause=second")
        kubectl("set", "image", kind, "main=two")
        assert done in kubectl("rollout", "status", kind, WAIT)
        assert history() == [["1", "<none>"], ["2", "second"]]
        assert "one" in kubectl("rollout", "history", kind, "--revision=1")
        assert "rolled back" in kubectl("rollout", "undo", kind)
        assert done in kubectl("rollout", "status", kind, WAIT)
        assert history() == [["2", "second"], ["3", "<none>"]]
        template = kubectl.json("get", kind)["spec"]["template"]
        assert template["spec"]["containers"][0]["image"] == "one"
        kubectl("rollout", "restart", kind)
        assert done in kubectl("rollout", "status", kind, WAIT)

    await asyncio.to_thread(act)
