"""The simulated runtime follows its scripts, including their timing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.pods import PodUid
from pykubelet.httpserver.http_client import HttpGetRequest
from pykubelet.httpserver.http_failure import HttpFailure
from pykubelet.runtimes.protocol import RegistryCredentials, RuntimeFailure
from pykubelet.runtimes.sim.runtime import (
    ANNOTATION,
    Behaviour,
    Call,
    ContainerRun,
    ImageBehaviour,
    SimHttpClient,
    SimImages,
    SimRuntime,
)
from pykubelet.testing.build import pod
from pykubelet.testing.virtual_time import VirtualClock
from runtime_pods import World
from runtime_rig import Rig


def rig(tmp_path: Path, **script: Any) -> Rig:
    return Rig(tmp_path, sim=SimRuntime(clock=VirtualClock(), default=Behaviour(**script)))


async def test_start_takes_its_time(tmp_path: Path) -> None:
    """The node waits as it would with a real runtime."""
    async with rig(tmp_path, start_seconds=3.0).running() as node:
        web = pod()
        await node.sync(web)
        started = (await node.observed(web)).containers[0]
        assert started.started_at is not None
        assert (started.started_at - started.created_at).total_seconds() == 3


async def test_container_is_not_removed_while_it_starts(tmp_path: Path) -> None:
    """As with containerd; once nothing starts it any more, it can be removed."""
    sim = SimRuntime(clock=VirtualClock(), default=Behaviour(start_seconds=3.0))
    world = World(sim, "image", tmp_path)
    web = pod()
    sandbox_id = await world.sandbox(web)
    container_id = await sim.create_container(world.request(web, sandbox_id))
    starting = asyncio.create_task(sim.start(container_id))
    await asyncio.sleep(1)
    for one in (container_id, sandbox_id):
        with pytest.raises(RuntimeFailure, match="still starts"):
            await sim.remove(one)
    starting.cancel()
    await asyncio.sleep(0)
    await sim.remove(container_id)
    assert (await world.inspect(web)).containers == ()


async def test_runs_follow_their_script_attempt_by_attempt(tmp_path: Path) -> None:
    """The container runs well at its third attempt."""
    runs = (
        ContainerRun(seconds=2, exit_code=7, reason="OOMKilled"),
        ContainerRun(seconds=1, exit_code=1),
        ContainerRun(),
    )
    async with rig(tmp_path, runs=runs).running() as node:
        web = pod(restart_policy="Always")
        for _ in range(10):
            await node.sync(web)
            await asyncio.sleep(5)
        containers = (await node.observed(web)).containers
        assert [(one.exit_code, one.reason, str(one.state)) for one in containers] == [
            (0, "", "running"),
            (1, "Error", "exited"),
            (7, "OOMKilled", "exited"),
        ]
        first = containers[-1]
        assert first.started_at is not None
        assert first.finished_at is not None
        assert (first.finished_at - first.started_at).total_seconds() == 2


async def test_annotation_goes_before_scripts(tmp_path: Path) -> None:
    """A pod can script its own behaviour; an invalid script is an error."""
    async with rig(tmp_path).running() as node:
        crash = pod(annotations={f"{ANNOTATION}main": '{"runs": [{"seconds": 1, "exitCode": 9}]}'})
        await node.sync(crash)
        await asyncio.sleep(1)
        assert (await node.observed(crash)).containers[0].exit_code == 9
        wrong = pod("wrong", annotations={f"{ANNOTATION}main": '{"speed": 1}'})
        failed = (await node.sync(wrong))[-1]
        assert failed.reason == "CreateContainerError"
        assert "Object contains unknown field `speed`" in failed.message


async def test_health_is_what_probes_find(tmp_path: Path) -> None:
    """For commands and HTTP requests; it may change while the container runs."""
    async with rig(tmp_path).running() as node:
        web = pod()
        await node.sync(web)
        observed = await node.observed(web)
        request = HttpGetRequest(scheme="http", host=observed.sandboxes[0].ips[0], port=80, path="/", headers=())
        http, container_id = SimHttpClient(node.sim), observed.containers[0].id
        seen = []
        for is_healthy in (True, False):
            node.sim.behave(PodUid(web.metadata.uid), "main", Behaviour(is_healthy=is_healthy))
            ran = await node.sim.run(container_id, ("check",), timeout_seconds=1, limit_bytes=7)
            seen.append((await http.get(request), ran.exit_code, ran.output))
        assert seen == [(200, 0, b""), (503, 1, b"check: ")]
        node.sim.crash(PodUid(web.metadata.uid), "main")
        with pytest.raises(HttpFailure):
            await http.get(request)


CALLS: tuple[Call, ...] = ("create", "start", "stop", "run")


@pytest.mark.parametrize("call", CALLS)
async def test_stuck_container_never_answers(tmp_path: Path, call: Call) -> None:
    """Only the caller of the stuck operation is blocked."""
    sim = SimRuntime(clock=VirtualClock(), scripts={"main": Behaviour(hangs_on=(call,))})
    world = World(sim, "image", tmp_path)

    async def whole_life() -> None:
        sandbox_id, container_id = await world.started(pod())
        await sim.run(container_id, (), timeout_seconds=10, limit_bytes=1)
        await sim.stop(sandbox_id, 0)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await whole_life()
    assert asyncio.get_running_loop().time() == (10 if call == "run" else 100)


async def test_images_behave_as_scripted() -> None:
    """Present, slow, broken and private images; removed ones are gone."""
    images = SimImages(
        {
            "here": ImageBehaviour(is_present=True, size_bytes=5),
            "slow": ImageBehaviour(pull_seconds=9),
            "broken": ImageBehaviour(pull_error="manifest unknown"),
            "private": ImageBehaviour(needs_user="me"),
        }
    )
    here = await images.find("here")
    assert here is not None
    assert here.size_bytes == 5
    assert await images.find("slow") is None
    slow = await images.pull("slow", ())
    assert asyncio.get_running_loop().time() == 9
    for name in ("broken", "private"):
        with pytest.raises(RuntimeFailure):
            await images.pull(name, [RegistryCredentials("you", "secret")])
    await images.pull("private", [RegistryCredentials("me", "secret")])
    await images.remove_image(slow.id)
    assert [image.names[0] for image in await images.images()] == ["here", "private"]


async def test_runtime_outlives_the_node(tmp_path: Path) -> None:
    """A second node finds the containers of the first and has nothing to do."""
    sim = SimRuntime(clock=VirtualClock())
    web = pod()
    async with Rig(tmp_path, sim=sim).running() as first:
        await first.sync(web)
    async with Rig(tmp_path, sim=sim).running() as second:
        assert await second.sync(web) == ()
        assert await second.states(web) == {"main": "running"}


async def test_thousands_of_pods_cost_little(tmp_path: Path) -> None:
    """Each change of 2000 pods is emitted once, and unchanged pods are not rebuilt."""
    sim = SimRuntime(clock=VirtualClock())
    world = World(sim, "image", tmp_path)
    changes = sim.changes()
    for number in range(2000):
        await world.started(world.pod(f"web-{number}"))
    told = {await anext(changes) for _ in range(2000)}
    assert len(told) == 2000
    before = await sim.pods()
    sim.crash(PodUid("uid-default-web-7"), "main")
    after = await sim.pods()
    assert sum(one is not other for one, other in zip(before, after, strict=True)) == 1
    assert await anext(changes) == "uid-default-web-7"
