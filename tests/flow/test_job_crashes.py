"""The Job controller stops or fails at any of its calls; each pod is counted once, and none is created twice."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client_faults import CrashingClient
from job_rig import BatchWorld, Run, batch_world
from pykubelet.api.generated.core import Pod
from pykubelet.client.interface import Client
from pykubelet.controllers.job.status import completion_index, has_tracking_finalizer, is_finished
from pykubelet.testing.faults import CALL_FAULTS, WATCH_FAULTS, Fault, FaultyClient

SPECS: dict[str, dict[str, Any]] = {
    "plain": {"parallelism": 2, "completions": 3},
    "indexed": {"parallelism": 2, "completions": 3, "completionMode": "Indexed"},
    "index-limit": {"parallelism": 2, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1},
}


class FirstFails:
    """The first pod that starts fails, all others succeed."""

    def __init__(self) -> None:
        self._has_failed = False

    def __call__(self, _: Pod) -> Run:
        code, self._has_failed = int(not self._has_failed), True
        return Run(code=code)


async def finish(world: BatchWorld, way: Client) -> None:
    """Run the controllers until the job has finished or its controller has stopped."""
    crashed = way.crashed if isinstance(way, CrashingClient) else asyncio.Event()
    async with world.controllers(way):
        await world.until(lambda job: is_finished(job) or crashed.is_set(), within_seconds=600)


async def assert_counted_once(world: BatchWorld) -> None:
    """The counters match the ends of the pods, and no extra pods were created."""
    job, ends = await world.job(), Counter(world.runner.ends.values())
    assert is_finished(job)
    assert (job.status.succeeded, job.status.failed) == (ends["Succeeded"], ends["Failed"]) == (3, 1)
    assert (job.status.active, len(world.runner.seen)) == (0, 4)
    noted = job.status.uncounted_terminated_pods
    assert noted is None or not (noted.succeeded or noted.failed)
    assert not any(has_tracking_finalizer(pod) for pod in await world.pods())
    if job.spec.completion_mode == "Indexed":
        assert job.status.completed_indexes == "0-2"
        tries = Counter(completion_index(pod) for pod in world.runner.seen.values())
        assert sorted(tries.values()) == [1, 1, 2]


async def everywhere(
    folder: Path, spec: dict[str, Any], way: Callable[[Client, int], Any], hit: Callable[[Any], bool]
) -> int:
    """Runs the job repeatedly, with the fault at the next call each time; returns the number of calls."""
    at = 0
    while True:
        (folder / str(at)).mkdir()
        async with batch_world(folder / str(at), FirstFails()) as world:
            await world.create_job(**spec)
            client = way(world.client, at)
            await finish(world, client)
            await finish(world, world.client)
            await assert_counted_once(world)
        if not hit(client):
            return at
        at += 1


@pytest.mark.parametrize("is_carried_out", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
async def test_pods_are_counted_once_whenever_the_controller_stops(
    tmp_path: Path, spec: dict[str, Any], *, is_carried_out: bool
) -> None:
    """It stops at each of its calls, before or after the server has executed it; another controller continues."""
    places = await everywhere(
        tmp_path,
        spec,
        lambda client, at: CrashingClient(client, at=at, is_carried_out=is_carried_out),
        lambda client: client.crashed.is_set(),
    )
    assert places > 10


@pytest.mark.parametrize("fault", [*CALL_FAULTS, *WATCH_FAULTS])
async def test_pods_are_counted_once_whatever_fails(tmp_path: Path, fault: Fault) -> None:
    """Injects one fault at each call or watch event in turn."""
    places = await everywhere(
        tmp_path,
        SPECS["indexed"],
        lambda client, at: FaultyClient(client, fault, at=at),
        lambda client: client.injected,
    )
    assert places > 10
