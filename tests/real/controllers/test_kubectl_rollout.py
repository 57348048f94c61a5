"""`kubectl rollout` status, history, undo, pause, resume and restart, with real controllers over HTTP."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller_rig import NAMESPACE
from deployment_rig import Cluster
from kubectl import Kubectl
from pykubelet.aio.clock import SystemClock
from pykubelet.aio.tasks import running
from pykubelet.client.clientcmd import load_kubeconfig
from pykubelet.client.rest import RestClient
from pykubelet_process import ServerProcess

WAIT = "--timeout=40s"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {kubernetes.io/change-cause: first}}
spec:
  replicas: 3
  progressDeadlineSeconds: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "one"}]}
"""


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """kubectl for a server with both controllers and fake nodes."""
    server, clock = ServerProcess(tmp_path).start(), SystemClock()
    access = load_kubeconfig([str(server.kubeconfig)], environment=os.environ, clock=clock)
    async with RestClient(access, clock=clock) as client:
        world = Cluster(client, clock)
        async with running({"pods": world.nodes.run}), world.controllers():
            yield Kubectl(server.kubeconfig, NAMESPACE, tmp_path / "cache")
    assert server.stop() == 0


async def test_kubectl_follows_a_rollout_and_rolls_it_back(kubectl: Kubectl) -> None:
    """kubectl reads generation, counts and conditions of the Deployment, and revisions of its ReplicaSets."""

    def history() -> list[list[str]]:
        return [row.split() for row in kubectl("rollout", "history", "deploy/web").splitlines()[2:4]]

    def act() -> None:
        kubectl("apply", "-f", "-", text=DEPLOYMENT)
        assert 'deployment "web" successfully rolled out' in kubectl("rollout", "status", "deploy/web", WAIT)
        kubectl("set", "image", "deploy/web", "main=broken")
        kubectl("wait", "deploy/web", "--for=jsonpath={.status.updatedReplicas}=1", WAIT)
        kubectl("annotate", "deploy/web", "kubernetes.io/change-cause=second", "--overwrite")
        failed = kubectl.fails("rollout", "status", "deploy/web", WAIT)
        assert 'deployment "web" exceeded its progress deadline' in failed
        assert history() == [["1", "first"], ["2", "second"]]
        assert "broken" in kubectl("rollout", "history", "deploy/web", "--revision=2")
        assert "rolled back" in kubectl("rollout", "undo", "deploy/web")
        kubectl("wait", "deploy/web", "--for=condition=Progressing=True", WAIT)
        assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", WAIT)
        assert history() == [["2", "second"], ["3", "first"]]

    await asyncio.to_thread(act)


async def test_kubectl_pauses_resumes_scales_and_restarts(kubectl: Kubectl) -> None:
    """A paused Deployment still scales, but makes no new ReplicaSet until it is resumed."""

    def act() -> None:
        kubectl("apply", "-f", "-", text=DEPLOYMENT)
        kubectl("rollout", "status", "deploy/web", WAIT)
        kubectl("rollout", "pause", "deploy/web")
        kubectl("set", "image", "deploy/web", "main=two")
        kubectl("scale", "deploy/web", "--replicas=2")
        kubectl("wait", "deploy/web", "--for=jsonpath={.status.replicas}=2", WAIT)
        assert len(kubectl.json("get", "replicasets")["items"]) == 1
        kubectl("rollout", "resume", "deploy/web")
        assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", WAIT)
        kubectl("rollout", "restart", "deploy/web")
        assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", WAIT)
        sets = kubectl.json("get", "replicasets")["items"]
        assert sorted(one["spec"]["replicas"] for one in sets) == [0, 0, 2]
        assert "2/2" in kubectl("get", "deploy", "web")
        described = kubectl("describe", "deploy/web")
        assert "NewReplicaSetAvailable" in described
        assert "ScalingReplicaSet" in described

    await asyncio.to_thread(act)
