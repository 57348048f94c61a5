"""Removes dead containers and sandboxes, and logs of pods that are gone, once a minute.

In: what the runtime has, and which pods are gone, as the workers know it. What may go is decided in `gc_plan.py`.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_gc.go, pkg/kubelet/pod_container_deletor.go
"""

import asyncio
from itertools import chain
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.keys import PodUid
from pykubelet.runtime.events import WARNING, Events
from pykubelet.runtime.gc_plan import GcPolicy, Removal, containers_to_remove, dead_beyond, sandboxes_to_remove
from pykubelet.runtime.log_directory import LogDirectory
from pykubelet.runtime.protocol import ContainerState, Runtime, RuntimeFailure, RuntimePod
from pykubelet.runtime.removal import ContainerRemover

log = get_logger(__name__)

PERIOD_SECONDS = 60.0


class PodStates(Protocol):
    """Which pods are over; the pod workers know."""

    def all_sources_ready(self) -> bool:
        """Whether every pod that should be here is known by now."""

    def should_pod_content_be_removed(self, uid: PodUid) -> bool:
        """Whether the pod is gone or evicted and nothing of it runs."""

    def should_pod_runtime_be_removed(self, uid: PodUid) -> bool:
        """Whether nothing of the pod runs, gone or not."""


class ContainerGc:
    """Collects the garbage of a runtime."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        remover: ContainerRemover,
        logs: LogDirectory,
        states: PodStates,
        events: Events,
        node: ObjectReference,
        clock: Clock,
        policy: GcPolicy,
    ) -> None:
        self._runtime, self._remover, self._logs, self._states = runtime, remover, logs, states
        self._events, self._node, self._clock, self._policy = events, node, clock, policy

    async def run(self, ready: asyncio.Event) -> None:
        """Collect until cancelled."""
        ready.set()
        while True:
            try:
                await self.collect()
            except (RuntimeFailure, OSError) as error:
                self._events.event(self._node, WARNING, "ContainerGCFailed", str(error))
            await asyncio.sleep(PERIOD_SECONDS)

    async def collect(self, *, is_urgent: bool = False) -> None:
        """Remove what may go; if the disk is full, also what pods that are over but not gone have left."""

        def is_gone(uid: PodUid) -> bool:
            return self._states.should_pod_content_be_removed(uid) or (
                is_urgent and self._states.should_pod_runtime_be_removed(uid)
            )

        all_ready = self._states.all_sources_ready()
        pods = await self._runtime.pods()
        now = self._clock.now()
        removals = containers_to_remove(pods, self._policy, now, is_gone=lambda uid: all_ready and is_gone(uid))
        if removals:
            await self._remove_containers({pod.uid: pod for pod in pods}, removals)
            pods = await self._runtime.pods()
        for sandbox_id in sandboxes_to_remove(pods, is_gone=is_gone):
            await self._remove_sandbox(sandbox_id)
        if all_ready:
            await self._logs.remove_pods(self._states.should_pod_content_be_removed)
        alive = {one.id for pod in pods for one in pod.containers if one.state != ContainerState.EXITED}
        await self._logs.remove_dead_links(alive)

    async def prune(self, pod: RuntimePod) -> None:
        """Of the dead containers of each name, keep as many as the policy says, at least the newest."""
        keep = max(self._policy.max_per_container, 1)
        newest = {one.name: one.id for one in reversed(pod.containers)}
        surplus = (dead_beyond(pod, keep, container_id=container_id) for container_id in newest.values())
        await self._remove_dead(pod, tuple(chain.from_iterable(surplus)))

    async def remove_dead(self, pod: RuntimePod) -> None:
        """Remove all dead containers of a pod, as of one that was evicted."""
        await self._remove_dead(pod, dead_beyond(pod, 0))

    async def _remove_dead(self, pod: RuntimePod, ids: tuple[str, ...]) -> None:
        await self._remover.remove(pod, [Removal(container_id, stop_first=False) for container_id in ids])

    async def _remove_containers(self, pods: dict[PodUid, RuntimePod], removals: tuple[Removal, ...]) -> None:
        owners = {container.id: pod for pod in pods.values() for container in pod.containers}
        for removal in removals:
            await self._remover.remove(owners[removal.container_id], [removal])

    async def _remove_sandbox(self, sandbox_id: str) -> None:
        try:
            # It should have been stopped already; its network is given back for sure only then.
            await self._runtime.stop(sandbox_id, 0)
            await self._runtime.remove(sandbox_id)
        except RuntimeFailure as failure:
            log.warning("sandbox not removed", sandbox_id=sandbox_id, cause=failure.message)
