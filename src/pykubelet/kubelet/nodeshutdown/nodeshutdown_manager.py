"""Lets a node go down in good order: it takes no more pods, and those it has end, group by group.

In: being told to. Out: a node that is not ready and takes nobody, pods that ended with time to do so, and statuses that say
why. The order is that of `shutdown_plan.py`. The machine's own shutdown is heard of as any program hears of it, by SIGTERM:
there is no way to systemd's inhibitor locks here.

Upstream: pkg/kubelet/nodeshutdown

In which order pods end when their node goes down, how long each gets, what its status says.

Pure. Pods of the lowest priorities go first, all of a group at once; with the usual settings there are two groups, and
the second has the critical pods. Upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager.go
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import ObjectReference, Pod, PodCondition, PodStatus
from pykubelet.api.pods import SYSTEM_CRITICAL_PRIORITY, PodUid, pod_label
from pykubelet.client.recorder import NORMAL, EventRecorder
from pykubelet.kubelet.status.conditions import replace_or_append
from pykubelet.kubelet.types import KillPodOptions, PodWorkerState, is_active

REASON = "Terminated"
MESSAGE = "Pod was terminated in response to imminent node shutdown."


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownPeriod:
    """How long pods get that have this priority or more, up to that of the next period."""

    priority: int
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownGroup:
    """Pods that end together."""

    seconds: int
    pods: tuple[Pod, ...]


def shutdown_periods(grace_seconds: int, critical_seconds: int) -> tuple[ShutdownPeriod, ...]:
    """All of the grace, of which the last part is for critical pods; none if there is no grace. ValueError if it cannot be."""
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
    """The groups in their order, those without pods left out; `periods` are at least one."""
    ordered = sorted(periods, key=lambda period: period.priority)
    priorities = [period.priority for period in ordered]
    members: list[list[Pod]] = [[] for _ in ordered]
    for pod in pods:
        # Below the lowest counts as the lowest.
        members[max(bisect_right(priorities, pod.spec.priority or 0) - 1, 0)].append(pod)
    return tuple(
        ShutdownGroup(seconds=period.seconds, pods=tuple(found))
        for period, found in zip(ordered, members, strict=True)
        if found
    )


def grace_seconds(pod: Pod, group: ShutdownGroup) -> int:
    """How long a pod gets to end: what its group has, or less if it wants less."""
    wanted = pod.spec.termination_grace_period_seconds
    return group.seconds if wanted is None else min(wanted, group.seconds)


def shutdown_status(generation: int, status: PodStatus) -> PodStatus:
    """The status of a pod that ends because its node does; one that has succeeded already did so."""
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


log = get_logger(__name__)

LAST_SECONDS = 5.0
"""After the last group: for what was killed in its last second, and until the API server knows how all ended."""
_LOOK_SECONDS = 0.05


class ShutdownKiller(Protocol):
    """Kills pods and waits for it."""

    async def kill_now(self, pod: Pod, kill: KillPodOptions) -> None:
        """Kill a pod; raises if that takes too long."""


class ShutdownPods(Protocol):
    """The pods of this node."""

    def pods(self) -> tuple[Pod, ...]:
        """All of them, mirrors not."""


class ShutdownWorkers(Protocol):
    """What the workers know."""

    def state(self, uid: PodUid) -> PodWorkerState | None:
        """Where the worker of a pod is; None if there is none."""


class ShutdownStatuses(Protocol):
    """The statuses of pods."""

    def pod_status(self, uid: str) -> PodStatus | None:
        """The newest status of a pod."""

    def has_unsent(self) -> bool:
        """Whether the API server does not know all of them yet."""


class NodeShutdownManager:
    """The end of one node; without periods nothing is done, and pods go on."""

    def __init__(
        self,
        *,
        periods: Sequence[ShutdownPeriod],
        pods: ShutdownPods,
        workers: ShutdownWorkers,
        statuses: ShutdownStatuses,
        killer: ShutdownKiller,
        announce: Callable[[], None],
        recorder: EventRecorder,
        node: ObjectReference,
    ) -> None:
        """`announce` tells the rest of the node: from then on it is not ready and lets no pod in."""
        self._periods, self._pods, self._workers, self._statuses = tuple(periods), pods, workers, statuses
        self._killer, self._announce, self._recorder, self._node = killer, announce, recorder, node

    async def shut_down(self) -> None:
        """End all pods, in good order; returns when that is done, or the time for it has passed."""
        if not self._periods:
            return
        log.info("the node goes down", seconds=sum(period.seconds for period in self._periods))
        self._recorder.event(self._node, NORMAL, "NodeShutdown", "Shutdown manager detected shutdown event")
        self._announce()
        pods = self.active_pods()
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

    def active_pods(self) -> tuple[Pod, ...]:
        """The pods that have not come to their end."""
        return tuple(pod for pod in self._pods.pods() if self._is_active(pod))

    def _is_active(self, pod: Pod) -> bool:
        uid = PodUid(pod.metadata.uid)
        own = self._statuses.pod_status(uid)
        return is_active(pod, self._workers.state(uid), own.phase if own is not None else "")

    async def _kill(self, pod: Pod, group: ShutdownGroup) -> None:
        kill = KillPodOptions(
            grace_seconds=grace_seconds(pod, group), change_status=partial(shutdown_status, pod.metadata.generation)
        )
        try:
            await self._killer.kill_now(pod, kill)
        except Exception as error:  # noqa: BLE001  one that cannot be ended must not keep the others from ending
            log.warning("pod not ended in time", pod=pod_label(pod), cause=str(error))

    async def _settle(self, pods: Iterable[Pod]) -> None:
        """Wait a moment for volumes to be unmounted, and for the API server to hear of everything."""
        uids = [PodUid(pod.metadata.uid) for pod in pods]
        for _ in range(int(LAST_SECONDS / _LOOK_SECONDS)):
            states = map(self._workers.state, uids)
            if all(state in {None, PodWorkerState.FINISHED} for state in states) and not self._statuses.has_unsent():
                return
            await asyncio.sleep(_LOOK_SECONDS)


async def _done(tasks: Sequence["asyncio.Task[None]"], seconds: float) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
