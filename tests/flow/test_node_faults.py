"""The life of a pod on a whole node, with one fault between the node and its API server at each call in turn."""

from pathlib import Path

import pytest

from pykubelet.testing.faults import Fault, FaultyClient
from whole_node import is_ready, status_of, world

PLACES = range(50)
"""Every call, or event, of a node that starts, runs a pod and ends it."""


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
async def test_pod_lives_its_life_despite_a_fault(tmp_path: Path, fault: Fault) -> None:
    """The pod becomes ready, runs once, and is gone after its deletion, whichever call the fault meets."""
    injected = 0
    async with world(tmp_path) as outside:
        for place in PLACES:
            name = f"web-{place}"
            client = FaultyClient(outside.api, fault, at=place)
            async with outside.starting_node(client=client, root_dir=tmp_path / name):
                await outside.create(name)
                ready = await outside.until(name, is_ready, within_seconds=60)
                assert status_of(ready).restart_count == 0
                assert len((await outside.observed(ready)).containers) == 1
                await outside.delete(name)
                await outside.until_gone(name, within_seconds=60)
                assert all(not one.is_ready for pod in await outside.sim.pods() for one in pod.sandboxes)
            injected += client.injected
    assert injected
