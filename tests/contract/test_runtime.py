"""The contract of every runtime, whatever runs the containers."""

import asyncio
from pathlib import Path

import pytest

from pykubelet.api.pods import PodUid
from pykubelet.runtimes.protocol import ContainerState, Runtime, RuntimeFailure
from runtime_pods import EXITS_WITH_3, IGNORES_TERM, World


@pytest.fixture
def world(runtime: Runtime, image: str, tmp_path: Path) -> World:
    return World(runtime, image, tmp_path)


async def test_unknown_pod_is_neither_inspected_nor_listed(world: World) -> None:
    """The runtime returns None for a pod that was never created."""
    assert await world.runtime.inspect(PodUid("nobody")) is None
    assert "nobody" not in {pod.uid for pod in await world.runtime.pods()}


@pytest.mark.parametrize("host_network", [False, True], ids=["own network", "host network"])
async def test_sandbox_is_ready_and_has_an_address(world: World, host_network: bool) -> None:
    """The pod has the names it was created with; a sandbox has an IP unless it is on the host network."""
    pod = world.pod(host_network=host_network)
    sandbox_id = await world.sandbox(pod, attempt=2)
    found = await world.inspect(pod)
    assert (found.uid, found.namespace, found.name) == (pod.metadata.uid, "default", "web")
    assert [(one.id, one.attempt, one.is_ready) for one in found.sandboxes] == [(sandbox_id, 2, True)]
    assert found.sandboxes[0].host_network is host_network
    assert bool(found.sandboxes[0].ips) is not host_network
    assert pod.metadata.uid in {one.uid for one in await world.runtime.pods()}


async def test_container_is_made_before_it_is_started(world: World) -> None:
    """Create and start are two steps, and the runtime keeps the name, attempt and hash of the container."""
    pod = world.pod()
    sandbox_id = await world.sandbox(pod)
    container_id = await world.runtime.create_container(world.request(pod, sandbox_id, attempt=4))
    made = await world.container(pod)
    assert (made.id, made.name, made.sandbox_id) == (container_id, "main", sandbox_id)
    assert (made.state, made.attempt, made.hash) == (ContainerState.CREATED, 4, "abc")
    await world.runtime.start(container_id)
    runs = await world.container(pod)
    assert runs.state == ContainerState.RUNNING
    assert runs.started_at is not None
    assert runs.started_at >= runs.created_at
    await world.runtime.stop(container_id, 0)


async def test_container_that_ends_leaves_its_exit_code(world: World) -> None:
    """The runtime reports how and when the container ended."""
    pod = world.pod(command=EXITS_WITH_3)
    await world.started(pod)
    ended = await world.until_exited(pod)
    assert ended.exit_code == 3
    assert ended.started_at is not None
    assert ended.finished_at is not None
    assert ended.finished_at >= ended.started_at


async def test_stop_returns_when_the_container_has_stopped(world: World) -> None:
    """Stopping a container that ends on SIGTERM does not use up the grace period."""
    pod = world.pod()
    _, container_id = await world.started(pod)
    async with asyncio.timeout(5):
        await world.runtime.stop(container_id, 30)
    stopped = await world.container(pod)
    assert stopped.state == ContainerState.EXITED
    assert stopped.finished_at is not None


async def test_stop_kills_a_container_that_ignores_term(world: World) -> None:
    """It is killed when its grace period is over."""
    pod = world.pod(command=IGNORES_TERM)
    _, container_id = await world.started(pod)
    await asyncio.sleep(0.2)  # a real shell needs its time to set the trap
    loop = asyncio.get_running_loop()
    before = loop.time()
    await world.runtime.stop(container_id, 0.5)
    assert loop.time() - before == pytest.approx(0.5, abs=0.4)
    assert (await world.container(pod)).exit_code == 137


async def test_stop_can_be_cancelled_and_repeated_with_a_shorter_grace(world: World) -> None:
    """The grace period of the second stop applies."""
    pod = world.pod(command=IGNORES_TERM)
    _, container_id = await world.started(pod)
    await asyncio.sleep(0.2)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await world.runtime.stop(container_id, 600)
    async with asyncio.timeout(5):
        await world.runtime.stop(container_id, 0)
    assert (await world.container(pod)).state == ContainerState.EXITED


async def test_stopped_sandbox_is_not_ready_and_nothing_runs_in_it(world: World) -> None:
    """Stopping a sandbox ends its containers, and stopping it again succeeds."""
    pod = world.pod(command=IGNORES_TERM)
    sandbox_id, _ = await world.started(pod)
    await world.runtime.stop(sandbox_id, 0)
    found = await world.inspect(pod)
    assert [sandbox.is_ready for sandbox in found.sandboxes] == [False]
    assert [container.state for container in found.containers] == [ContainerState.EXITED]
    await world.runtime.stop(sandbox_id, 0)


async def test_stop_and_remove_of_an_unknown_id_succeed(world: World) -> None:
    """There is no error, since the requested state is reached already."""
    for container_id in ("a" * 64, "b" * 64):
        await world.runtime.stop(container_id, 1)
        await world.runtime.remove(container_id)
    assert await world.runtime.inspect(PodUid("a" * 64)) is None


async def test_removed_things_are_forgotten(world: World) -> None:
    """Once its container and its sandbox are removed the pod is unknown; removing the sandbox again succeeds."""
    pod = world.pod()
    sandbox_id, container_id = await world.started(pod)
    await world.runtime.stop(sandbox_id, 0)
    await world.runtime.remove(container_id)
    assert (await world.inspect(pod)).containers == ()
    await world.runtime.remove(sandbox_id)
    assert await world.runtime.inspect(PodUid(pod.metadata.uid)) is None
    await world.runtime.remove(sandbox_id)


async def test_newest_comes_first(world: World) -> None:
    """Of several attempts at one container, and of several sandboxes, the newest is listed first."""
    pod = world.pod(command=EXITS_WITH_3)
    old_sandbox, old = await world.started(pod)
    await world.until_exited(pod)
    await world.runtime.stop(old_sandbox, 0)
    sandbox_id = await world.sandbox(pod, attempt=1)
    new = await world.runtime.create_container(world.request(pod, sandbox_id, attempt=1))
    found = await world.inspect(pod)
    assert [container.id for container in found.containers] == [new, old]
    assert [sandbox.id for sandbox in found.sandboxes] == [sandbox_id, old_sandbox]


async def test_unknown_container_or_sandbox_raises_runtime_failure(world: World) -> None:
    """Starting an unknown container fails, and so does creating a container in an unknown sandbox."""
    with pytest.raises(RuntimeFailure):
        await world.runtime.start("a" * 64)
    with pytest.raises(RuntimeFailure):
        await world.runtime.create_container(world.request(world.pod(), "b" * 64))


async def test_many_pods_at_once_do_not_disturb_each_other(world: World) -> None:
    """Ten pods started together run, and stopping one of them leaves the others running."""
    pods = [world.pod(f"web-{number}") for number in range(10)]
    async with asyncio.TaskGroup() as group:
        made = [group.create_task(world.started(pod)) for pod in pods]
    first = made[0].result()[1]
    await world.runtime.stop(first, 5)
    states = [(await world.container(pod)).state for pod in pods]
    assert states == [ContainerState.EXITED] + [ContainerState.RUNNING] * 9
    async with asyncio.TaskGroup() as group:
        for one in made:
            group.create_task(world.runtime.stop(one.result()[0], 0))
