"""Cases 6.24-26 to -30: the pod lifecycle events for changes between two inspections of the runtime.

Departure: changes that have not been taken yet are kept per pod instead of being dropped when a channel is full, and
a failed inspection is repeated after a second instead of with the next relist.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.pleg.pleg import PodLifecycleChanges, PodLifecycleEventGenerator, RelistPolicy, compute_events
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimeFailure, RuntimePod, Sandbox
from pykubelet.runtimes.sim.runtime import SimRuntime
from pykubelet.testing.virtual_time import EPOCH, VirtualClock
from runtime_pods import World

UID = PodUid("uid")
STATES = {
    "r": ContainerState.RUNNING,
    "e": ContainerState.EXITED,
    "u": ContainerState.UNKNOWN,
    "c": ContainerState.CREATED,
}


def _pod(text: str) -> RuntimePod | None:
    """A pod with containers written `c1=r c2=e`: running, exited, unknown or created; None for an empty text."""
    pairs = [one.split("=") for one in text.split()]
    containers = tuple(
        RuntimeContainer(id=name, name=name, state=STATES[state], created_at=EPOCH) for name, state in pairs
    )
    return RuntimePod(uid=UID, namespace="ns", name="pod", containers=containers) if text else None


def _sandboxes(text: str) -> RuntimePod:
    pairs = [one.split("=") for one in text.split()]
    sandboxes = tuple(Sandbox(id=name, is_ready=state == "r", created_at=EPOCH) for name, state in pairs)
    return RuntimePod(uid=UID, namespace="ns", name="pod", sandboxes=sandboxes)


def _changes(old: RuntimePod | None, new: RuntimePod | None) -> str:
    return " ".join(f"{one.kind.removeprefix('Container')}:{one.container_id}" for one in compute_events(old, new))


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        pytest.param("", "c1=r c2=e c3=u", "Started:c1 Died:c2 Changed:c3", id="6.24-26 first"),
        pytest.param("c1=r c2=e c3=u", "c1=r c2=e c3=u", "", id="6.24-26 identical"),
        pytest.param("c1=u", "c1=c", "", id="6.24-26 unknown, then created"),
        pytest.param("c1=r c2=r c3=e", "c1=r", "Died:c2 Removed:c2 Removed:c3", id="6.24-27 gone"),
        pytest.param("c1=r", "", "Died:c1 Removed:c1", id="6.24-27 whole pod gone"),
        pytest.param("c1=u", "", "Died:c1 Removed:c1", id="6.24-27 unknown, then gone"),
        pytest.param("c1=c", "c1=r", "Started:c1", id="6.24-26 created, then running"),
        pytest.param("c1=r", "c1=u", "Changed:c1", id="6.24-26 running, then unknown"),
        pytest.param("c1=e", "c1=r", "Started:c1", id="6.24-26 exited, then running"),
    ],
)
def test_changes_are_upstreams(old: str, new: str, changes: str) -> None:
    assert _changes(_pod(old), _pod(new)) == changes


@pytest.mark.case("6.24-29 sandboxes produce the same events as containers")
def test_sandboxes_change_as_containers_do() -> None:
    assert _changes(None, _sandboxes("s1=r s2=e")) == "Started:s1 Died:s2"
    assert _changes(_sandboxes("s1=r s2=e"), _sandboxes("s1=e")) == "Died:s1 Removed:s2"


class Unreadable(SimRuntime):
    """A simulated runtime that can be set to fail lists or inspections, or to report unknown container states."""

    listing_fails = inspection_fails = is_confused = False

    async def pods(self) -> list[RuntimePod]:
        if self.listing_fails:
            raise RuntimeFailure("no list")
        return [self._shown(pod) for pod in await super().pods()]

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        if self.inspection_fails:
            raise RuntimeFailure("cannot inspect")
        found = await super().inspect(uid)
        return self._shown(found) if found is not None else None

    def _shown(self, pod: RuntimePod) -> RuntimePod:
        if not self.is_confused:
            return pod
        return replace(pod, containers=tuple(replace(one, state=ContainerState.UNKNOWN) for one in pod.containers))


@asynccontextmanager
async def _watched(runtime: Unreadable) -> AsyncIterator[PodLifecycleEventGenerator]:
    """A running PodLifecycleEventGenerator whose runtime has no event feed."""
    dog = PodLifecycleEventGenerator(runtime=runtime, clock=VirtualClock(), policy=RelistPolicy(parallel_inspections=2))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(dog.run(asyncio.Event()))
        yield dog
        task.cancel()


async def _started(world: World, name: str = "web") -> PodUid:
    """Start a pod with one container, and return its UID."""
    wanted = world.pod(name)
    sandbox = await world.sandbox(wanted)
    await world.runtime.start(await world.runtime.create_container(world.request(wanted, sandbox)))
    return PodUid(wanted.metadata.uid)


async def _next(dog: PodLifecycleEventGenerator) -> PodLifecycleChanges | None:
    """The next changes, or None if there are none within five seconds."""
    try:
        async with asyncio.timeout(5):
            return await dog.next_changes()
    except TimeoutError:
        return None


@pytest.fixture
def runtime() -> Unreadable:
    return Unreadable(clock=VirtualClock())


@pytest.fixture
def world(runtime: Unreadable, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(runtime, "example/image:1", tmp_path_factory.mktemp("logs"))


@pytest.mark.case("6.24-26 what is told: started, then nothing; of an unknown state nothing, but the cache has it")
async def test_unknown_state_is_cached_but_emits_no_event(runtime: Unreadable, world: World) -> None:
    async with _watched(runtime) as dog:
        uid = await _started(world)
        first = await _next(dog)
        assert first is not None
        assert {change.kind for change in first.changes} == {"ContainerStarted"}
        assert await _next(dog) is None
        runtime.is_confused = True
        assert await _next(dog) is None
        assert [one.state for one in dog.cache.get(uid).containers] == [ContainerState.UNKNOWN]


@pytest.mark.case("6.24-28 inspection error: cache holds the error, no events; then good, and events only if changed")
async def test_pod_that_cannot_be_inspected_is_tried_again(runtime: Unreadable, world: World) -> None:
    async with _watched(runtime) as dog:
        uid = await _started(world)
        first = await _next(dog)
        assert first is not None
        assert len(dog.cache.get(uid).containers) == 1
        runtime.inspection_fails = True
        dog.hint(uid)
        assert await _next(dog) is None
        with pytest.raises(RuntimeFailure, match="cannot inspect"):
            dog.cache.get(uid)
        runtime.inspection_fails = False
        assert await _next(dog) is None
        assert len(dog.cache.get(uid).containers) == 1


@pytest.mark.case("6.24-28 what changed while a pod could not be inspected is told afterwards")
async def test_change_is_not_lost_when_the_inspection_fails(runtime: Unreadable, world: World) -> None:
    async with _watched(runtime) as dog:
        uid = await _started(world)
        await _next(dog)
        runtime.inspection_fails = True
        runtime.crash(uid, "main")
        assert await _next(dog) is None
        runtime.inspection_fails = False
        found = await _next(dog)
        assert found is not None
        assert [change.kind for change in found.changes] == ["ContainerDied"]


@pytest.mark.case("6.24-30 nobody reads: no block, and nothing is lost")
async def test_changes_wait_for_a_reader_pod_by_pod(runtime: Unreadable, world: World) -> None:
    async with _watched(runtime) as dog:
        uids = {await _started(world, f"web-{number}") for number in range(20)}
        await asyncio.sleep(10)
        for uid in uids:
            runtime.crash(uid, "main")
        await asyncio.sleep(10)
        found = [await _next(dog) for _ in uids]
        assert {one.uid for one in found if one is not None} == uids
        kinds = {tuple(sorted({str(change.kind) for change in one.changes})) for one in found if one is not None}
        assert kinds == {("ContainerDied", "ContainerStarted")}
        assert await _next(dog) is None


@pytest.mark.case("6.24-30 health: not before the first relist; false after the threshold")
async def test_health_depends_on_the_last_relist(runtime: Unreadable) -> None:
    runtime.listing_fails = True
    async with _watched(runtime) as dog:
        await asyncio.sleep(10)
        assert dog.health_error() == "pleg has yet to be successful"
        runtime.listing_fails = False
        await asyncio.sleep(2)
        assert dog.health_error() is None
        runtime.listing_fails = True
        await asyncio.sleep(180)
        # The last relist began up to a second before lists started to fail.
        await asyncio.sleep(2)
        complaint = dog.health_error()
        assert complaint is not None
        assert complaint.endswith("ago; threshold is 3m0s")
