"""The container garbage collector on a simulated runtime; what may be removed is decided in gc_plan."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from pykubelet.api.generated.core import ObjectReference, Pod
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.kuberuntime.container_gc import ContainerGc, GcPolicy
from pykubelet.runtimes.protocol import ContainerState, RuntimeFailure, RuntimePod
from pykubelet.runtimes.sim.runtime import Behaviour, ContainerRun, SimRuntime
from pykubelet.testing.build import pod
from pykubelet.testing.virtual_time import VirtualClock
from runtime_rig import Rig

CRASHING = Behaviour(runs=(ContainerRun(seconds=1, exit_code=1),))


class States:
    """Pod states that the test sets."""

    def __init__(self) -> None:
        self.is_ready = True
        self.gone: set[str] = set()
        self.over: set[str] = set()

    def all_sources_ready(self) -> bool:
        return self.is_ready

    def should_pod_content_be_removed(self, uid: PodUid) -> bool:
        return uid in self.gone

    def should_pod_runtime_be_removed(self, uid: PodUid) -> bool:
        return uid in self.over


class Garbage(Rig):
    """The rig with a container garbage collector."""

    def __init__(self, logs: Path, sim: SimRuntime | None = None) -> None:
        super().__init__(logs, sim=sim or SimRuntime(clock=VirtualClock(), default=CRASHING))
        self.pods = States()
        self.unreported: set[str] = set()
        self.gc = ContainerGc(
            runtime=self.sim,
            remover=self.remover,
            states=self.pods,
            is_exit_reported=lambda _, container_id: container_id not in self.unreported,
            events=self.events,
            node=ObjectReference(kind="Node", name="node-1", uid="node-1"),
            clock=self.clock,
            policy=GcPolicy(),
        )

    async def crashed(self, times: int) -> Pod:
        """A pod whose container has crashed this many times."""
        web = pod(restart_policy="Always")
        while len((await self.observed(web)).containers) < times:
            await self.sync(web)
            await asyncio.sleep(10)
        return web


async def test_one_dead_container_per_name_is_kept(tmp_path: Path) -> None:
    """Its log is kept as well; the logs of the others are removed."""
    async with Garbage(tmp_path).running() as rig:
        web = await rig.crashed(3)
        directory = tmp_path / "pods/default_web_uid-default-web/main"
        for attempt in range(3):
            (directory / f"{attempt}.log").write_text("x")
        await rig.gc.collect()
        assert [one.attempt for one in (await rig.observed(web)).containers] == [2]
        assert [entry.name for entry in directory.iterdir()] == ["2.log"]


@pytest.mark.parametrize("is_ready", [True, False], ids=["sources ready", "sources not ready"])
async def test_nothing_is_kept_of_a_pod_that_is_gone(tmp_path: Path, is_ready: bool) -> None:
    """Containers, sandbox and logs are removed, but only once all sources are ready."""
    async with Garbage(tmp_path).running() as rig:
        web = await rig.crashed(1)
        await rig.killer.kill_pod(web, await rig.observed(web))
        rig.pods.gone, rig.pods.is_ready = {web.metadata.uid}, is_ready
        await rig.gc.collect()
        assert bool(await rig.sim.pods()) is not is_ready
        assert bool(list((tmp_path / "pods").iterdir())) is not is_ready


async def test_urgent_collection_also_removes_pods_that_ended(tmp_path: Path) -> None:
    """With a full disk, containers and logs of ended pods are removed, too; the log directory stays."""
    async with Garbage(tmp_path).running() as rig:
        web = await rig.crashed(1)
        await rig.killer.kill_pod(web, await rig.observed(web))
        rig.pods.over = {web.metadata.uid}
        await rig.gc.collect()
        assert len((await rig.observed(web)).containers) == 1
        await rig.gc.collect(is_urgent=True)
        assert await rig.sim.pods() == []
        assert list((tmp_path / "pods").iterdir()) != []


async def test_dead_containers_of_a_name_are_pruned_when_one_dies(tmp_path: Path) -> None:
    """The newest stays; remove_dead, used after an eviction, removes that one, too."""
    async with Garbage(tmp_path).running() as rig:
        web = await rig.crashed(3)
        observed = await rig.observed(web)
        await rig.gc.prune(observed)
        assert [one.attempt for one in (await rig.observed(web)).containers] == [2]
        await rig.gc.remove_dead(await rig.observed(web))
        assert (await rig.observed(web)).containers == ()


class OrderlySim(SimRuntime):
    """A simulated runtime that records what is removed."""

    def __init__(self) -> None:
        super().__init__(clock=VirtualClock(), default=CRASHING)
        self.removed: list[str] = []

    async def remove(self, id: str) -> None:
        self.removed.append(id)
        await super().remove(id)


async def test_newest_container_of_a_pod_that_is_gone_is_removed_last(tmp_path: Path) -> None:
    """Otherwise a status in between would show fewer restarts than before."""
    sim = OrderlySim()
    async with Garbage(tmp_path, sim).running() as rig:
        observed = await rig.observed(await rig.crashed(3))
        await rig.gc.remove_dead(observed)
        assert sim.removed == [one.id for one in sorted(observed.containers, key=lambda one: one.attempt)]


@pytest.mark.parametrize("collect", [False, True], ids=["prune", "collect"])
@pytest.mark.parametrize(("unreported", "kept"), [([], [2]), ([2], [2]), ([1], [1, 2]), ([0, 1, 2], [1, 2])])
async def test_exits_of_the_newest_two_containers_stay_until_the_api_has_them(
    tmp_path: Path, collect: bool, unreported: list[int], kept: list[int]
) -> None:
    """A status shows the newest container and the one before it; a node that was killed must still find their exits."""
    async with Garbage(tmp_path).running() as rig:
        web = await rig.crashed(3)
        ids = {one.attempt: one.id for one in (await rig.observed(web)).containers}
        rig.unreported = {ids[attempt] for attempt in unreported}
        await (rig.gc.collect() if collect else rig.gc.prune(await rig.observed(web)))
        assert sorted(one.attempt for one in (await rig.observed(web)).containers) == kept


async def test_collection_that_fails_is_an_event_on_the_node(tmp_path: Path) -> None:
    """It is tried again a minute later."""

    class Deaf(SimRuntime):
        async def pods(self) -> list[RuntimePod]:
            raise RuntimeFailure("no answer")

    rig = Garbage(tmp_path, sim=Deaf(clock=VirtualClock()))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(90):
            await rig.gc.run(asyncio.Event())
    assert rig.events.seen == [("Warning", "ContainerGCFailed", "no answer")] * 2


async def test_container_that_cannot_be_removed_does_not_block_others(tmp_path: Path) -> None:
    """The next container in the list is still removed."""

    class Sticky(SimRuntime):
        refused = 0

        async def remove(self, id: str) -> None:
            self.refused += 1
            if self.refused == 1:
                raise RuntimeFailure("busy")
            await super().remove(id)

    async with Garbage(tmp_path, sim=Sticky(clock=VirtualClock(), default=CRASHING)).running() as rig:
        web = await rig.crashed(3)
        await rig.gc.collect()
        assert [one.attempt for one in (await rig.observed(web)).containers] == [2, 0]


async def test_container_in_unknown_state_is_stopped_before_removal(tmp_path: Path) -> None:
    """It may still be running."""

    class Unsure(SimRuntime):
        def __init__(self) -> None:
            super().__init__(clock=VirtualClock())
            self.stopped: list[str] = []

        async def pods(self) -> list[RuntimePod]:
            unknown = ContainerState.UNKNOWN
            return [
                replace(one, containers=tuple(replace(part, state=unknown) for part in one.containers))
                for one in await super().pods()
            ]

        async def stop(self, id: str, grace_seconds: float) -> None:
            self.stopped.append(id)
            await super().stop(id, grace_seconds)

    sim = Unsure()
    async with Garbage(tmp_path, sim=sim).running() as rig:
        web = pod()
        await rig.sync(web)
        rig.pods.gone = {web.metadata.uid}
        await rig.gc.collect()
        assert len(sim.stopped) == 1
        told = "Container is in unknown state, try killing it before removal"
        assert rig.events.seen[-1] == ("Normal", "Killing", told)
        assert (await rig.observed(web)).containers == ()
