"""A rollout with one fault at each call or watch event between the controllers and the API server."""

import asyncio
from itertools import count
from pathlib import Path

import pytest

from controller_rig import NAMESPACE
from deployment_rig import Cluster, cluster, is_rolled_out
from pykubelet.api.scheme import DEPLOYMENTS
from pykubelet.client.indexer import controller_of
from pykubelet.testing.faults import Fault, FaultyClient

PLACES = 40
"""There are at least so many calls, and events, in a rollout."""


async def roll_out(world: Cluster, name: str) -> None:
    """Creates a Deployment and rolls out a second revision."""
    await world.create(name, replicas=2)
    await world.until(is_rolled_out, name=name)
    world.seen.clear()
    await world.set_image("two", name)
    await world.until(is_rolled_out, name=name)
    assert {image: one.spec.replicas for image, one in (await world.sets()).items()} == {"one": 0, "two": 2}


async def delete(world: Cluster, name: str) -> None:
    """Deletes the Deployment and collects its dependents."""
    await world.client.delete(DEPLOYMENTS, name, namespace=NAMESPACE)
    async with asyncio.timeout(60):
        while await world.sets() or await world.pods():
            await world.collect_garbage()
            await asyncio.sleep(2)


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
async def test_rollout_gets_there_despite_a_fault(tmp_path: Path, fault: Fault) -> None:
    """The limits hold, no pod is created twice, and nothing is left over, wherever the fault hits."""
    async with cluster(tmp_path) as world:
        for place in count():
            client, name = FaultyClient(world.client, fault, at=place), f"web-{place}"
            world.created.clear()
            async with world.controllers(client):
                await roll_out(world, name)
                assert all(controller_of(pod) is not None for pod in await world.pods())
                assert len(world.created) == 4
                assert max(moment.active for moment in world.seen) == 3
                assert min(moment.available for moment in world.seen) == 2
                await delete(world, name)
            if not client.injected:
                break
    assert place >= PLACES
