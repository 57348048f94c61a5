"""The PLEG with an event feed: events lead to inspections, inspections to changes, and a relist finds the rest."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.pleg.pleg import PodLifecycleEventGenerator, RelistPolicy
from pykubelet.runtimes.protocol import ChangeFeed, RuntimeFailure, RuntimePod
from pykubelet.runtimes.sim.runtime import SimRuntime
from pykubelet.testing.virtual_time import VirtualClock
from runtime_pods import World

SLOW = RelistPolicy(relist_with_feed_seconds=1000)


class Counting(SimRuntime):
    """Counts the calls to the runtime; hangs when inspecting one pod."""

    listed = inspected = 0
    hangs_on: PodUid | None = None

    async def pods(self) -> list[RuntimePod]:
        self.listed += 1
        return list(await super().pods())

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        self.inspected += 1
        if uid == self.hangs_on:
            await asyncio.sleep(10**6)
        return await super().inspect(uid)


class Deaf:
    """A feed that emits nothing and ends after 100 s."""

    def __init__(self) -> None:
        self.calls = 0

    async def changes(self) -> AsyncIterator[PodUid]:
        self.calls += 1
        await asyncio.sleep(100)
        if self.calls == 1:
            return
        yield PodUid("none")


@pytest.fixture
def runtime() -> Counting:
    return Counting(clock=VirtualClock())


@pytest.fixture
def world(runtime: Counting, tmp_path: Path) -> World:
    return World(runtime, "example/image:1", tmp_path)


@asynccontextmanager
async def watching(
    runtime: Counting, feed: ChangeFeed, policy: RelistPolicy = SLOW
) -> AsyncIterator[PodLifecycleEventGenerator]:
    dog = PodLifecycleEventGenerator(runtime=runtime, clock=VirtualClock(), feed=feed, policy=policy)
    async with asyncio.TaskGroup() as group:
        ready = asyncio.Event()
        task = group.create_task(dog.run(ready))
        await ready.wait()
        yield dog
        task.cancel()


async def started(world: World, name: str = "web") -> PodUid:
    wanted = world.pod(name)
    sandbox = await world.sandbox(wanted)
    await world.runtime.start(await world.runtime.create_container(world.request(wanted, sandbox)))
    return PodUid(wanted.metadata.uid)


async def test_change_is_reported_at_once_when_the_feed_reports_the_pod(runtime: Counting, world: World) -> None:
    async with watching(runtime, runtime) as dog:
        uid = await started(world)
        assert (await dog.next_changes()).uid == uid
        before = asyncio.get_running_loop().time()
        runtime.crash(uid, "main", exit_code=7)
        found = await dog.next_changes()
        assert [str(change.kind) for change in found.changes] == ["ContainerDied"]
        assert dog.cache.get(uid).containers[0].exit_code == 7
        assert asyncio.get_running_loop().time() == before
    assert runtime.listed == 1


async def test_pod_has_no_containers_only_after_a_relist(runtime: Counting, world: World) -> None:
    """Before the first relist any pod may have containers; afterwards only those listed or seen since."""
    listed = await started(world, "listed")
    stranger = PodUid("stranger")
    dog = PodLifecycleEventGenerator(runtime=runtime, clock=VirtualClock(), feed=runtime)
    assert not dog.has_no_containers_of(stranger)
    async with watching(runtime, runtime) as dog:
        assert (dog.has_no_containers_of(stranger), dog.has_no_containers_of(listed)) == (True, False)
        seen = await started(world, "seen")
        await asyncio.sleep(1)
        assert not dog.has_no_containers_of(seen)


async def test_quiet_node_makes_no_runtime_calls(runtime: Counting, world: World) -> None:
    """With an event feed, thirty idle pods cost nothing."""
    async with watching(runtime, runtime):
        for number in range(30):
            await started(world, f"web-{number}")
        await asyncio.sleep(1)
        asked = runtime.inspected
        await asyncio.sleep(900)
        assert runtime.inspected == asked
        assert runtime.listed == 1


async def test_relist_finds_changes_missed_by_a_feed_that_ended(runtime: Counting, world: World) -> None:
    async with watching(runtime, Deaf()) as dog:
        uid = await started(world)
        async with asyncio.timeout(101):
            assert (await dog.next_changes()).uid == uid
    assert runtime.listed == 2


async def test_newer_than_inspects_at_once_without_an_event(runtime: Counting, world: World) -> None:
    async with watching(runtime, Deaf()) as dog:
        moment = dog.cache.moment()
        uid = await started(world)
        assert len((await dog.newer_than(uid, moment)).containers) == 1
        asked = runtime.inspected
        await dog.newer_than(uid, moment)
        assert runtime.inspected == asked
        await dog.newer_than(uid, dog.cache.moment())
        assert runtime.inspected == asked + 1
        gone = await dog.newer_than(PodUid("stranger"), dog.cache.moment())
        assert gone.containers == ()


async def test_pod_that_hangs_degrades_alone(runtime: Counting, world: World) -> None:
    policy = RelistPolicy(relist_with_feed_seconds=1000, inspect_timeout_seconds=30)
    async with watching(runtime, runtime, policy) as dog:
        runtime.hangs_on = await started(world, "stuck")
        other = await started(world, "fine")
        assert (await dog.next_changes()).uid == other
        with pytest.raises(RuntimeFailure, match="does not answer"):
            await dog.newer_than(runtime.hangs_on, dog.cache.moment())
        assert dog.health_error() is None
