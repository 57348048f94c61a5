"""A machine with simulated containers that outlives its node, as containerd does, and fails as the plan says.

It records every container that ever was. Its invariants: no two containers run for one slot, no pods of one name run at
once, and the runtime keeps the exit code of a container until the API server has it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pykubelet.aio.clock import Clock
from pykubelet.api.pods import PodUid
from pykubelet.app.runtimes import RuntimeParts, simulated
from pykubelet.runtimes.pod_book import PodBook
from pykubelet.runtimes.protocol import ContainerRequest, RuntimeFailure
from pykubelet.runtimes.sim.runtime import SimImages, SimRuntime
from simulation.faults import FaultPlan
from simulation.trace import Trace

T = TypeVar("T")
PAUSES = (0.1, 1.0, 5.0, 30.0, 150.0)
"""Seconds that a slow runtime call takes; the longest is beyond every deadline of the kubelet."""


@dataclass(slots=True)
class ContainerRecord:
    """One container, from its creation on; it stays after its removal."""

    id: str
    uid: str
    pod: tuple[str, str]
    name: str
    attempt: int
    machine: str
    is_running: bool = False
    has_run: bool = False
    exit_code: int | None = None
    is_removed: bool = False


class Containers:
    """The containers of all machines."""

    def __init__(self, trace: Trace, may_overlap: Callable[[tuple[str, str]], bool]) -> None:
        self._trace, self._may_overlap = trace, may_overlap
        self.all: dict[str, ContainerRecord] = {}
        self.reported: dict[str, int] = {}
        """The exit codes that the API server has received, by container id."""
        self.awaits_exit: Callable[[ContainerRecord], bool] = lambda _: False
        """Whether the API server has the container's pod and expects its exit code."""
        self._by_pod: dict[tuple[str, str], list[ContainerRecord]] = {}

    def created(self, record: ContainerRecord) -> None:
        self.all[record.id] = record
        self._by_pod.setdefault(record.pod, []).append(record)
        self._trace.note(f"container {_shown(record)} created")

    def started(self, id: str) -> None:
        record = self.all[id]
        for other in self._by_pod[record.pod]:
            if not other.is_running:
                continue
            if other.uid == record.uid and other.name == record.name:
                self._trace.violated(f"{_shown(record)} starts while {_shown(other)} runs")
            if other.uid != record.uid and not self._may_overlap(record.pod):
                self._trace.violated(f"{_shown(record)} starts while {_shown(other)} of an earlier pod runs")
        record.is_running = record.has_run = True
        self._trace.note(f"container {_shown(record)} started")

    def ended(self, id: str, exit_code: int) -> None:
        record = self.all[id]
        record.is_running, record.exit_code = False, exit_code
        self._trace.note(f"container {_shown(record)} ended {exit_code}")

    def removed(self, id: str) -> None:
        record = self.all.get(id)
        if record is None or record.is_removed:
            return
        record.is_removed = True
        self._trace.note(f"container {_shown(record)} removed")
        is_newest = all(other.attempt <= record.attempt for other in self.of_slot(record.uid, record.name))
        if record.has_run and is_newest and record.id not in self.reported and self.awaits_exit(record):
            self._trace.violated(f"exit code {record.exit_code} of {_shown(record)} is lost")

    def of_slot(self, uid: str, name: str) -> list[ContainerRecord]:
        """The containers that one container of a pod has had, oldest first."""
        return [record for record in self.all.values() if record.uid == uid and record.name == name]

    def of_pod(self, pod: tuple[str, str]) -> list[ContainerRecord]:
        """The containers of all pods with this name, oldest first."""
        return self._by_pod.get(pod, [])


class RecordedBook(PodBook):
    """The pods of one machine; each change goes to the record."""

    def __init__(self, clock: Clock, containers: Containers, machine: str) -> None:
        super().__init__(clock)
        self._containers, self._machine = containers, machine

    def add_container(self, request: ContainerRequest) -> str:
        id, meta = super().add_container(request), request.pod.metadata
        pod = (meta.namespace, meta.name)
        self._containers.created(
            ContainerRecord(id, meta.uid, pod, request.container.name, request.attempt, self._machine)
        )
        return id

    def note_start(self, container_id: str) -> None:
        super().note_start(container_id)
        self._containers.started(container_id)

    def note_exit(self, container_id: str, exit_code: int, reason: str = "", message: str = "") -> None:
        super().note_exit(container_id, exit_code, reason, message)
        self._containers.ended(container_id, exit_code)

    def remove(self, id: str) -> set[str]:
        gone = super().remove(id)
        for one in sorted(gone):
            self._containers.removed(one)
        return gone

    def _new_id(self, kind: str) -> str:
        return f"{super()._new_id(kind)}-{self._machine}"


class FaultyCalls:
    """The calls of one part of the runtime, each in the machine's own context, slow or failing as the plan says."""

    def __init__(self, inner: Any, plan: FaultPlan, name: str) -> None:
        self._inner, self._plan, self._name = inner, plan, name

    def __getattr__(self, call: str) -> Any:
        method = getattr(self._inner, call)

        async def calls(*args: Any, **named: Any) -> Any:
            return await self._call(call, lambda: method(*args, **named))

        return calls

    async def _call(self, call: str, method: Callable[[], Awaitable[T]]) -> T:
        plan, what = self._plan, f"{self._name}: {call}"
        if plan.happens("pause", what):
            await asyncio.sleep(plan.random.choice(PAUSES))
        else:
            await asyncio.sleep(plan.random.random() * 0.005)
        if plan.happens("runtime", what):
            raise RuntimeFailure("the runtime is on fire")
        # A call goes on when the node that made it crashes, but ends when the node gives it up.
        task = asyncio.get_running_loop().create_task(_run(method), name=what, context=Context())
        try:
            result = await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if plan.happens("effect", what):
            raise RuntimeFailure("the connection to the runtime broke")
        return result


async def _run(method: Callable[[], Awaitable[T]]) -> T:
    return await method()


class LossyFeed:
    """Hints about changes, of which some are lost."""

    def __init__(self, sim: SimRuntime, plan: FaultPlan, name: str) -> None:
        self._sim, self._plan, self._name = sim, plan, name

    def changes(self) -> AsyncIterator[PodUid]:
        return self._kept(self._sim.changes())

    async def _kept(self, changes: AsyncIterator[PodUid]) -> AsyncIterator[PodUid]:
        async for uid in changes:
            if not self._plan.happens("cut", f"{self._name}: hint"):
                yield uid


class SimulatedMachine:
    """One machine and what outlives a crash of its node: manifests, containers and images."""

    def __init__(self, name: str, *, manifests: Path, clock: Clock, plan: FaultPlan, containers: Containers) -> None:
        self.name, self.manifests = name, manifests
        manifests.mkdir(parents=True)
        self.sim, self.images = SimRuntime(clock=clock), SimImages()
        self.sim._book = RecordedBook(clock, containers, name)
        parts = simulated(self.sim, self.images)
        self.parts: RuntimeParts = replace(
            parts,
            runtime=FaultyCalls(self.sim, plan, name),
            images=FaultyCalls(self.images, plan, name),
            commands=FaultyCalls(self.sim, plan, name),
            feed=LossyFeed(self.sim, plan, name),
        )


def _shown(record: ContainerRecord) -> str:
    namespace, name = record.pod
    return f"{namespace}/{name}/{record.name}#{record.attempt} of {record.uid[-6:]} on {record.machine}"
