"""Eviction on a whole node: the right pod first, with upstream's messages, until resources suffice."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api import schema
from pykubelet.api.generated.core import Pod
from pykubelet.api.scheme import as_documents
from pykubelet.app.node import Node
from pykubelet.kubelet.eviction.eviction_manager import CLEANUP_SECONDS, DiskReclaimer, EvictionManager
from pykubelet.kubelet.eviction.pod_usage import PodPaths, PodUsageReader
from pykubelet.kubelet.eviction.pressure_monitor import PressureMonitor
from pykubelet.kubelet.eviction.thresholds import DEFAULT_EVICTION_HARD, Observation, parse_thresholds
from pykubelet.runtimes.protocol import ContainerResourceUsage, RuntimeFailure, Usages
from pykubelet.runtimes.sim.runtime import Behaviour
from whole_node import NAMESPACE, World, condition, container, is_ready, world

MIB = 2**20


class Machine:
    """A SignalReader of a machine whose memory is reduced by what its containers use."""

    def __init__(self, outside: World, memory_mib: int = 1000) -> None:
        self._sim, self._memory = outside.sim, memory_mib * MIB
        self.disk_percent = 50

    def read(self) -> Mapping[str, Observation]:
        usages = asyncio.run(self._sim.usages())
        used = sum(one.working_set_bytes or 0 for one in usages.values())
        return {
            "memory.available": Observation(self._memory - used, self._memory),
            "nodefs.available": Observation(self.disk_percent, 100),
        }


class Reclaimer:
    """Counts reclaim calls, and frees disk space if configured to."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self.asked, self.helps = machine, 0, False

    async def reclaim(self) -> None:
        self.asked += 1
        if self.helps:
            self._machine.disk_percent = 50


@asynccontextmanager
async def evicting(
    outside: World,
    node: Node,
    machine: Machine,
    *,
    reclaimer: Reclaimer | None = None,
    usages: Usages | None = None,
    **thresholds: Any,
) -> AsyncIterator[EvictionManager]:
    """Runs an eviction manager on a node."""
    recorder, root = node.dependencies.recorder, outside.folder / "node"

    def paths(pod: Pod) -> PodPaths:
        volumes = f"{root}/pods/{pod.metadata.uid}/volumes/kubernetes.io~empty-dir"
        names = [volume.name for volume in pod.spec.volumes if volume.empty_dir is not None]
        return PodPaths(volumes={name: f"{volumes}/{name}" for name in names})

    max_grace_seconds = thresholds.pop("max_grace_seconds", 0)
    is_unsent = thresholds.pop("is_unsent", node.pods.statuses.is_unsent)
    evictor = EvictionManager(
        monitor=PressureMonitor(
            reader=machine,
            changed=node.health.note_pressures,
            clock=outside.clock,
            thresholds=parse_thresholds(thresholds.pop("hard", DEFAULT_EVICTION_HARD), **thresholds),
        ),
        usage_reader=PodUsageReader(runtime=outside.sim, usages=usages or outside.sim, paths=paths),
        workers=node.work.workers,
        reclaimer=cast("DiskReclaimer | None", reclaimer),
        recorder=recorder,
        node=node.dependencies.reference,
        is_unsent=is_unsent,
        max_grace_seconds=max_grace_seconds,
    )
    async with running({"evictor": with_ready_event(evictor.run)}):
        yield evictor


def using(mib: int, **more: Any) -> Behaviour:
    return Behaviour(memory_bytes=mib * MIB, **more)


def asking(name: str, memory: str) -> dict[str, Any]:
    return container(name, resources={"requests": {"memory": memory}})


def is_evicted(pod: Pod) -> bool:
    return (pod.status.phase, pod.status.reason) == ("Failed", "Evicted")


async def test_memory_pressure_evicts_the_pod_most_above_its_requests(tmp_path: Path) -> None:
    """One eviction is enough, with upstream's message and event.

    The pressure condition stays for its transition period.
    """
    scripts = {"modest": using(300), "greedy": using(350), "other": using(270)}
    async with world(tmp_path, scripts=scripts) as outside, outside.running_node() as node:
        await outside.create("modest", containers=[asking("modest", "400Mi")])
        await outside.create("greedy", containers=[asking("greedy", "100Mi")])
        await outside.create("other", containers=[asking("other", "200Mi")])
        for name in scripts:
            await outside.until(name, is_ready)
        async with evicting(outside, node, Machine(outside)) as evictor:
            gone = await outside.until("greedy", is_evicted)
            assert gone.status.message == (
                "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. "
                "Container greedy was using 350Mi, request is 100Mi, has larger consumption of memory. "
            )
            target = next(one for one in gone.status.conditions if one.type == "DisruptionTarget")
            told = ("True", "TerminationByKubelet", gone.status.message)
            assert (target.status, target.reason, target.message) == told
            assert condition(gone, "Ready") == "False"
            await asyncio.sleep(250)
            assert node.health.pressures().memory
            await asyncio.sleep(100)
            assert not node.health.pressures().memory
            assert [is_ready(await outside.pod(name)) for name in ("modest", "other")] == [True, True]
            assert evictor.counts == {"memory.available": 1}
        listed = (await outside.api.list(as_documents(schema.EVENTS), namespace=NAMESPACE)).items
        event = next(one for one in listed if one["reason"] == "Evicted")
        assert (event["type"], event["message"]) == ("Warning", gone.status.message)
        assert event["metadata"]["annotations"] == {
            "offending_containers": "greedy",
            "offending_containers_usage": "350Mi",
            "starved_resource": "memory",
        }
        assert ("EvictionThresholdMet", "Attempting to reclaim memory") in await outside.events("node-1")


async def test_evictions_go_on_one_by_one_until_there_is_the_minimum_reclaim(tmp_path: Path) -> None:
    """The minimum reclaim needs two evictions, the second soon after the first; the critical pod stays."""
    scripts = {name: using(240) for name in ("vital", "a", "b", "c")}
    async with world(tmp_path, scripts=scripts) as outside, outside.running_node() as node:
        await outside.create("vital", containers=[container("vital")], priorityClassName="system-node-critical")
        for name in ("a", "b", "c"):
            await outside.create(name, containers=[container(name)])
        for name in scripts:
            await outside.until(name, is_ready)
        hard, reclaim = {"memory.available": "100Mi"}, {"memory.available": "300Mi"}
        async with evicting(outside, node, Machine(outside), hard=hard, minimum_reclaim=reclaim):
            await asyncio.sleep(CLEANUP_SECONDS - 5)
            shown = {name: (await outside.pod(name)).status.reason for name in scripts}
        assert sorted(shown.values()) == ["", "", "Evicted", "Evicted"]
        assert shown["vital"] == ""


async def test_soft_threshold_waits_its_grace_and_gives_pods_theirs(tmp_path: Path) -> None:
    """The shortage must last 30 seconds, and the pod gets the maximum pod grace period of soft evictions."""
    scripts = {"slow": using(900, stop_seconds=8)}
    async with world(tmp_path, scripts=scripts) as outside, outside.running_node() as node:
        await outside.create("slow", containers=[container("slow")])
        await outside.until("slow", is_ready)
        began = outside.clock.monotonic()
        rules: dict[str, Any] = {"soft": {"memory.available": "30%"}, "soft_grace_seconds": {"memory.available": 30}}
        async with evicting(outside, node, Machine(outside), hard={}, max_grace_seconds=20, **rules):
            gone = await outside.until("slow", is_evicted, within_seconds=90)
            assert 30 <= outside.clock.monotonic() - began <= 50
            ended = await outside.until(
                "slow", lambda pod: pod.status.container_statuses[0].state.terminated is not None
            )
        terminated = ended.status.container_statuses[0].state.terminated
        assert terminated is not None
        assert terminated.exit_code == 0
        assert "Threshold quantity: 314572812" in gone.status.message


async def test_pod_that_does_not_stop_does_not_keep_others_from_going(tmp_path: Path) -> None:
    """The next pod is evicted after the kill timeout of the first."""
    scripts = {"stuck": using(500, hangs_on=("stop",)), "next": using(480)}
    async with world(tmp_path, scripts=scripts) as outside, outside.running_node() as node:
        for name in scripts:
            await outside.create(name, containers=[container(name)])
            await outside.until(name, is_ready)
        async with evicting(outside, node, Machine(outside)):
            await outside.until("next", is_evicted, within_seconds=120)
        assert [reason for reason, _ in await outside.events("stuck")].count("Evicted") == 1


class LateUsages:
    """A Usages source that fails for its first 30 seconds."""

    def __init__(self, outside: World) -> None:
        self._outside, self._answers_at = outside, outside.clock.monotonic() + 30

    async def usages(self) -> Mapping[str, ContainerResourceUsage]:
        if self._outside.clock.monotonic() < self._answers_at:
            raise RuntimeFailure("no answer")
        return await self._outside.sim.usages()


async def test_no_pod_is_evicted_while_usage_is_unknown(tmp_path: Path) -> None:
    """Evicting the wrong pod is worse than waiting for the next measurement."""
    async with world(tmp_path, scripts={"main": using(950)}) as outside, outside.running_node() as node:
        await outside.create("web")
        await outside.until("web", is_ready)
        async with evicting(outside, node, Machine(outside), usages=LateUsages(outside)):
            await asyncio.sleep(25)
            assert is_ready(await outside.pod("web"))
            await outside.until("web", is_evicted)


async def test_node_with_only_critical_pods_evicts_none(tmp_path: Path) -> None:
    """The memory pressure stays reported."""
    async with world(tmp_path, scripts={"main": using(950)}) as outside, outside.running_node() as node:
        await outside.create("vital", priorityClassName="system-cluster-critical")
        await outside.until("vital", is_ready)
        async with evicting(outside, node, Machine(outside)) as evictor:
            await asyncio.sleep(60)
            assert is_ready(await outside.pod("vital"))
            assert (node.health.pressures().memory, evictor.counts) == (True, {})


async def test_full_disk_is_cleared_of_garbage_before_a_pod_goes(tmp_path: Path) -> None:
    """No pod is evicted if garbage collection frees enough; otherwise the pod with the highest disk usage is."""
    async with (
        world(tmp_path, scripts={"large": Behaviour(layer_bytes=MIB)}) as outside,
        outside.running_node() as node,
    ):
        for name in ("large", "small"):
            await outside.create(name, containers=[container(name)])
            await outside.until(name, is_ready)
        machine = Machine(outside)
        reclaimer = Reclaimer(machine)
        reclaimer.helps, machine.disk_percent = True, 5
        async with evicting(outside, node, machine, reclaimer=reclaimer):
            await asyncio.sleep(30)
            assert (reclaimer.asked, is_ready(await outside.pod("large"))) == (1, True)
            reclaimer.helps, machine.disk_percent = False, 5
            gone = await outside.until("large", is_evicted)
            machine.disk_percent = 50
            await asyncio.sleep(30)
            assert is_ready(await outside.pod("small"))
        assert gone.status.message == (
            "The node was low on resource: ephemeral-storage. Threshold quantity: 10, available: 5. "
        )


async def test_disk_that_others_fill_costs_no_pod_that_has_nothing_on_it(tmp_path: Path) -> None:
    """Its eviction would not help; the condition stays and keeps new pods out."""
    async with world(tmp_path) as outside, outside.running_node() as node:
        for name in ("a", "b"):
            await outside.create(name)
            await outside.until(name, is_ready)
        machine = Machine(outside)
        machine.disk_percent = 0
        async with evicting(outside, node, machine) as evictor:
            await asyncio.sleep(120)
            assert [is_ready(await outside.pod(name)) for name in ("a", "b")] == [True, True]
            assert (node.health.pressures().disk, evictor.counts) == (True, {})


async def test_next_pod_goes_only_once_the_api_has_the_status_of_the_first(tmp_path: Path) -> None:
    """A full disk may keep the API server from taking it, and would then be cleared pod by pod without a trace."""
    scripts = {name: Behaviour(layer_bytes=MIB) for name in ("first", "second")}
    unsent = True
    async with world(tmp_path, scripts=scripts) as outside, outside.running_node() as node:
        for name in scripts:
            await outside.create(name, containers=[container(name)])
            await outside.until(name, is_ready)
        machine = Machine(outside)
        machine.disk_percent = 0
        async with evicting(outside, node, machine, is_unsent=lambda _: unsent) as evictor:
            await asyncio.sleep(300)
            assert evictor.counts == {"nodefs.available": 1}
            unsent = False
            await asyncio.sleep(30)
            assert evictor.counts == {"nodefs.available": 2}


async def test_pod_with_more_in_an_empty_dir_than_it_may_is_evicted(tmp_path: Path) -> None:
    """The pod over its emptyDir size limit is evicted within 75 seconds, without a DisruptionTarget condition."""
    mounted = container(volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}])
    volumes = [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}]
    async with world(tmp_path) as outside, outside.running_node() as node:
        for name in ("full", "empty"):
            await outside.create(name, containers=[mounted], volumes=volumes)
        full = await outside.until("full", is_ready)
        await outside.until("empty", is_ready)
        async with evicting(outside, node, Machine(outside)):
            await asyncio.sleep(90)
            assert is_ready(await outside.pod("full"))
            folder = tmp_path / f"node/pods/{full.metadata.uid}/volumes/kubernetes.io~empty-dir/scratch"
            (folder / "data").write_bytes(b"x" * (2 * MIB))
            gone = await outside.until("full", is_evicted, within_seconds=75)
            await asyncio.sleep(90)
            assert is_ready(await outside.pod("empty"))
        assert gone.status.message == 'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". '
        assert condition(gone, "DisruptionTarget") == ""
