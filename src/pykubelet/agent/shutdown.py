"""Lets a node go down in good order: it takes no more pods, and those it has end, group by group.

In: being told to. Out: a node that is not ready and takes nobody, pods that ended with time to do so, and statuses that say
why. The order is that of `shutdown_plan.py`. The machine's own shutdown is heard of as any program hears of it, by SIGTERM:
there is no way to systemd's inhibitor locks here.

Upstream: pkg/kubelet/nodeshutdown
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from pykubelet.agent.flow import PodKill, WorkerState
from pykubelet.agent.housekeeping_plan import is_active
from pykubelet.agent.shutdown_plan import ShutdownGroup, ShutdownPeriod, grace_seconds, shut_down, shutdown_groups
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import ObjectReference, Pod, PodStatus
from pykubelet.api.keys import PodUid
from pykubelet.api.pods import pod_label
from pykubelet.kube.recorder import NORMAL, EventRecorder

log = get_logger(__name__)

LAST_SECONDS = 5.0
"""After the last group: for what was killed in its last second, and until the API server knows how all ended."""
_LOOK_SECONDS = 0.05


class Killer(Protocol):
    """Kills pods and waits for it."""

    async def kill_now(self, pod: Pod, kill: PodKill) -> None:
        """Kill a pod; raises if that takes too long."""


class Pods(Protocol):
    """The pods of this node."""

    def pods(self) -> tuple[Pod, ...]:
        """All of them, mirrors not."""


class Workers(Protocol):
    """What the workers know."""

    def state(self, uid: PodUid) -> WorkerState | None:
        """Where the worker of a pod is; None if there is none."""


class Statuses(Protocol):
    """The statuses of pods."""

    def pod_status(self, uid: str) -> PodStatus | None:
        """The newest status of a pod."""

    def has_unsent(self) -> bool:
        """Whether the API server does not know all of them yet."""


class NodeShutdown:
    """The end of one node; without periods nothing is done, and pods go on."""

    def __init__(
        self,
        *,
        periods: Sequence[ShutdownPeriod],
        pods: Pods,
        workers: Workers,
        statuses: Statuses,
        killer: Killer,
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
        kill = PodKill(
            grace_seconds=grace_seconds(pod, group), change_status=partial(shut_down, pod.metadata.generation)
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
            if all(state in {None, WorkerState.FINISHED} for state in states) and not self._statuses.has_unsent():
                return
            await asyncio.sleep(_LOOK_SECONDS)


async def _done(tasks: Sequence["asyncio.Task[None]"], seconds: float) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
