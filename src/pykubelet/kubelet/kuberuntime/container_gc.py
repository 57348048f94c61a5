"""Removes dead containers and sandboxes, and logs of pods that are gone, once a minute.

In: what the runtime has, and which pods are gone, as the workers know it. What may go is decided in `gc_plan.py`.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_gc.go, pkg/kubelet/pod_container_deletor.go

Removes what is left of pods that are gone, as soon as their last container has ended.

In: hints from the loop that a container died, or that a pod was evicted. Out: calls to the garbage collector, in the
background: a runtime that does not answer holds up nobody else. Of pods that stay, their workers remove what is too
much, once they have reported it.

Upstream: pkg/kubelet/pod_container_deletor.go, cleanUpContainersInPod in pkg/kubelet/kubelet.go

Removes containers with their logs: the log first, for without the container nobody would find it.

Upstream: removeContainer in pkg/kubelet/kuberuntime/kuberuntime_container.go

Which dead containers and sandboxes may go, and in which order.

The runtime's view and a policy in, ids out; pure. Dead containers are kept for their logs and exit codes, a few of each
name; those of pods that are gone are not. Time is passed in. Upstream: pkg/kubelet/kuberuntime/kuberuntime_gc.go,
pkg/kubelet/pod_container_deletor.go.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.events import WARNING, EventReporter
from pykubelet.kubelet.kuberuntime.termination import ContainerKiller, bare_pod, spec_of
from pykubelet.kubelet.logs.log_directory import LogDirectory, pod_names
from pykubelet.runtimes.protocol import ContainerState, Runtime, RuntimeContainer, RuntimeFailure, RuntimePod

IsGone = Callable[[PodUid], bool]
"""Whether nothing of a pod is to be kept."""

_Groups = dict[tuple[PodUid, str], list[RuntimeContainer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GcPolicy:
    """How many dead containers to keep of each name of a pod, and in all; below zero there is no limit."""

    min_age_seconds: float = 0.0
    max_per_container: int = 1
    max_containers: int = -1


@dataclass(frozen=True, slots=True)
class ContainerRemoval:
    """A container to remove; one that may still run is to be stopped before."""

    container_id: str
    stop_first: bool


def containers_to_remove(
    pods: Iterable[RuntimePod], policy: GcPolicy, now: datetime, *, is_gone: IsGone
) -> tuple[ContainerRemoval, ...]:
    """The containers beyond the policy, the oldest of each group first. Until all sources are ready no pod is gone."""
    groups = _dead(pods, now - timedelta(seconds=policy.min_age_seconds))
    removed: list[RuntimeContainer] = []
    for key in [key for key in groups if is_gone(key[0])]:
        removed += reversed(groups.pop(key))
    if policy.max_per_container >= 0:
        removed += _cut(groups, policy.max_per_container)
    if policy.max_containers >= 0 and _total(groups) > policy.max_containers:
        # An equal share for each, so that one that crashes often does not push out the only trace of another.
        removed += _cut(groups, max(policy.max_containers // len(groups), 1))
        rest = sorted((one for group in groups.values() for one in group), key=_age)
        removed += rest[: max(len(rest) - policy.max_containers, 0)]
    return tuple(ContainerRemoval(one.id, one.state == ContainerState.UNKNOWN) for one in removed)


def sandboxes_to_remove(pods: Iterable[RuntimePod], *, is_gone: IsGone) -> tuple[str, ...]:
    """The sandboxes that are dead and empty, the oldest of each pod first; a pod that lives keeps its newest."""
    removed = []
    for pod in pods:
        used = {container.sandbox_id for container in pod.containers}
        oldest_first = sorted(pod.sandboxes, key=lambda sandbox: sandbox.created_at)
        candidates = oldest_first if is_gone(pod.uid) else oldest_first[:-1]
        removed += [one.id for one in candidates if not one.is_ready and one.id not in used]
    return tuple(removed)


def dead_beyond(pod: RuntimePod, keep: int, *, container_id: str = "") -> tuple[str, ...]:
    """The exited containers beyond the newest few: of the name that the given container has, else of the whole pod."""
    name = next((one.name for one in pod.containers if one.id == container_id), None)
    if container_id and name is None:
        return ()
    dead = [one for one in pod.containers if one.state == ContainerState.EXITED and name in {None, one.name}]
    return tuple(one.id for one in sorted(dead, key=_age, reverse=True)[keep:])


def _dead(pods: Iterable[RuntimePod], newest: datetime) -> _Groups:
    """The containers that do not run and are old enough, by pod and name, newest first."""
    groups: _Groups = {}
    for pod in pods:
        for one in sorted(pod.containers, key=_age, reverse=True):
            if one.state != ContainerState.RUNNING and one.created_at <= newest:
                groups.setdefault((pod.uid, one.name), []).append(one)
    return groups


def _cut(groups: _Groups, keep: int) -> Sequence[RuntimeContainer]:
    """Take what is beyond the newest few out of each group."""
    removed: list[RuntimeContainer] = []
    for key, group in groups.items():
        removed += reversed(group[keep:])
        groups[key] = group[:keep]
    return removed


def _total(groups: Mapping[tuple[PodUid, str], Sequence[RuntimeContainer]]) -> int:
    return sum(map(len, groups.values()))


def _age(container: RuntimeContainer) -> datetime:
    return container.created_at


log = get_logger(__name__)

_STOPPED_FIRST = "Container is in unknown state, try killing it before removal"


class ContainerRemover:
    """Removes containers that have ended."""

    def __init__(self, *, runtime: Runtime, logs: LogDirectory, killer: ContainerKiller) -> None:
        self._runtime, self._logs, self._killer = runtime, logs, killer

    async def remove(self, pod: RuntimePod, removals: Iterable[ContainerRemoval]) -> None:
        """Remove some containers of a pod. One that cannot be is told in the log and will be found again."""
        wanted = {removal.container_id: removal for removal in removals}
        # In the order asked for: the oldest go first, so that whoever is interrupted has kept the newest.
        containers = {container.id: container for container in pod.containers}
        for container_id, removal in wanted.items():
            container = containers.get(container_id)
            if container is None:
                continue
            try:
                await self._remove(pod, container, stop_first=removal.stop_first)
            except RuntimeFailure as failure:
                facts = {"pod": f"{pod.namespace}/{pod.name}", "container": container.name}
                log.warning("container not removed", cause=failure.message, **facts)

    async def _remove(self, pod: RuntimePod, container: RuntimeContainer, *, stop_first: bool) -> None:
        if stop_first:
            wanted = bare_pod(pod)
            spec = spec_of(wanted, container.name)
            await self._killer.kill_container(wanted, spec, container.id, message=_STOPPED_FIRST)
        try:
            await self._logs.remove(pod_names(pod), container.name, container.attempt, container.id)
        except OSError as error:
            raise RuntimeFailure(f"its log cannot be removed: {error.strerror}") from error
        await self._runtime.remove(container.id)


CONTAINER_GC_PERIOD_SECONDS = 60.0


class PodStateProvider(Protocol):
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
        states: PodStateProvider,
        events: EventReporter,
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
            await asyncio.sleep(CONTAINER_GC_PERIOD_SECONDS)

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
        await self._remover.remove(pod, [ContainerRemoval(container_id, stop_first=False) for container_id in ids])

    async def _remove_containers(self, pods: dict[PodUid, RuntimePod], removals: tuple[ContainerRemoval, ...]) -> None:
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


_REMOVERS = 4


class PodContainerDeletor:
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
