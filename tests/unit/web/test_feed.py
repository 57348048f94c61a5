"""The feed sends each browser the full state, then changes, and does nothing without a browser."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pykubelet.aio.queues import Lagged, Subscription
from pykubelet.aio.tasks import background_task
from pykubelet.api.errors import Forbidden
from pykubelet.api.generated.core import Event, ObjectReference
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import EVENTS, NODES, PODS
from pykubelet.testing.build import node, pod
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock
from pykubelet.web.feed import SWEEP_SECONDS
from web_rig import FeedRig, told


@asynccontextmanager
async def running(rig: FeedRig) -> AsyncIterator[tuple[Any, Subscription[bytes]]]:
    """Connects a browser: yields the full state and the subscription to changes."""
    async with (
        background_task(rig.feed.run(asyncio.Event()), "feed"),
        background_task(rig.tables.run(rig.feed.is_read), "tables"),
    ):
        with rig.feed.reading() as (everything, changes):
            yield told(everything)[1], changes


async def next_change(changes: Subscription[bytes]) -> Any:
    async with asyncio.timeout(60):
        return told(await changes.next())[1]


async def test_browser_gets_the_full_state_then_changes() -> None:
    """A changed pod is sent as one row, a removed pod as its key."""
    rig = FeedRig(VirtualClock())
    rig.node.put(pod("old"))
    async with running(rig) as (everything, changes):
        assert [row["key"] for row in everything["pods"]] == ["default/old"]
        assert everything["about"] == {"node": "node-1"}
        assert everything["counts"]["desired"] == 1
        rig.feed.pod_changed(rig.node.put(pod("new")))
        change = await next_change(changes)
        assert [row["key"] for row in change["pods"]["rows"]] == ["default/new"]
        assert change["counts"]["desired"] == 2
        assert "problems" not in change
        uid = rig.node.pods["default/old"].metadata.uid
        rig.feed.pod_changed(uid)
        del rig.node.pods["default/old"]
        assert (await next_change(changes))["pods"] == {"rows": [], "gone": ["default/old"]}


async def test_change_costs_the_same_however_many_pods_there_are() -> None:
    """A hint causes one query for one pod; a hint without a change sends nothing."""
    rig = FeedRig(VirtualClock())
    uids = [rig.node.put(pod(f"pod-{number}")) for number in range(300)]
    async with running(rig) as (_, changes):
        await asyncio.sleep(1)
        rig.node.asked_for = 0
        rig.feed.pod_changed(uids[7])
        rig.feed.pod_changed(uids[7])
        await asyncio.sleep(3)
        assert rig.node.asked_for == 1
        assert len(changes) == 0


async def test_feed_is_idle_without_a_browser() -> None:
    """Hints are dropped; the next browser gets the full state."""
    rig = FeedRig(VirtualClock())
    async with running(rig):
        pass
    rig.node.asked_for = 0
    rig.feed.pod_changed(rig.node.put(pod("new")))
    await asyncio.sleep(60)
    assert rig.node.asked_for == 0
    assert not rig.feed.is_read.is_set()
    async with running(rig) as (everything, _):
        assert [row["key"] for row in everything["pods"]] == ["default/new"]


async def test_change_without_a_hint_is_found_by_the_sweep() -> None:
    """All rows are rebuilt periodically."""
    rig = FeedRig(VirtualClock())
    async with running(rig) as (_, changes):
        rig.node.put(pod("silent"))
        await asyncio.sleep(SWEEP_SECONDS * 2)
        assert [row["key"] for row in (await next_change(changes))["pods"]["rows"]] == ["default/silent"]


async def test_slow_browser_gets_lagged_and_can_start_over() -> None:
    """It loses changes, and the full state has them."""
    rig = FeedRig(VirtualClock())
    async with running(rig) as (_, changes):
        for number in range(200):
            rig.feed.pod_changed(rig.node.put(pod(f"pod-{number}")))
            await asyncio.sleep(0.5)
        with pytest.raises(Lagged):
            await changes.next()
        assert len(told(rig.feed.everything())[1]["pods"]) == 200


async def test_pods_nodes_and_events_of_the_api_are_rows_too() -> None:
    """Pods of other nodes are shown as the API returns them."""
    clock = VirtualClock()
    api = MemoryApi(clock)
    await api.create(NODES, node("node-1"))
    rig = FeedRig(clock, api)
    rig.node.put(pod("here"))
    async with running(rig) as (_, changes):
        assert [row["key"] for row in (await next_change(changes))["nodes"]["rows"]] == ["node-1"]
        await api.create(PODS, pod("elsewhere", node_name=""), namespace="default")
        change = await next_change(changes)
        assert [row["key"] for row in change["pods"]["rows"]] == ["default/elsewhere"]
        assert (change["counts"]["inApi"], change["counts"]["desired"]) == (2, 1)
        about = ObjectReference(kind="Pod", name="here", namespace="default")
        event = Event(metadata=ObjectMeta(name="e", namespace="default"), involved_object=about, reason="Started")
        await api.create(EVENTS, event, namespace="default")
        assert [row["reason"] for row in (await next_change(changes))["events"]["rows"]] == ["Started"]
        await api.delete(EVENTS, "e", namespace="default")
        assert (await next_change(changes))["events"]["gone"] == ["default/e"]
        await api.delete(PODS, "elsewhere", namespace="default")
        assert "default/elsewhere" in (await next_change(changes))["pods"]["gone"]


class NotForNodes(MemoryApi):
    """An API that forbids listing events."""

    async def list(self, kind: Any, **options: Any) -> Any:
        if kind.resource.plural == "events":
            raise Forbidden("events is forbidden")
        return await super().list(kind, **options)


async def test_forbidden_lists_are_reported() -> None:
    """The rest is shown; a node reads only its own Node object and no pods from the API."""
    clock = VirtualClock()
    api = NotForNodes(clock)
    for name in ("node-1", "node-2"):
        await api.create(NODES, node(name, uid=name))
    await api.create(PODS, pod("elsewhere"), namespace="default")
    rig = FeedRig(clock, api, node_name="node-1")
    async with running(rig):
        await asyncio.sleep(5)
        everything = told(rig.feed.everything())[1]
    assert [row["key"] for row in everything["nodes"]] == ["node-1"]
    assert everything["pods"] == []
    assert everything["cannot"]["events"].endswith("events is forbidden")
