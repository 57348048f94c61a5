"""The kubelet's sync loop with real parts; only the runtime, the pod syncs and the API are fake."""

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from msgspec.structs import replace

from pod_workers_rig import Events, ScriptedSyncs, WorkerLab
from pykubelet.api.generated.core import Node, NodeCondition, NodeStatus, Pod, PodStatus
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.housekeeping import Housekeeper, PodCleaners
from pykubelet.kubelet.kubelet import Kubelet, SyncHandler, SyncLoopInbox
from pykubelet.kubelet.lifecycle.admission import PodAdmission, PodAdmitHandler
from pykubelet.kubelet.lifecycle.predicate import SysctlAllowlist, safe_sysctls
from pykubelet.kubelet.pleg.pleg import PodLifecycleChanges
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.pod_workers.pod_workers import PodWorkers
from pykubelet.kubelet.pod_workers.sync import PodWorkerDurations, SyncRunner
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import PodOperation, PodSource, PodUpdate
from pykubelet.runtimes.protocol import RuntimeFailure, RuntimePod
from pykubelet.testing.virtual_time import VirtualClock


class Outside:
    """The fake surroundings of the loop: the node, the runtime's listing, sources, the API."""

    def __init__(self) -> None:
        self.shown: Node | None = None
        self.pressures: tuple[str, ...] = ()
        self.running: set[PodUid] = set()
        self.offer()
        self.listed: list[RuntimePod] | RuntimeFailure = []
        self.listings = 0
        self.unready: set[str] = set()
        self.seen: list[PodUpdate] = []
        self.runtime_down = ""
        self.pruned: list[tuple[str, str]] = []
        self.probed: list[frozenset[PodUid]] = []
        self.deleted_mirrors: list[str] = []
        self.needed: list[Container[PodUid]] = []
        self.changes: asyncio.Queue[PodLifecycleChanges] = asyncio.Queue()

    def offer(self, **amounts: str) -> None:
        """Set the allocatable resources of the node."""
        given = {"cpu": "10", "memory": "10Gi", "pods": "110"} | amounts
        self.shown = Node(metadata=ObjectMeta(name="node-1"), status=NodeStatus(allocatable=given))

    def pressure_conditions(self) -> tuple[str, ...]:
        return self.pressures

    def show_pressures(self) -> None:
        """Show them in the node's object of the API, too."""
        assert self.shown is not None
        conditions = tuple(NodeCondition(type=kind, status="True") for kind in self.pressures)
        self.shown = replace(self.shown, status=replace(self.shown.status, conditions=conditions))

    def shutdown_message(self) -> str:
        return ""

    async def pods(self) -> Sequence[RuntimePod]:
        self.listings += 1
        if isinstance(self.listed, RuntimeFailure):
            raise self.listed
        return tuple(self.listed)

    async def next_changes(self) -> PodLifecycleChanges:
        return await self.changes.get()

    def is_ready(self, source: str) -> bool:
        return source not in self.unready

    def saw(self, update: PodUpdate) -> None:
        self.seen.append(update)

    def runtime_error(self) -> str:
        return self.runtime_down

    def all_sources_ready(self) -> bool:
        return not self.unready

    def prune(self, uid: PodUid) -> None:
        self.pruned.append((uid, "dead"))

    def remove_all(self, uid: PodUid) -> None:
        self.pruned.append((uid, "all"))

    def clean_up(self, keep: Container[PodUid]) -> None:
        assert isinstance(keep, frozenset)
        self.probed.append(keep)

    async def delete_orphaned_mirrors(self, full_names: Iterable[str], is_terminating: Callable[[str], bool]) -> None:
        self.deleted_mirrors += [name for name in full_names if not is_terminating(name)]

    async def remove_orphans(self, keep: Container[PodUid]) -> None:
        self.needed.append(keep)
        raise OSError("device or resource busy")

    def could_have_running_containers(self, uid: PodUid, /) -> bool:
        return False

    def pod_resources_are_reclaimed(self, pod: Pod, status: PodStatus, /) -> bool:
        return True


class LoopLab:
    """The loop of a node."""

    def __init__(self) -> None:
        self.clock, self.events, self.outside = VirtualClock(), Events(), Outside()
        workers = WorkerLab()
        self.syncs: ScriptedSyncs = workers.syncs
        self.trail, self.cache = workers.trail, workers.cache
        self.updates: asyncio.Queue[PodUpdate | None] = asyncio.Queue()
        self.pods, self.inbox = PodManager(), SyncLoopInbox()
        self.statuses = StatusManager(client=None, pods=self.pods, safety=self.outside, clock=self.clock)
        syncer, pleg, played = cast("Any", self.syncs), cast("Any", workers), cast("Any", self.outside)
        runner = SyncRunner(
            syncer=syncer, pleg=pleg, recorder=self.events, durations=PodWorkerDurations(clock=self.clock)
        )
        self.pool = PodWorkers(
            runner=runner,
            pods=self.pods,
            statuses=self.statuses,
            listener=self.inbox,
            recorder=self.events,
            clock=self.clock,
            trail=self.trail,
        )
        self.admitter = PodAdmitHandler(
            node=lambda: self.outside.shown, health=played, sysctls=SysctlAllowlist(safe_sysctls((6, 1)))
        )
        self.admission = PodAdmission(
            handler=self.admitter,
            workers=self.pool,
            statuses=self.statuses,
            recorder=self.events,
            trail=self.trail,
            is_running=self.outside.running.__contains__,
        )
        self.loop = self._loop()

    def _loop(self) -> Kubelet:
        played: Any = self.outside
        handler = SyncHandler(
            pods=self.pods,
            workers=self.pool,
            admission=self.admission,
            statuses=self.statuses,
            sources=played,
            deletor=played,
            trail=self.trail,
        )
        housekeeper = Housekeeper(
            pods=self.pods,
            workers=self.pool,
            admission=self.admission,
            runtime=played,
            cleaners=PodCleaners(
                statuses=self.statuses, probes=played, mirrors=played, leftovers=(("folders", self.outside),)
            ),
            trail=self.trail,
        )
        return Kubelet(
            updates=self._updates(),
            pleg=played,
            inbox=self.inbox,
            handler=handler,
            admission=self.admission,
            housekeeper=housekeeper,
            health=played,
            clock=self.clock,
        )

    async def _updates(self) -> AsyncIterator[PodUpdate]:
        while (update := await self.updates.get()) is not None:
            yield update

    def send(self, op: PodOperation, *pods: Pod, source: str = PodSource.API) -> None:
        """Send an operation on pods from a source."""
        self.updates.put_nowait(PodUpdate(op, source, pods))

    def phase(self, pod: Pod) -> str:
        """The phase of a pod on this node."""
        status = self.statuses.pod_status(pod.metadata.uid)
        return status.phase if status is not None else ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator["LoopLab"]:
        """Runs the loop and the workers."""
        ready = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.pool.run(asyncio.Event())), group.create_task(self.loop.run(ready))]
            await ready.wait()
            yield self
            for task in tasks:
                task.cancel()

    async def quiet(self) -> None:
        """Return when everything that is due now has happened."""
        await asyncio.sleep(0.001)
