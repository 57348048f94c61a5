"""When the node status is reported, on virtual time."""

import asyncio
import dataclasses

import pytest
from msgspec.structs import replace

from node_status_rig import NodeWorld
from pykubelet.api.errors import InternalError
from pykubelet.api.generated.core import NodeSpec
from pykubelet.kubelet.nodestatus.conditions import NodePressures, NodeProblems
from pykubelet.runtimes.protocol import Image, RuntimeFailure

STARTING = "Starting"
PRESSURES = ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]


@pytest.fixture
async def world() -> NodeWorld:
    return NodeWorld()


async def test_registration_is_tried_with_growing_pauses(world: NodeWorld) -> None:
    """Delays double from 100 ms up to seven seconds; events are emitted once, after success."""
    world.api.failures = {"create": [InternalError()] * 8}
    async with world.running() as ready:
        await ready.wait()
        assert world.clock.monotonic() == pytest.approx(0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 3.2 + 6.4 + 7)
        assert world.reasons() == [STARTING, *PRESSURES]
        assert world.reporter.node is not None


async def test_change_is_reported_in_the_next_period(world: NodeWorld) -> None:
    """Nothing is sent in between, nor while nothing changes."""
    async with world.running() as ready:
        await ready.wait()
        await asyncio.sleep(1)
        world.calls()
        world.short = NodePressures(memory=True)
        await asyncio.sleep(5)
        assert world.calls() == []
        await asyncio.sleep(5)
        assert world.calls() == ["patch"]
        assert world.condition("MemoryPressure").status == "True"
        assert world.reasons()[-1] == "NodeHasInsufficientMemory"
        await asyncio.sleep(30)
        assert world.calls() == []


async def test_poke_reports_at_once(world: NodeWorld) -> None:
    """A component that knows of a change need not wait for the next period."""
    async with world.running() as ready:
        await ready.wait()
        await asyncio.sleep(1)
        world.wrong = NodeProblems(runtime=("container runtime is down",))
        world.reporter.poke()
        await asyncio.sleep(0.01)
        ready_now = world.condition("Ready")
        assert (ready_now.status, ready_now.message) == ("False", "container runtime is down")
        assert world.reasons()[-1] == "NodeNotReady"


async def test_restarted_node_keeps_its_status_until_the_first_relist(world: NodeWorld) -> None:
    """For ten seconds a missing relist is no reason to report the node as not ready."""
    async with world.running() as ready:
        await ready.wait()
        await asyncio.sleep(1)
    world.first_relist.clear()
    world.wrong = NodeProblems(runtime=("PLEG is not healthy: pleg has yet to be successful",))
    async with world.running() as ready:
        await ready.wait()
        await asyncio.sleep(9.9)
        assert world.condition("Ready").status == "True"
        await asyncio.sleep(0.2)
        assert world.condition("Ready").status == "False"


async def test_node_is_ready_a_moment_after_it_can_be(world: NodeWorld) -> None:
    """During the first two minutes, and without a poke."""
    world.wrong = NodeProblems(runtime=("container runtime status check may not have completed yet",))
    async with world.running() as ready:
        await ready.wait()
        await asyncio.sleep(33.33)
        world.wrong = NodeProblems()
        await asyncio.sleep(0.11)
        assert world.condition("Ready").status == "True"
        assert world.reasons()[-1] == "NodeReady"


async def test_fast_phase_ends_after_two_minutes(world: NodeWorld) -> None:
    """Afterwards a change is reported in the next period."""
    world.wrong = NodeProblems(network=("cni plugin not initialized",))
    async with world.running() as ready:
        await ready.wait()
        await asyncio.sleep(125)
        world.wrong = NodeProblems()
        await asyncio.sleep(0.2)
        assert world.condition("Ready").status == "False"
        await asyncio.sleep(10.3)
        assert world.condition("Ready").status == "True"


async def test_failed_report_emits_no_events_until_it_succeeds(world: NodeWorld) -> None:
    """Events match what the API shows."""
    await world.reporter.register()
    await world.reporter.report()
    world.reasons()
    world.wrong = NodeProblems(storage=("broken",))
    world.api.failures = {"patch": [InternalError()] * 6}
    assert not await world.reporter.report()
    assert world.reasons() == []
    assert await world.reporter.report()
    assert world.reasons() == ["NodeNotReady"]


async def test_first_attempt_uses_the_watched_node(world: NodeWorld) -> None:
    """It sends no request, and emits an event for a cordon that the watch has shown."""
    await world.reporter.register()
    await world.reporter.report()
    world.calls()
    world.reasons()
    world.seen = replace(world.shown(), spec=NodeSpec(unschedulable=True))
    assert await world.reporter.report()
    assert world.calls() == []
    assert world.reasons() == ["NodeNotSchedulable"]
    world.seen = replace(world.shown(), spec=NodeSpec())
    assert await world.reporter.report()
    assert world.reasons() == ["NodeSchedulable"]


async def test_reboot_emits_one_event(world: NodeWorld) -> None:
    """Even if the watch still shows the old boot id."""
    await world.reporter.register()
    old = world.shown()
    world.facts = dataclasses.replace(world.facts, boot_id="second")
    world.reasons()
    for _ in range(2):
        world.seen = replace(old, metadata=replace(old.metadata, resource_version="999999"))
        await world.reporter.report()
    assert world.reasons() == ["Rebooted"]


async def test_images_are_left_out_when_the_runtime_cannot_list_them(world: NodeWorld) -> None:
    """The node is still reported."""
    world.pulled = [Image(id="i", names=("a:1",), size_bytes=5)]
    await world.reporter.register()
    assert [image.size_bytes for image in world.shown().status.images] == [5]

    class Broken(NodeWorld):
        async def images(self) -> list[Image]:
            raise RuntimeFailure("no")

    broken = Broken()
    await broken.reporter.register()
    assert broken.shown().status.images == ()


async def test_volumes_in_use_are_shown_once_known(world: NodeWorld) -> None:
    """Unknown volumes leave the reported ones unchanged."""
    await world.reporter.register()
    world.in_use = ("kubernetes.io/csi/a",)
    await world.reporter.report()
    world.in_use = None
    await world.reporter.report()
    assert world.shown().status.volumes_in_use == ("kubernetes.io/csi/a",)


async def test_lease_is_renewed_every_ten_seconds(world: NodeWorld) -> None:
    """Each renewal is one patch against the last response."""
    await world.reporter.register()
    async with asyncio.TaskGroup() as group:
        ready = asyncio.Event()
        task = group.create_task(world.lease.run(ready))
        await ready.wait()
        assert world.calls("leases") == ["get", "create"]
        await asyncio.sleep(35)
        assert world.calls("leases") == ["patch"] * 3
        task.cancel()
