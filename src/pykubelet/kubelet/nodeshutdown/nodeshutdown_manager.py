"""Shuts a node down gracefully: stops admitting pods, then terminates them in groups by priority.

Pods of the lowest priorities terminate first; with the usual settings there are two groups, and the second has the
critical pods. The program learns of the machine's shutdown by SIGTERM; it takes no systemd inhibitor locks.

Upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager.go, pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go
"""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import ObjectReference, Pod, PodCondition, PodStatus
from pykubelet.api.pods import SYSTEM_CRITICAL_PRIORITY, PodUid, pod_label
from pykubelet.client.recorder import NORMAL, EventRecorder
from pykubelet.kubelet.nodestatus.node_status import NodeHealth
from pykubelet.kubelet.status.conditions import replace_or_append
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import KillPodOptions, PodWorkerState

log = get_logger(__name__)

REASON = "Terminated"
MESSAGE = "Pod was terminated in response to imminent node shutdown."
LAST_SECONDS = 5.0
"""How long to wait after the last group: for pods killed in its last second, and until all statuses are sent."""
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownPeriod:
    """The grace period of pods with at least this priority, up to that of the next period."""

    priority: int
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownGroup:
    """Pods that terminate together."""

    seconds: int
    pods: tuple[Pod, ...]


def shutdown_periods(grace_seconds: int, critical_seconds: int) -> tuple[ShutdownPeriod, ...]:
    """Split the grace period, its last part for critical pods; none without a grace period. ValueError if invalid."""
    if min(grace_seconds, critical_seconds) < 0:
        raise ValueError("the grace periods of a shutdown must not be negative")
    if critical_seconds > grace_seconds:
        raise ValueError(
            f"the shutdown grace period of critical pods, {critical_seconds}s, "
            f"must not be longer than the whole, {grace_seconds}s"
        )
    if not grace_seconds:
        return ()
    return (
        ShutdownPeriod(priority=0, seconds=grace_seconds - critical_seconds),
        ShutdownPeriod(priority=SYSTEM_CRITICAL_PRIORITY, seconds=critical_seconds),
    )


def shutdown_groups(periods: Sequence[ShutdownPeriod], pods: Iterable[Pod]) -> tuple[ShutdownGroup, ...]:
    """Group pods by period, in order, without empty groups; `periods` must not be empty."""
    ordered = sorted(periods, key=lambda period: period.priority)
    priorities = [period.priority for period in ordered]
    members: list[list[Pod]] = [[] for _ in ordered]
    for pod in pods:
        # A priority below the lowest counts as the lowest.
        members[max(bisect_right(priorities, pod.spec.priority or 0) - 1, 0)].append(pod)
    return tuple(
        ShutdownGroup(seconds=period.seconds, pods=tuple(found))
        for period, found in zip(ordered, members, strict=True)
        if found
    )


def grace_seconds(pod: Pod, group: ShutdownGroup) -> int:
    """The grace period of a pod: its group's, or its own if that is shorter."""
    own = pod.spec.termination_grace_period_seconds
    return group.seconds if own is None else min(own, group.seconds)


def shutdown_status(generation: int, status: PodStatus) -> PodStatus:
    """The status of a pod terminated by the shutdown; a succeeded pod stays Succeeded."""
    condition = PodCondition(
        type="DisruptionTarget",
        status="True",
        reason="TerminationByKubelet",
        message=MESSAGE,
        observed_generation=generation,
    )
    return replace(
        status,
        phase=status.phase if status.phase == "Succeeded" else "Failed",
        reason=REASON,
        message=MESSAGE,
        conditions=replace_or_append(status.conditions, condition),
    )


class ShutdownWorkers(Protocol):
    """The pod workers, which are above this package: they list, kill and finish pods."""

    def active_pods(self) -> tuple[Pod, ...]:
        """The pods that have not terminated."""

    def state(self, uid: PodUid) -> PodWorkerState | None:
        """The state of a pod's worker; None if it has none."""

    async def kill_now(self, pod: Pod, kill: KillPodOptions) -> None:
        """Kill a pod and wait until it stopped; raises if that takes too long."""


class NodeShutdownManager:
    """Shuts one node down; without periods it does nothing, and pods keep running."""

    def __init__(
        self,
        *,
        periods: Sequence[ShutdownPeriod],
        workers: ShutdownWorkers,
        statuses: StatusManager,
        health: NodeHealth,
        recorder: EventRecorder,
        node: ObjectReference,
    ) -> None:
        self._periods, self._workers, self._statuses = tuple(periods), workers, statuses
        self._health, self._recorder, self._node = health, recorder, node

    async def shut_down(self) -> None:
        """Terminate all pods; returns when they have stopped, or the grace period has passed."""
        if not self._periods:
            return
        log.info("node is shutting down", seconds=sum(period.seconds for period in self._periods))
        self._recorder.event(self._node, NORMAL, "NodeShutdown", "Shutdown manager detected shutdown event")
        self._health.note_shutdown()
        pods = self._workers.active_pods()
        async with asyncio.TaskGroup() as kills:
            tasks: list[asyncio.Task[None]] = []
            for group in shutdown_groups(self._periods, pods):
                ending = [kills.create_task(self._kill(pod, group), name=f"end {pod_label(pod)}") for pod in group.pods]
                tasks += ending
                await _done(ending, group.seconds)
            await _done(tasks, LAST_SECONDS)
            for task in tasks:
                task.cancel()
        await self._settle(pods)

    async def _kill(self, pod: Pod, group: ShutdownGroup) -> None:
        kill = KillPodOptions(
            grace_seconds=grace_seconds(pod, group), change_status=partial(shutdown_status, pod.metadata.generation)
        )
        try:
            await self._workers.kill_now(pod, kill)
        except Exception as error:  # noqa: BLE001  a pod that does not stop must not keep the others running
            log.warning("pod not stopped in time", pod=pod_label(pod), cause=str(error))

    async def _settle(self, pods: Iterable[Pod]) -> None:
        """Wait briefly until volumes are unmounted and the API server has all statuses."""
        uids = [PodUid(pod.metadata.uid) for pod in pods]
        for _ in range(int(LAST_SECONDS / _POLL_SECONDS)):
            states = map(self._workers.state, uids)
            if all(state in {None, PodWorkerState.FINISHED} for state in states) and not self._statuses.has_unsent():
                return
            await asyncio.sleep(_POLL_SECONDS)


async def _done(tasks: Sequence["asyncio.Task[None]"], seconds: float) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
