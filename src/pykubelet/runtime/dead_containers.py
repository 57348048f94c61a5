"""Removes what is left of pods that are gone, as soon as their last container has ended.

In: hints from the loop that a container died, or that a pod was evicted. Out: calls to the garbage collector, in the
background: a runtime that does not answer holds up nobody else. Of pods that stay, their workers remove what is too
much, once they have reported it.

Upstream: pkg/kubelet/pod_container_deletor.go, cleanUpContainersInPod in pkg/kubelet/kubelet.go
"""

import asyncio
from collections.abc import Callable

from pykubelet.aio.keyed_queue import KeyedQueue
from pykubelet.aio.log import get_logger
from pykubelet.aio.supervise import start_supervised
from pykubelet.api.keys import PodUid
from pykubelet.runtime.gc import ContainerGc
from pykubelet.runtime.protocol import Runtime, RuntimeFailure

log = get_logger(__name__)

_REMOVERS = 4


class DeadContainers:
    """Containers that have ended. `is_gone` says of a pod that nothing of it need be kept."""

    def __init__(self, *, runtime: Runtime, gc: ContainerGc, is_gone: Callable[[PodUid], bool]) -> None:
        self._runtime, self._gc, self._is_gone = runtime, gc, is_gone
        self._asked: KeyedQueue[PodUid, None] = KeyedQueue()

    def prune(self, uid: PodUid, container_id: str) -> None:  # noqa: ARG002  of a pod that is gone, all may go
        """A container has ended: if its pod is gone, so is the reason to keep anything of it. Never waits."""
        if self._is_gone(uid):
            self.remove_all(uid)

    def remove_all(self, uid: PodUid) -> None:
        """Remove everything of a pod that has ended. Never waits."""
        self._asked.put(uid, None)

    async def run(self, ready: asyncio.Event) -> None:
        """Remove what is asked for, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(_REMOVERS):
                start_supervised(group, f"remover of dead containers {number + 1}", self._work)
            ready.set()

    async def _work(self) -> None:
        while True:
            uid, _ = await self._asked.get()
            try:
                pod = await self._runtime.inspect(uid)
                if pod is not None:
                    await self._gc.remove_dead(pod)
            except RuntimeFailure as failure:
                # The next collection finds them.
                log.debug("dead containers not removed", pod_uid=uid, cause=failure.message)
            finally:
                self._asked.done(uid)
