"""The node lifecycle and taint eviction controllers on virtual time, with silent, returning and tainted nodes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from node_fleet import Fleet, fleet
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import condition_of
from pykubelet.api.scheme import NODES
from pykubelet.controllers.nodelifecycle.node_health import ready_of
from pykubelet.testing.local_api import local_api

READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with local_api(tmp_path) as api, fleet(api.client) as made:
        yield made


async def running_pod(cluster: Fleet, name: str, node: str, **spec: Any) -> Pod:
    await cluster.add_pod(name, nodeName=node, **spec)
    await cluster.say_pod(name, phase="Running", conditions=[READY])
    return await cluster.pod(name)


def ready_status(pod: Pod) -> str:
    found = condition_of(pod, "Ready")
    return found.status if found is not None else ""


async def test_new_node_is_opened_for_pods_when_it_is_ready(cluster: Fleet) -> None:
    """The not-ready taint is removed, beta labels are added, and events report the registration and removal."""
    await cluster.add_node("n1", is_ready=False, labels={"kubernetes.io/os": "linux"})
    await asyncio.sleep(1)
    assert await cluster.taints("n1") == {("not-ready", "NoSchedule")}
    await cluster.say("n1", "Ready", "True")
    await asyncio.sleep(1)
    assert await cluster.taints("n1") == set()
    assert (await cluster.node("n1")).metadata.labels["beta.kubernetes.io/os"] == "linux"
    event = ("node-controller", "RegisteredNode", "Node n1 event: Registered Node n1 in Controller")
    assert event in await cluster.events("n1")
    await cluster.client.delete(NODES, "n1")
    event = ("node-controller", "RemovingNode", "Node n1 event: Removing Node n1 from Controller")
    assert event in await cluster.events("n1")


async def test_silent_node_is_unknown_tainted_and_loses_its_pods(cluster: Fleet) -> None:
    """After 50 s without a lease, Ready is Unknown and pods are not ready; five minutes later they are deleted."""
    for name in ("n1", "n2", "n3"):
        await cluster.add_node(name)
    await running_pod(cluster, "usual", "n1")
    await running_pod(cluster, "loyal", "n1", tolerations=[{"operator": "Exists"}])
    await asyncio.sleep(45)
    assert ready_status(await cluster.pod("usual")) == "True"
    cluster.beating.discard("n1")
    await asyncio.sleep(45)
    assert await cluster.taints("n1") == set()
    await asyncio.sleep(20)
    ready = ready_of(await cluster.node("n1"))
    assert ready is not None
    said = (ready.status, ready.reason, ready.message)
    assert said == ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    assert await cluster.taints("n1") == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    assert all(taint.time_added for taint in (await cluster.node("n1")).spec.taints)
    assert ready_status(await cluster.pod("usual")) == "False"
    assert ("node-controller", "NodeNotReady", "Node is not ready") in await cluster.events("usual")
    assert ("node-controller", "NodeNotReady", "Node n1 status is now: NodeNotReady") in await cluster.events("n1")
    await asyncio.sleep(270)
    assert (await cluster.pod("usual")).metadata.deletion_timestamp is None
    await asyncio.sleep(40)
    pod = await cluster.pod("usual")
    assert pod.metadata.deletion_timestamp is not None
    target = condition_of(pod, "DisruptionTarget")
    assert target is not None
    assert (target.reason, target.message) == (
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
    )
    event = ("taint-eviction-controller", "TaintManagerEviction", "Marking for deletion Pod default/usual")
    assert (await cluster.events("usual")).count(event) == 1
    assert (await cluster.pod("loyal")).metadata.deletion_timestamp is None


async def test_node_that_comes_back_in_time_keeps_its_pods(cluster: Fleet) -> None:
    """All taints are removed and the pending evictions are cancelled."""
    await cluster.add_node("n1")
    await cluster.add_node("n2")
    await running_pod(cluster, "usual", "n1")
    cluster.beating.discard("n1")
    await asyncio.sleep(120)
    assert ("unreachable", "NoExecute") in await cluster.taints("n1")
    cluster.beating.add("n1")
    await cluster.say("n1", "Ready", "True")
    await asyncio.sleep(1)
    assert await cluster.taints("n1") == set()
    event = ("taint-eviction-controller", "TaintManagerEviction", "Cancelling deletion of Pod default/usual")
    assert event in await cluster.events("usual")
    await asyncio.sleep(600)
    assert (await cluster.pod("usual")).metadata.deletion_timestamp is None


async def test_no_pod_is_evicted_when_all_nodes_are_silent(cluster: Fleet) -> None:
    """The fault is probably ours: NoExecute taints are removed, and set again when one node is back."""
    await cluster.add_node("n1")
    await cluster.add_node("n2")
    await running_pod(cluster, "usual", "n1")
    cluster.beating.discard("n1")
    await asyncio.sleep(100)
    assert ("unreachable", "NoExecute") in await cluster.taints("n1")
    cluster.beating.discard("n2")
    await asyncio.sleep(100)
    for name in ("n1", "n2"):
        assert await cluster.taints(name) == {("unreachable", "NoSchedule")}
    await asyncio.sleep(600)
    assert (await cluster.pod("usual")).metadata.deletion_timestamp is None
    cluster.beating.add("n2")
    await cluster.say("n2", "Ready", "True")
    await asyncio.sleep(20)
    assert ("unreachable", "NoExecute") in await cluster.taints("n1")


async def test_pressures_and_cordons_are_taints_and_those_of_others_stay(cluster: Fleet) -> None:
    """Each taint lasts as long as its cause; taints of other owners stay."""
    await cluster.add_node("n1")
    await asyncio.sleep(1)
    mine = {"key": "example.com/mine", "effect": "NoSchedule"}
    await cluster.change_node("n1", spec={"taints": [mine], "unschedulable": True})
    for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"):
        await cluster.say("n1", kind, "True")
    await asyncio.sleep(1)
    keys = {key for key, _ in await cluster.taints("n1")}
    assert keys == {
        "example.com/mine",
        "unschedulable",
        "memory-pressure",
        "disk-pressure",
        "pid-pressure",
        "network-unavailable",
    }
    await cluster.change_node("n1", spec={"unschedulable": False})
    for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"):
        await cluster.say("n1", kind, "False")
    await asyncio.sleep(1)
    assert await cluster.taints("n1") == {("example.com/mine", "NoSchedule")}


async def test_taint_of_an_administrator_evicts_by_toleration(cluster: Fleet) -> None:
    """The toleration decides: eviction at once, after tolerationSeconds, or never."""
    await cluster.add_node("n1")
    away = {"key": "example.com/away", "operator": "Exists", "effect": "NoExecute"}
    await running_pod(cluster, "now", "n1")
    await running_pod(cluster, "later", "n1", tolerations=[{**away, "tolerationSeconds": 30}])
    await running_pod(cluster, "never", "n1", tolerations=[away])
    await cluster.change_node("n1", spec={"taints": [{"key": "example.com/away", "effect": "NoExecute"}]})
    names = ("now", "later", "never")
    await asyncio.sleep(1)
    assert [(await cluster.pod(name)).metadata.deletion_timestamp is not None for name in names] == [True, False, False]
    await asyncio.sleep(30)
    assert [(await cluster.pod(name)).metadata.deletion_timestamp is not None for name in names] == [True, True, False]
