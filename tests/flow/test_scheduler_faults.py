"""The scheduler and the node controllers succeed whichever single request fails."""

import asyncio
from pathlib import Path

import pytest

from node_fleet import Fleet, fleet
from pykubelet.api.pods import condition_of
from pykubelet.testing.faults import CALL_FAULTS, WATCH_FAULTS, Fault, FaultyClient
from pykubelet.testing.local_api import LocalApi, local_api


async def _play(api: LocalApi, through: FaultyClient) -> dict[str, str]:
    """Two small nodes and three pods, of which one fits only after another is deleted; then one node falls silent."""
    async with fleet(api.client, through=through) as cluster:
        await cluster.add_node("n1", cpu="1")
        await cluster.add_node("n2", cpu="1")
        for name in ("a", "b", "c"):
            await cluster.add_pod(name, cpu="800m")
            await asyncio.sleep(15)
        waiting = [name for name, node in (await cluster.places()).items() if not node]
        assert len(waiting) == 1
        gone = next(name for name in ("a", "b", "c") if name not in waiting)
        await cluster.force_delete(gone)
        await asyncio.sleep(30)
        places = await cluster.places()
        for name in places:
            scheduled = condition_of(await cluster.pod(name), "PodScheduled")
            assert scheduled is not None
            assert scheduled.status == "True"
        cluster.beating.discard("n1")
        await asyncio.sleep(460)
        await _expect_evicted(cluster, [name for name, node in places.items() if node == "n1"])
        return places


async def _expect_evicted(cluster: Fleet, names: list[str]) -> None:
    assert await cluster.taints("n1") == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    assert await cluster.taints("n2") == set()
    for name in names:
        assert (await cluster.pod(name)).metadata.deletion_timestamp is not None


@pytest.mark.parametrize("fault", [*CALL_FAULTS, *WATCH_FAULTS], ids=lambda fault: fault.name.lower())
async def test_pods_are_placed_and_evicted_with_one_fault_anywhere(tmp_path: Path, fault: Fault) -> None:
    """The fault hits every second call, or every seventh watch event; in the end each node has one pod."""
    # Most watch events are of leases, which are all alike.
    at, step = 0, 7 if fault in WATCH_FAULTS else 2
    while True:
        folder = tmp_path / str(at)
        folder.mkdir()
        async with local_api(folder) as api:
            through = FaultyClient(api.client, fault, at=at)
            places = await _play(api, through)
        assert sorted(places.values()) == ["n1", "n2"]
        if not through.injected:
            break
        at += step
    assert at > 0
