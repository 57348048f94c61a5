"""Removes dead containers, sandboxes and the logs of pods that are gone.

`ContainerGc` collects once a minute; `PodContainerDeletor` removes the containers of a deleted or evicted pod as soon as
the last one has ended. Dead containers are kept for their logs and exit codes, a few for each container name; those that
a status shows also until the API has their exit, so that no exit code is lost if the node is killed.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_gc.go, pkg/kubelet/pod_container_deletor.go,
pkg/kubelet/container/container_gc.go
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.pods import PodUid
from pykubelet.client.recorder import WARNING, EventRecorder
from pykubelet.kubelet.kuberuntime.termination import ContainerKiller, container_spec, pod_from_runtime
from pykubelet.kubelet.logs.log_directory import LogDirectory, pod_names
from pykubelet.runtimes.protocol import ContainerState, Runtime, RuntimeContainer, RuntimeFailure, RuntimePod

log = get_logger(__name__)

CONTAINER_GC_PERIOD_SECONDS = 60.0
_REMOVERS = 4
_STOPPED_FIRST = "Container is in unknown state, try killing it before removal"

# A status shows of each container the newest instance, and the end of the one before it.
_SHOWN_IN_STATUS = 2

IsGone = Callable[[PodUid], bool]
"""Whether nothing of a pod has to be kept."""
IsExitReported = Callable[[PodUid, str], bool | None]
"""Whether the API has the exit of a pod's container, given by its ID; None if the pod has no status."""

_Groups = dict[tuple[PodUid, str], list[RuntimeContainer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GcPolicy:
    """How many dead containers to keep per container name and in total; a negative number means no limit."""

    min_age_seconds: float = 0.0
    max_per_container: int = 1
    max_containers: int = -1


@dataclass(frozen=True, slots=True)
class ContainerRemoval:
    """A container to remove; with `stop_first` it may still run."""

    container_id: str
    stop_first: bool


def containers_to_remove(
    pods: Iterable[RuntimePod], policy: GcPolicy, now: datetime, *, is_gone: IsGone, is_exit_reported: IsExitReported
) -> tuple[ContainerRemoval, ...]:
    """The containers beyond the policy, the oldest of each group first."""
    groups = _dead(pods, now, policy.min_age_seconds)
    removed: list[RuntimeContainer] = []
    for key in [key for key in groups if is_gone(key[0])]:
        group = groups.pop(key)
        removed += reversed(group[_awaited(key[0], [one.id for one in group], is_exit_reported) :])
    unreported = {key: _unreported(key[0], [one.id for one in groups[key]], is_exit_reported) for key in groups}
    if policy.max_per_container >= 0:
        removed += _cut(groups, {key: max(policy.max_per_container, unreported[key]) for key in groups})
    groups = {key: group for key, group in groups.items() if not unreported[key]}
    if policy.max_containers >= 0 and sum(map(len, groups.values())) > policy.max_containers:
        # An equal share for each, so that one that crashes often does not displace the last container of another.
        removed += _cut(groups, dict.fromkeys(groups, max(policy.max_containers // len(groups), 1)))
        rest = sorted((one for group in groups.values() for one in group), key=_age)
        removed += rest[: max(len(rest) - policy.max_containers, 0)]
    return tuple(ContainerRemoval(one.id, one.state == ContainerState.UNKNOWN) for one in removed)


def sandboxes_to_remove(pods: Iterable[RuntimePod], *, is_gone: IsGone) -> tuple[str, ...]:
    """The sandboxes that are dead and empty, the oldest of each pod first; a pod that is not gone keeps its newest."""
    removed = []
    for pod in pods:
        used = {container.sandbox_id for container in pod.containers}
        oldest_first = sorted(pod.sandboxes, key=lambda sandbox: sandbox.created_at)
        candidates = oldest_first if is_gone(pod.uid) else oldest_first[:-1]
        removed += [one.id for one in candidates if not one.is_ready and one.id not in used]
    return tuple(removed)


def dead_beyond(pod: RuntimePod, keep: int, *, container_id: str = "") -> tuple[str, ...]:
    """The exited containers beyond the newest `keep`: of the given container's name, else of the whole pod."""
    name = next((one.name for one in pod.containers if one.id == container_id), None)
    if container_id and name is None:
        return ()
    dead = [one for one in pod.containers if one.state == ContainerState.EXITED and name in {None, one.name}]
    newest_first = sorted(dead, key=_attempt if container_id else _age, reverse=True)
    return tuple(one.id for one in newest_first[keep:])


def _dead(pods: Iterable[RuntimePod], now: datetime, min_age_seconds: float) -> _Groups:
    """The containers that do not run and are old enough, by pod and name, newest first.

    One from the future is: the clock was set back since its creation.
    """
    young = timedelta(seconds=min_age_seconds)
    groups: _Groups = {}
    for pod in pods:
        for one in sorted(pod.containers, key=_attempt, reverse=True):
            if one.state != ContainerState.RUNNING and not timedelta() <= now - one.created_at < young:
                groups.setdefault((pod.uid, one.name), []).append(one)
    return groups


def _unreported(uid: PodUid, dead: Sequence[str], is_exit_reported: IsExitReported) -> int:
    """How many of a name's dead containers, newest first, must stay until the API has their exit."""
    shown = enumerate(dead[:_SHOWN_IN_STATUS], 1)
    return max((number for number, container_id in shown if not is_exit_reported(uid, container_id)), default=0)


def _awaited(uid: PodUid, dead: Sequence[str], is_exit_reported: IsExitReported) -> int:
    """Likewise of a pod that is gone: what is left of it without a status, no status will show."""
    return _unreported(uid, dead, lambda pod, container_id: is_exit_reported(pod, container_id) is not False)


def _cut(groups: _Groups, keep: Mapping[tuple[PodUid, str], int]) -> Sequence[RuntimeContainer]:
    """Takes the containers beyond the newest that are to be kept out of each group."""
    removed: list[RuntimeContainer] = []
    for key, group in groups.items():
        removed += reversed(group[keep[key] :])
        groups[key] = group[: keep[key]]
    return removed


def _age(container: RuntimeContainer) -> datetime:
    return container.created_at


def _attempt(container: RuntimeContainer) -> tuple[int, datetime]:
    """Orders the containers of one name, also if the clock was set back between two of them."""
    return container.attempt, container.created_at


class ContainerRemover:
    """Removes ended containers with their logs, the log first, because its path is only known with the container.

    Also removes containers that were never started; they keep their log, whose name has the restart count.
    """

    def __init__(self, *, runtime: Runtime, logs: LogDirectory, killer: ContainerKiller) -> None:
        self._runtime, self.logs, self._killer = runtime, logs, killer

    async def remove(self, pod: RuntimePod, removals: Iterable[ContainerRemoval]) -> None:
        """Remove containers of a pod, in the given order. A failure is logged; the next collection tries again."""
        containers = {container.id: container for container in pod.containers}
        for removal in removals:
            container = containers.pop(removal.container_id, None)
            if container is None:
                continue
            try:
                await self._remove(pod, container, stop_first=removal.stop_first)
            except RuntimeFailure as failure:
                facts = {"pod": f"{pod.namespace}/{pod.name}", "container": container.name}
                log.warning("container not removed", cause=failure.message, **facts)

    async def remove_ended(self, pod: RuntimePod, ids: Iterable[str]) -> None:
        """Remove containers that have ended, in the given order."""
        await self.remove(pod, [ContainerRemoval(container_id, stop_first=False) for container_id in ids])

    async def remove_unstarted(self, pod: RuntimePod, name: str) -> None:
        """Remove the containers of this name that were created and not started, before the next one is created.

        A start may be in flight since before the kubelet was killed, or since a sync was cancelled. RuntimeFailure while
        the runtime still starts one, or if one runs by now: two containers of one name must never run.
        """
        if not any(one.name == name and one.state == ContainerState.CREATED for one in pod.containers):
            return
        # Read again: since the sync began an image may have been pulled, which takes long.
        current = await self._runtime.inspect(pod.uid)
        named = [one for one in current.containers if one.name == name] if current is not None else []
        for container in named:
            if container.state == ContainerState.CREATED:
                await self._runtime.remove(container.id)
        if any(one.state == ContainerState.RUNNING for one in named):
            raise RuntimeFailure(f'container "{name}" runs already: its last start has succeeded')

    async def _remove(self, pod: RuntimePod, container: RuntimeContainer, *, stop_first: bool) -> None:
        if stop_first:
            known = pod_from_runtime(pod)
            spec = container_spec(known, container.name)
            await self._killer.kill_container(known, spec, container.id, message=_STOPPED_FIRST)
        try:
            await self.logs.remove(pod_names(pod), container.name, container.attempt, container.id)
        except OSError as error:
            raise RuntimeFailure(f"its log cannot be removed: {error.strerror}") from error
        await self._runtime.remove(container.id)


class PodStateProvider(Protocol):
    """Which pods have ended; the pod workers above implement it."""

    def all_sources_ready(self) -> bool:
        """Whether all pods of this node are known; until then no pod counts as gone."""

    def should_pod_content_be_removed(self, uid: PodUid) -> bool:
        """Whether the pod is deleted or evicted and nothing of it runs."""

    def should_pod_runtime_be_removed(self, uid: PodUid) -> bool:
        """Whether nothing of the pod runs, deleted or not."""


class ContainerGc:
    """Removes dead containers, sandboxes and logs by policy, once a minute and on demand."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        remover: ContainerRemover,
        states: PodStateProvider,
        is_exit_reported: IsExitReported,
        events: EventRecorder,
        node: ObjectReference,
        clock: Clock,
        policy: GcPolicy,
    ) -> None:
        self._runtime, self._remover, self._states = runtime, remover, states
        self._is_exit_reported = is_exit_reported
        self._events, self._node, self._clock, self._policy = events, node, clock, policy

    async def run(self, ready: asyncio.Event) -> None:
        """Collect every minute until cancelled."""
        ready.set()
        while True:
            try:
                await self.collect()
            except (RuntimeFailure, OSError) as error:
                self._events.event(self._node, WARNING, "ContainerGCFailed", str(error))
            await asyncio.sleep(CONTAINER_GC_PERIOD_SECONDS)

    async def collect(self, *, is_urgent: bool = False) -> None:
        """Remove what the policy allows; with `is_urgent`, because the disk is full, also what ended pods have left."""

        def is_gone(uid: PodUid) -> bool:
            return self._states.should_pod_content_be_removed(uid) or (
                is_urgent and self._states.should_pod_runtime_be_removed(uid)
            )

        all_ready = self._states.all_sources_ready()
        pods = await self._runtime.pods()
        now = self._clock.now()
        removals = containers_to_remove(
            pods,
            self._policy,
            now,
            is_gone=lambda uid: all_ready and is_gone(uid),
            is_exit_reported=self._is_exit_reported,
        )
        if removals:
            owners = {container.id: pod for pod in pods for container in pod.containers}
            for removal in removals:
                await self._remover.remove(owners[removal.container_id], [removal])
            pods = await self._runtime.pods()
        for sandbox_id in sandboxes_to_remove(pods, is_gone=is_gone):
            await self._remove_sandbox(sandbox_id)
        if all_ready:
            await self._remover.logs.remove_pods(self._states.should_pod_content_be_removed)
        alive = {one.id for pod in pods for one in pod.containers if one.state != ContainerState.EXITED}
        await self._remover.logs.remove_dead_links(alive)

    async def prune(self, pod: RuntimePod) -> None:
        """Remove dead containers of a pod beyond the policy's number for each name; at least the newest stays."""
        surplus: list[str] = []
        for container_id in {one.name: one.id for one in pod.containers}.values():
            dead = dead_beyond(pod, 0, container_id=container_id)
            unreported = _unreported(pod.uid, dead, self._is_exit_reported)
            surplus += reversed(dead[max(self._policy.max_per_container, unreported, 1) :])
        await self._remover.remove_ended(pod, surplus)

    async def remove_dead(self, pod: RuntimePod) -> None:
        """Remove the dead containers of a pod that is gone, but those whose exit the API still has to get.

        The newest of a name goes last: a status in between would show an older one, with fewer restarts.
        """
        surplus: list[str] = []
        for container_id in {one.name: one.id for one in pod.containers}.values():
            dead = dead_beyond(pod, 0, container_id=container_id)
            surplus += reversed(dead[_awaited(pod.uid, dead, self._is_exit_reported) :])
        await self._remover.remove_ended(pod, surplus)

    async def _remove_sandbox(self, sandbox_id: str) -> None:
        try:
            # Usually it is stopped already; stopping again makes sure that its network is released.
            await self._runtime.stop(sandbox_id, 0)
            await self._runtime.remove(sandbox_id)
        except RuntimeFailure as failure:
            log.warning("sandbox not removed", sandbox_id=sandbox_id, cause=failure.message)


class PodContainerDeletor:
    """Removes the containers of pods that are gone, in the background, so that a slow runtime delays only itself."""

    def __init__(self, *, runtime: Runtime, gc: ContainerGc, is_gone: Callable[[PodUid], bool]) -> None:
        self._runtime, self._gc, self._is_gone = runtime, gc, is_gone
        self._queue: KeyedQueue[PodUid, None] = KeyedQueue()

    def prune(self, uid: PodUid) -> None:
        """Handle the end of a container: if its pod is gone, remove all containers of the pod. Never waits."""
        if self._is_gone(uid):
            self.remove_all(uid)

    def remove_all(self, uid: PodUid) -> None:
        """Queue the removal of all dead containers of a pod. Never waits."""
        self._queue.put(uid, None)

    async def run(self, ready: asyncio.Event) -> None:
        """Remove queued containers until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(_REMOVERS):
                start_supervised(group, f"remover of dead containers {number + 1}", self._work)
            ready.set()

    async def _work(self) -> None:
        while True:
            uid, _ = await self._queue.get()
            try:
                pod = await self._runtime.inspect(uid)
                if pod is not None:
                    await self._gc.remove_dead(pod)
            except RuntimeFailure as failure:
                # The next collection tries again.
                log.debug("dead containers not removed", pod_uid=uid, cause=failure.message)
            finally:
                self._queue.done(uid)
