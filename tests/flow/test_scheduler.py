"""The scheduler on several nodes and virtual time."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from node_fleet import Fleet, fleet
from pykubelet.api.generated.core import Pod, PodCondition
from pykubelet.api.pods import condition_of
from pykubelet.api.scheme import PODS
from pykubelet.client.interface import PatchType
from pykubelet.testing.local_api import local_api


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with local_api(tmp_path) as api, fleet(api.client) as made:
        yield made


def scheduled(pod: Pod) -> PodCondition | None:
    return condition_of(pod, "PodScheduled")


def is_refused(pod: Pod) -> bool:
    found = scheduled(pod)
    return found is not None and found.status == "False"


async def test_pods_are_spread_over_nodes_with_events(cluster: Fleet) -> None:
    """Each pod goes to the least allocated node; a condition and an event report the binding."""
    for name in ("n1", "n2", "n3"):
        await cluster.add_node(name)
    for number in range(6):
        await cluster.add_pod(f"p{number}", cpu="500m")
    await asyncio.sleep(2)
    places = list((await cluster.places()).values())
    assert sorted(places) == ["n1", "n1", "n2", "n2", "n3", "n3"]
    pod = await cluster.pod("p0")
    found = scheduled(pod)
    assert found is not None
    assert found.status == "True"
    told = ("default-scheduler", "Scheduled", f"Successfully assigned default/p0 to {pod.spec.node_name}")
    assert told in await cluster.events("p0")


async def test_unschedulable_pod_gets_the_reasons_and_is_bound_when_room_is_made(cluster: Fleet) -> None:
    """The message counts nodes by reason. After another pod's deletion and the backoff the pod is bound."""
    await cluster.add_node("small", cpu="1")
    await cluster.add_node("cordoned")
    await cluster.change_node("cordoned", spec={"unschedulable": True})
    first = await cluster.add_pod("first", cpu="800m")
    await cluster.until_placed(first.metadata.name)
    await cluster.add_pod("second", cpu="800m")
    pod = await cluster.until_pod("second", is_refused)
    message = (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. "
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )
    found = scheduled(pod)
    assert found is not None
    assert (found.reason, found.message) == ("Unschedulable", message)
    assert ("default-scheduler", "FailedScheduling", message) in await cluster.events("second")
    await cluster.force_delete("first")
    assert await cluster.until_placed("second", within_seconds=11) == "small"


async def test_pod_waits_for_its_gates_for_a_node_and_for_its_own_scheduler(cluster: Fleet) -> None:
    """It waits without a node, and while the only node is not ready. Pods of other schedulers are ignored."""
    await cluster.add_pod("early")
    pod = await cluster.until_pod("early", is_refused)
    found = scheduled(pod)
    assert found is not None
    assert found.message == "no nodes available to schedule pods"
    await cluster.add_node("n1", is_ready=False)
    await asyncio.sleep(12)
    found = scheduled(await cluster.pod("early"))
    assert found is not None
    assert found.message.startswith("0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption:")
    await cluster.say("n1", "Ready", "True")
    assert await cluster.until_placed("early", within_seconds=11) == "n1"
    gated = await cluster.add_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    await cluster.add_pod("foreign", schedulerName="another")
    await asyncio.sleep(30)
    found = scheduled(gated)
    assert found is not None
    assert found.reason == "SchedulingGated"
    assert await cluster.places() == {"early": "n1", "foreign": "", "gated": ""}
    body = {"spec": {"schedulingGates": None}}
    await cluster.client.patch(PODS, "gated", body, namespace="default", patch_type=PatchType.MERGE)
    assert await cluster.until_placed("gated", within_seconds=1) == "n1"


async def test_room_is_never_given_twice_when_many_pods_come_at_once(cluster: Fleet) -> None:
    """Pods count from the scheduling decision on, before the watch shows the binding."""
    for number in range(4):
        await cluster.add_node(f"n{number}", cpu="1")
    for number in range(12):
        await cluster.add_pod(f"p{number}", cpu="500m")
    await asyncio.sleep(30)
    places = [node for node in (await cluster.places()).values() if node]
    assert sorted(places) == ["n0", "n0", "n1", "n1", "n2", "n2", "n3", "n3"]


async def test_highest_priority_goes_first_when_room_is_made(cluster: Fleet) -> None:
    """A later pod of higher priority is bound first; the older pod keeps waiting."""
    await cluster.add_node("n1", cpu="1")
    await cluster.until_placed((await cluster.add_pod("holder", cpu="1")).metadata.name)
    await cluster.add_pod("old", cpu="1")
    await asyncio.sleep(1)
    await cluster.add_priority_class("patient", 1000, preemptionPolicy="Never")
    await cluster.add_pod("critical", cpu="1", priorityClassName="patient")
    await cluster.until_pod("critical", is_refused)
    found = scheduled(await cluster.pod("critical"))
    assert found is not None
    assert found.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")
    await asyncio.sleep(15)
    await cluster.force_delete("holder")
    assert await cluster.until_placed("critical", within_seconds=11) == "n1"
    await asyncio.sleep(15)
    assert (await cluster.places())["old"] == ""


async def test_affinities_and_spread_place_pods_over_zones(cluster: Fleet) -> None:
    """Replicas go to different zones, an affine pod to one of these, an anti-affine pod to a zone without replicas."""
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c")):
        await cluster.add_node(name, labels={"zone": zone})
    web = {"matchLabels": {"app": "web"}}
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": web}
    for number in range(2):
        await cluster.add_pod(f"web{number}", labels={"app": "web"}, topologySpreadConstraints=[constraint])
    await asyncio.sleep(2)
    zones = [(await cluster.places())[f"web{number}"][0] for number in range(2)]
    assert len(set(zones)) == 2
    term = [{"labelSelector": web, "topologyKey": "zone"}]
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    await cluster.add_pod("near", affinity={"podAffinity": {rule: term}})
    await cluster.add_pod("away", affinity={"podAntiAffinity": {rule: term}})
    assert (await cluster.until_placed("near"))[0] in zones
    assert (await cluster.until_placed("away"))[0] not in zones


async def test_pod_that_names_its_node_counts_as_well(cluster: Fleet) -> None:
    """The scheduler learns of it from the addition alone."""
    await cluster.add_node("n1", cpu="1")
    await cluster.add_pod("there", cpu="800m", nodeName="n1")
    await asyncio.sleep(1)
    await cluster.add_pod("late", cpu="500m")
    found = scheduled(await cluster.until_pod("late", is_refused))
    assert found is not None
    assert "1 Insufficient cpu" in found.message
