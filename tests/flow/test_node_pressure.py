"""A whole node under resource pressure: its conditions, its admission of pods, and its recovery."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.generated.core import Pod
from pykubelet.api.scheme import NODES
from pykubelet.kubelet.eviction.pressure_monitor import PressureMonitor
from pykubelet.kubelet.eviction.thresholds import Observation
from whole_node import NODE, World, container, is_ready, world

MIB = 2**20


class Machine:
    """A SignalReader with as much memory and disk left as the test sets."""

    def __init__(self) -> None:
        self.memory, self.disk = 500 * MIB, 50

    def read(self) -> Mapping[str, Observation]:
        return {
            "memory.available": Observation(self.memory, 1000 * MIB),
            "nodefs.available": Observation(self.disk, 100),
        }


async def until_shown(outside: World, kind: str, status: str, *, within_seconds: float) -> str:
    """Wait for a status of a node condition; returns its reason."""
    async with asyncio.timeout(within_seconds):
        while True:
            shown = await outside.api.get(NODES, NODE)
            found = next(one for one in shown.status.conditions if one.type == kind)
            if found.status == status:
                return found.reason
            await asyncio.sleep(0.5)


def is_failed(pod: Pod) -> bool:
    return pod.status.phase == "Failed"


async def test_node_short_of_memory_refuses_best_effort_pods_until_it_has_recovered(tmp_path: Path) -> None:
    """Pods with memory requests still start; after the five-minute transition period BestEffort pods do, too."""
    machine = Machine()
    async with world(tmp_path) as outside, outside.running_node() as node:
        watch = PressureMonitor(reader=machine, changed=node.health.note_pressures, clock=outside.clock)
        async with running({"pressure": with_ready_event(watch.run)}):
            machine.memory = 99 * MIB
            reason = await until_shown(outside, "MemoryPressure", "True", within_seconds=25)
            assert reason == "KubeletHasInsufficientMemory"
            await outside.create("best-effort")
            refused = await outside.until("best-effort", is_failed)
            told = "Pod was rejected: The node had condition: [MemoryPressure]. "
            assert (refused.status.reason, refused.status.message) == ("Evicted", told)
            asking = container(resources={"requests": {"memory": "1Mi"}})
            await outside.create("asking", containers=[asking])
            await outside.until("asking", is_ready)
            machine.memory = 500 * MIB
            await asyncio.sleep(270)
            assert node.health.pressures().memory
            reason = await until_shown(outside, "MemoryPressure", "False", within_seconds=60)
            assert reason == "KubeletHasSufficientMemory"
            await outside.create("later")
            await outside.until("later", is_ready)


async def test_node_short_of_disk_refuses_every_ordinary_pod(tmp_path: Path) -> None:
    """Requests make no difference under disk pressure; a critical pod still starts."""
    machine = Machine()
    machine.disk = 9
    async with world(tmp_path) as outside, outside.running_node() as node:
        watch = PressureMonitor(reader=machine, changed=node.health.note_pressures, clock=outside.clock)
        await watch.measure()
        await outside.create("web", containers=[container(resources={"requests": {"memory": "1Mi"}})])
        refused = await outside.until("web", is_failed)
        assert refused.status.message == "Pod was rejected: The node had condition: [DiskPressure]. "
        await outside.create("vital", priorityClassName="system-node-critical")
        await outside.until("vital", is_ready)
