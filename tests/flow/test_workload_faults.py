"""StatefulSets and DaemonSets with one fault at each call or watch event to the API server in turn."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pykubelet.api import schema
from pykubelet.testing.faults import WATCH_FAULTS, Fault, FaultyClient
from workload_rig import Cluster, cluster

# Each test runs some forty lives.
pytestmark = pytest.mark.timeout(120)

# To a controller all calls that failed unexecuted are alike; which errors a watch survives is tested elsewhere.
FAULTS = (Fault.DELAY, Fault.ANSWER_LOST, Fault.CONFLICT, Fault.FAILED, *WATCH_FAULTS)
STORAGE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


async def _life_of_a_stateful_set(world: Cluster) -> None:
    """Create, update and scale down a set whose claims are deleted on scale-down."""
    await world.create_set(
        replicas=2,
        volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": STORAGE}],
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Delete"},
    )
    await world.until_rolled_out()
    await world.set_image(schema.STATEFUL_SETS, "two")
    await world.until_rolled_out()
    await world.patch(schema.STATEFUL_SETS, {"replicas": 1})
    await world.until_rolled_out()
    await asyncio.sleep(10)
    created = [name for name in world.happened if name.startswith("+")]
    assert created == ["+web-0", "+web-1", "+web-1", "+web-0"]
    assert await world.images() == {"web-0": "two"}
    assert [one.revision for one in await world.revisions()] == [1, 2]
    owners = {name: len(claim.metadata.owner_references) for name, claim in (await world.claims()).items()}
    assert owners == {"data-web-0": 0, "data-web-1": 1}


async def _life_of_a_daemon_set(world: Cluster) -> None:
    """Create and update a DaemonSet on two nodes."""

    async def until_all_are(image: str) -> None:
        async def is_so() -> bool:
            status, images = (await world.daemon_set()).status, await world.images()
            return images == {"n1": image, "n2": image} and status.updated_number_scheduled == status.number_ready == 2

        await world.until(is_so)

    await world.create_nodes("n1", "n2")
    await world.create_daemon()
    await until_all_are("one")
    await world.set_image(schema.DAEMON_SETS, "two")
    await until_all_are("two")
    await asyncio.sleep(10)
    assert len(await world.pods()) == 2
    assert len([name for name in world.happened if name.startswith("+")]) == 4
    assert [one.revision for one in await world.revisions()] == [1, 2]
    status = (await world.daemon_set()).status
    assert (status.updated_number_scheduled, status.number_available, status.number_unavailable) == (2, 2, 0)


@pytest.mark.parametrize("life", [_life_of_a_stateful_set, _life_of_a_daemon_set])
@pytest.mark.parametrize("fault", FAULTS)
async def test_set_gets_there_whatever_fails(
    tmp_path: Path, fault: Fault, life: Callable[[Cluster], Awaitable[None]]
) -> None:
    """The pods are the same, each is created once, the revisions are the same, and nothing is left over."""
    at = 0
    while True:
        folder = tmp_path / str(at)
        folder.mkdir()
        async with cluster(folder) as world:
            client = FaultyClient(world.client, fault, at=at)
            async with world.controllers(client):
                await life(world)
        if not client.injected:
            break
        at += 1
    assert at > 10
