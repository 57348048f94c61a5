"""A hung operation of one pod delays no other pod, and the hung pod can be deleted and explained."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.pods import PodUid
from pykubelet.runtimes.sim.runtime import Behaviour, ImageBehaviour
from whole_node import World, container, is_ready, world

NEVER = 1e6
PROBE = {"exec": {"command": ["check"]}, "periodSeconds": 1}
HOOK = {"exec": {"command": ["hook"]}}
HUNG: dict[str, dict[str, Any]] = {
    "pull": container("hung", image="example/hung:1"),
    "create": container("create"),
    "start": container("start"),
    "probe": container("probe", readinessProbe={**PROBE, "timeoutSeconds": 3600}),
    "post-start hook": container("probe", lifecycle={"postStart": HOOK}),
    "pre-stop hook": container("probe", lifecycle={"preStop": HOOK}),
    "stop": container("stop"),
}
SCRIPTS = {
    "create": Behaviour(hangs_on=("create",)),
    "start": Behaviour(hangs_on=("start",)),
    "probe": Behaviour(hangs_on=("run",)),
    "stop": Behaviour(hangs_on=("stop",)),
}
IMAGES = {"example/hung:1": ImageBehaviour(pull_seconds=NEVER)}


async def ready_within(outside: World, name: str, seconds: float) -> None:
    """A plain pod becomes ready within these seconds."""
    await outside.create(name)
    assert is_ready(await outside.until(name, is_ready, within_seconds=seconds))


@pytest.mark.parametrize("hung", HUNG.values(), ids=HUNG)
async def test_hung_pod_delays_no_other(tmp_path: Path, hung: dict[str, Any]) -> None:
    """Twenty pods hang while starting, then while being deleted; another pod becomes ready in half a second."""
    async with world(tmp_path, scripts=SCRIPTS, images=IMAGES) as outside, outside.running_node():
        for number in range(20):
            await outside.create(f"hung-{number}", containers=[hung], terminationGracePeriodSeconds=3600)
        await asyncio.sleep(5)
        await ready_within(outside, "first", 0.5)
        for number in range(20):
            await outside.delete(f"hung-{number}")
        await asyncio.sleep(5)
        await ready_within(outside, "second", 0.5)
        await outside.delete("second")
        await outside.until_gone("second", within_seconds=1)


@pytest.mark.parametrize("name", ["pull", "create", "start", "post-start hook"])
async def test_pod_that_hangs_while_it_starts_can_be_deleted(tmp_path: Path, name: str) -> None:
    """Deletion interrupts the pending operation: the pod is gone within its grace period plus a few seconds."""
    async with world(tmp_path, scripts=SCRIPTS, images=IMAGES) as outside, outside.running_node():
        await outside.create("web", containers=[HUNG[name]], terminationGracePeriodSeconds=2)
        await asyncio.sleep(5)
        await outside.delete("web")
        await outside.until_gone("web", within_seconds=5)
        assert [pod.name for pod in await outside.sim.pods() if any(one.is_ready for one in pod.sandboxes)] == []


async def test_trail_names_the_step_that_a_hung_pod_waits_for(tmp_path: Path) -> None:
    async with world(tmp_path, scripts=SCRIPTS, images=IMAGES) as outside, outside.running_node() as node:
        pod = await outside.create("web", containers=[HUNG["pull"]])
        await asyncio.sleep(5)
        waiting = node.dependencies.trail.waiting(PodUid(pod.metadata.uid))
        assert [one.what for one in waiting] == ["containers being started"]
