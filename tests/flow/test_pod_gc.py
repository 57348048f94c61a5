"""Pod garbage collection on virtual time."""

import asyncio
from pathlib import Path

from node_fleet import fleet
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import condition_of
from pykubelet.api.scheme import NODES, PODS
from pykubelet.testing.local_api import local_api


async def test_pods_of_a_node_that_is_gone_are_deleted_after_a_while(tmp_path: Path) -> None:
    """Before its deletion the pod gets phase Failed and a DisruptionTarget condition."""
    seen: list[Pod] = []
    async with local_api(tmp_path) as api, fleet(api.client) as cluster:
        await cluster.add_node("n1")
        await cluster.add_node("n2")
        await cluster.add_pod("lost", nodeName="n1")
        await cluster.add_pod("kept", nodeName="n2")
        cluster.beating.discard("n1")
        await cluster.client.delete(NODES, "n1")
        async with api.client.watch(PODS, namespace="default") as events:
            await asyncio.sleep(30)
            assert not await cluster.is_gone("lost")
            async with asyncio.timeout(60):
                async for event in events:
                    seen += [event.object] if event.object is not None and event.object.metadata.name == "lost" else []
                    if event.type == "DELETED":
                        break
        assert not await cluster.is_gone("kept")
    condition = condition_of(seen[-1], "DisruptionTarget")
    assert condition is not None
    assert (seen[-1].status.phase, condition.reason, condition.message) == (
        "Failed",
        "DeletionByPodGC",
        "PodGC: node no longer exists",
    )


async def test_too_many_finished_pods_are_thinned_out_oldest_and_evicted_first(tmp_path: Path) -> None:
    """Finished pods are deleted down to the threshold; running pods do not count."""
    async with local_api(tmp_path) as api, fleet(api.client, terminated_threshold=2) as cluster:
        await cluster.add_node("n1")
        for name, phase, reason in (
            ("a-old", "Succeeded", ""),
            ("b-new", "Failed", ""),
            ("c-newer", "Succeeded", ""),
            ("d-evicted", "Failed", "Evicted"),
            ("e-running", "Running", ""),
        ):
            await cluster.add_pod(name, nodeName="n1")
            await cluster.say_pod(name, phase=phase, reason=reason)
            await asyncio.sleep(1)
        await asyncio.sleep(25)
        assert sorted(await cluster.places()) == ["b-new", "c-newer", "e-running"]


async def test_terminating_pods_that_no_kubelet_ends_are_deleted(tmp_path: Path) -> None:
    """They have no node, or their node is out of service and not ready. Pods of a ready node stay."""
    async with local_api(tmp_path) as api, fleet(api.client) as cluster:
        await cluster.add_node("good")
        await cluster.add_node("dead", is_ready=False)
        await cluster.add_pod("none", schedulerName="nobody")
        for name, node in (("on-good", "good"), ("on-dead", "dead")):
            await cluster.add_pod(name, nodeName=node, tolerations=[{"operator": "Exists"}])
            await cluster.say_pod(name, phase="Running")
        held = {"metadata": {"finalizers": ["example.com/hold"]}}
        await api.client.patch(PODS, "none", held, namespace="default")
        for name in ("none", "on-good", "on-dead"):
            await api.client.delete(PODS, name, namespace="default")
        out = [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute", "value": "nodeshutdown"}]
        await asyncio.sleep(25)
        assert not await cluster.is_gone("on-dead")
        for node in ("good", "dead"):
            await cluster.change_node(node, spec={"taints": out})
        await asyncio.sleep(25)
        assert sorted(await cluster.places()) == ["none", "on-good"]
        assert (await cluster.pod("none")).status.phase == "Failed"
