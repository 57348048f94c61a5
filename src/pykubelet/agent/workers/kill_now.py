"""Kills a pod because the node needs it to: eviction, shutdown, preemption. Waits until it is done.

In: a pod, how long it gets, what its status is to say. Out: nothing of it runs, or KillTimedOut; the worker goes on trying
then. Upstream: killPodNow in pkg/kubelet/pod_workers.go.
"""

import asyncio

from pykubelet.agent.flow import PodKill, PodWork, SyncType
from pykubelet.agent.workers.pool import WorkerPool
from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.kube.recorder import WARNING, EventRecorder, reference_to

EXCEEDED_GRACE_PERIOD = "ExceededGracePeriod"
# The runtime gets as long at least, to carry out even the shortest kill.
_SHORTEST_TIMEOUT_SECONDS = 10


class KillTimedOut(Exception):
    """The pod was not stopped in time."""


class PodKiller:
    """Kills pods through their workers."""

    def __init__(self, *, workers: WorkerPool, recorder: EventRecorder) -> None:
        self._workers, self._recorder = workers, recorder

    async def kill_now(self, pod: Pod, kill: PodKill) -> None:
        """Kill a pod and wait until none of its containers can run any more; KillTimedOut if that takes too long."""
        self._workers.update(PodWork(SyncType.KILL, pod, kill=kill))
        try:
            async with asyncio.timeout(timeout_seconds(pod, kill)):
                await self._workers.until_stopped(PodUid(pod.metadata.uid))
        except TimeoutError:
            message = "Container runtime did not kill the pod within specified grace period."
            self._recorder.event(reference_to(pod), WARNING, EXCEEDED_GRACE_PERIOD, message)
            raise KillTimedOut("timeout waiting to kill pod") from None


def timeout_seconds(pod: Pod, kill: PodKill) -> int:
    """One and a half times the grace, ten seconds at least."""
    grace = kill.grace_seconds if kill.grace_seconds is not None else pod.spec.termination_grace_period_seconds or 0
    return max(grace + grace // 2, _SHORTEST_TIMEOUT_SECONDS)
