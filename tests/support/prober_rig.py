"""A probe manager with scripted containers and probes, on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from pykubelet.api.generated.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    ExecAction,
    Pod,
    PodStatus,
    Probe,
)
from pykubelet.api.times import format_time
from pykubelet.kubelet.prober.prober import Prober
from pykubelet.kubelet.prober.prober_manager import ProberManager
from pykubelet.kubelet.prober.results import ProbedContainer
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import ProbeOutcome, ProbeResult, ProbeType
from pykubelet.testing.build import container
from pykubelet.testing.virtual_time import VirtualClock

Found = Callable[[ProbedContainer], ProbeOutcome | None]


def probe(**fields: Any) -> Probe:
    defaults = {"exec": ExecAction(), "period_seconds": 10, "timeout_seconds": 1}
    return Probe(**{**defaults, "success_threshold": 1, "failure_threshold": 3, **fields})


class World:
    """A node with pods whose containers run; each probe returns the result of `found` after `takes_seconds`."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.changes: list[ProbeResult] = []
        self.statuses: dict[str, PodStatus] = {}
        self.found: Found = lambda _: ProbeOutcome.SUCCESS
        self.takes_seconds: Callable[[ProbedContainer], float] = lambda _: 0
        self.probed: list[tuple[float, str, ProbeType]] = []
        self.closed = False
        self.manager = ProberManager(
            statuses=cast("StatusManager", self),
            prober=cast("Prober", self),
            changed=self._changed,
            clock=self.clock,
            rand=lambda: 0.5,
        )

    def pod_status(self, uid: str, /) -> PodStatus | None:
        return self.statuses.get(uid)

    async def probe(self, subject: ProbedContainer, _status: PodStatus, _container_id: str) -> ProbeOutcome | None:
        self.probed.append((self.clock.monotonic(), subject.container.name, subject.kind))
        await asyncio.sleep(self.takes_seconds(subject))
        return self.found(subject)

    async def close(self) -> None:
        self.closed = True

    def run_containers(self, of: Pod, *, attempt: int = 1, started: bool = True) -> None:
        """Set the statuses of all containers of a pod to running."""
        running = ContainerState(running=ContainerStateRunning(started_at=format_time(self.clock.now())))

        def shown(one: Container) -> ContainerStatus:
            id = f"test://{of.metadata.uid}-{one.name}-{attempt}"
            return ContainerStatus(name=one.name, container_id=id, state=running, started=started)

        self.statuses[of.metadata.uid] = PodStatus(
            phase="Running",
            container_statuses=tuple(map(shown, of.spec.containers)),
            init_container_statuses=tuple(map(shown, of.spec.init_containers)),
        )

    def times(self, name: str, kind: ProbeType) -> list[float]:
        """When a container was probed."""
        return [at for at, probed, of_kind in self.probed if (probed, of_kind) == (name, kind)]

    def verdicts(self, kind: ProbeType) -> list[ProbeOutcome]:
        """The reported results of a kind of probe, in order."""
        return [change.verdict for change in self.changes if change.kind == kind]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            ready = asyncio.Event()
            task = group.create_task(self.manager.run(ready))
            await ready.wait()
            yield
            task.cancel()

    def _changed(self, change: ProbeResult) -> None:
        self.changes.append(change)


def probed_container(name: str = "c", **probes: Probe) -> Container:
    fields: dict[str, Any] = {f"{kind}_probe": spec for kind, spec in probes.items()}
    return container(name, **fields)
