"""Preemption by the scheduler, on virtual time; nodes have no kubelet, so victims end when the test says so."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from node_fleet import Fleet, fleet
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import condition_of
from pykubelet.testing.local_api import local_api

CRITICAL = "system-node-critical"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with local_api(tmp_path) as api, fleet(api.client) as made:
        yield made


def is_nominated(pod: Pod) -> bool:
    return bool(pod.status.nominated_node_name)


def is_ending(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


async def test_less_important_pod_makes_room(cluster: Fleet) -> None:
    """It gets a condition, an event, and its grace period; meanwhile its node is kept for the important one."""
    await cluster.add_node("n1", cpu="2")
    await cluster.add_pod("victim", cpu="1")
    await cluster.until_placed("victim")
    await cluster.add_priority_class("middle", 1000)
    await cluster.add_pod("kept", cpu="1", priorityClassName="middle")
    await cluster.until_placed("kept")
    critical = await cluster.add_pod("critical", cpu="1", priorityClassName=CRITICAL)
    waiting = await cluster.until_pod("critical", is_nominated)
    scheduled = condition_of(waiting, "PodScheduled")
    assert scheduled is not None
    assert (waiting.status.nominated_node_name, scheduled.message) == (
        "n1",
        "0/1 nodes are available: 1 Insufficient cpu.",
    )
    victim = await cluster.until_pod("victim", is_ending)
    condition = condition_of(victim, "DisruptionTarget")
    assert condition is not None
    assert (condition.status, condition.reason, condition.message) == (
        "True",
        "PreemptionByScheduler",
        "default-scheduler: preempting to accommodate a higher priority pod",
    )
    note = f"Preempted by pod {critical.metadata.uid} on node n1"
    assert ("default-scheduler", "Preempted", note) in await cluster.events("victim")
    await cluster.add_pod("rival", cpu="1", priorityClassName="middle")
    await asyncio.sleep(30)
    assert not is_ending(await cluster.pod("kept"))
    await cluster.force_delete("victim")
    assert await cluster.until_placed("critical") == "n1"
    assert (await cluster.places())["rival"] == ""


async def test_nominated_pod_gives_way_to_a_more_important_one(cluster: Fleet) -> None:
    """Its nomination is cleared, and it finds another victim or waits."""
    await cluster.add_node("n1", cpu="1")
    await cluster.add_pod("victim", cpu="1")
    await cluster.until_placed("victim")
    await cluster.add_priority_class("middle", 1000)
    await cluster.add_pod("middle", cpu="1", priorityClassName="middle")
    await cluster.until_pod("middle", is_nominated)
    await cluster.add_pod("critical", cpu="1", priorityClassName=CRITICAL)
    await cluster.until_pod("critical", is_nominated)
    await cluster.until_pod("middle", lambda pod: not is_nominated(pod))
    await cluster.force_delete("victim")
    assert await cluster.until_placed("critical") == "n1"
    await asyncio.sleep(30)
    assert (await cluster.places())["middle"] == ""


async def test_node_stays_kept_after_a_restart(tmp_path: Path) -> None:
    """The new scheduler reads the nomination from the pod's status."""
    async with local_api(tmp_path) as api:
        async with fleet(api.client) as cluster:
            await cluster.add_node("n1", cpu="1")
            await cluster.add_pod("victim", cpu="1")
            await cluster.until_placed("victim")
            await cluster.add_pod("critical", cpu="1", priorityClassName=CRITICAL)
            await cluster.until_pod("victim", is_ending)
        await cluster.force_delete("victim")
        await cluster.add_pod("quick", cpu="1")
        async with fleet(api.client) as cluster:
            assert await cluster.until_placed("critical") == "n1"
            await asyncio.sleep(30)
            assert (await cluster.places())["quick"] == ""
