"""Ends containers: the pre-stop hook first, sidecars last, all within the grace the pod gives.

In: a pod and what runs of it. Out: what came of it; when it is done, nothing runs. Cancelling it leaves alone what was not
told to stop yet.

Upstream: killContainer, killContainersWithSyncResult in pkg/kubelet/kuberuntime/kuberuntime_container.go

In what order the containers of a pod end: sidecars after all others, the last of them first.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_termination_order.go
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Container, LifecycleHandler, Pod, PodSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.pods import is_restartable_init_container
from pykubelet.kubelet.events import (
    NORMAL,
    WARNING,
    AnyContainer,
    EventReporter,
    container_reference,
    format_pod,
    without_id,
)
from pykubelet.kubelet.kuberuntime.pod_actions import (
    MINIMUM_GRACE_SECONDS,
    KillReason,
    SyncAction,
    SyncResult,
    failed_result,
    kill_grace_seconds,
)
from pykubelet.kubelet.lifecycle.handlers import HandlerRunner, HookFailure
from pykubelet.runtimes.protocol import ContainerState, Runtime, RuntimeFailure, RuntimePod


def waits_for(pod: Pod, running: Collection[str]) -> Mapping[str, frozenset[str]]:
    """For each sidecar that runs, the running containers that must have ended before it is told to."""
    sidecars = [one.name for one in pod.spec.init_containers if is_restartable_init_container(one)]
    regular = [one.name for one in pod.spec.containers]
    return {
        name: frozenset(running).intersection((*regular, *sidecars[index + 1 :]))
        for index, name in enumerate(sidecars)
        if name in running
    }


log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TerminationOrdering:
    """Who waits for whom when a whole pod ends, and who has ended."""

    waits_for: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ended: Mapping[str, asyncio.Event] = field(default_factory=dict)

    async def wait(self, name: str, limit_seconds: float) -> None:
        """Wait for a container's turn, but no longer than its grace."""
        try:
            async with asyncio.timeout(limit_seconds):
                for other in self.waits_for.get(name, ()):
                    await self.ended[other].wait()
        except TimeoutError:
            log.info("container ends before its turn, its grace is over", container=name)

    def note_end(self, name: str) -> None:
        """A container has ended."""
        if name in self.ended:
            self.ended[name].set()


NO_ORDERING = TerminationOrdering()


class ContainerKiller:
    """Ends containers and pods."""

    def __init__(self, *, runtime: Runtime, hooks: HandlerRunner, events: EventReporter, clock: Clock) -> None:
        self._runtime, self._hooks, self._events, self._clock = runtime, hooks, events, clock

    async def kill_pod(
        self, pod: Pod | None, observed: RuntimePod, *, grace_seconds: int | None = None
    ) -> tuple[SyncResult, ...]:
        """End all that runs of a pod, then its sandboxes; `grace_seconds` goes before what the pod says.

        A pod nobody knows any more is None: its containers have no hooks then.
        """
        wanted = pod if pod is not None else bare_pod(observed)
        running = [one for one in observed.containers if one.state == ContainerState.RUNNING]
        names = {one.name for one in running}
        turns = TerminationOrdering(waits_for(wanted, names), {name: asyncio.Event() for name in names})
        async with asyncio.TaskGroup() as group:
            kills = [
                group.create_task(
                    self._kill_one(wanted, one.id, one.name, grace_seconds=grace_seconds, turns=turns),
                    name=f"kill {one.name} of {format_pod(wanted)}",
                )
                for one in running
            ]
        return *(kill.result() for kill in kills), await self._stop_sandboxes(observed)

    async def _kill_one(
        self, pod: Pod, container_id: str, name: str, *, grace_seconds: int | None, turns: TerminationOrdering
    ) -> SyncResult:
        container = spec_of(pod, name)
        try:
            await self.kill_container(pod, container, container_id, grace_seconds=grace_seconds, turns=turns)
        except RuntimeFailure as failure:
            return failed_result(SyncAction.KILL_CONTAINER, name, failure)
        return SyncResult(action=SyncAction.KILL_CONTAINER, target=name)

    async def _stop_sandboxes(self, observed: RuntimePod) -> SyncResult:
        result = SyncResult(action=SyncAction.KILL_SANDBOX, target=observed.uid)
        for sandbox in observed.sandboxes:
            try:
                # Whatever is still in it had its time.
                await self._runtime.stop(sandbox.id, 0)
            except RuntimeFailure as failure:
                result = failed_result(SyncAction.KILL_SANDBOX, observed.uid, failure)
        return result

    async def kill_container(
        self,
        pod: Pod,
        container: AnyContainer,
        container_id: str,
        *,
        message: str = "",
        reason: KillReason = KillReason.OTHER,
        grace_seconds: int | None = None,
        turns: TerminationOrdering = NO_ORDERING,
    ) -> None:
        """End one container; RuntimeFailure if it cannot be stopped."""
        grace = kill_grace_seconds(pod, container, reason)
        told = without_id(message or f"Stopping container {container.name}", container_id, container.name)
        self._events.event(container_reference(pod, container.name), NORMAL, "Killing", told)
        if grace_seconds is not None:
            grace = grace_seconds
        hook = container.lifecycle.pre_stop if container.lifecycle else None
        if hook is not None and grace > 0:
            grace -= await self._pre_stop(pod, container, container_id, hook, grace)
        if grace > 0:
            before = self._clock.monotonic()
            await turns.wait(container.name, grace)
            # Grace is counted in whole seconds: a fraction that passed is given, not taken.
            grace -= int(self._clock.monotonic() - before)
        await self._runtime.stop(container_id, max(grace, MINIMUM_GRACE_SECONDS))
        turns.note_end(container.name)

    async def _pre_stop(
        self, pod: Pod, container: AnyContainer, container_id: str, hook: LifecycleHandler, grace: int
    ) -> int:
        """Run the hook within the grace; how many whole seconds it took."""
        before = self._clock.monotonic()
        facts = {"pod": format_pod(pod), "container": container.name}
        try:
            async with asyncio.timeout(grace):
                await self._hooks.run(container_id, pod, container, hook)
        except TimeoutError:
            log.info("pre-stop hook not completed within the grace", grace_seconds=grace, **facts)
        except HookFailure as failure:
            # What the hook said may hold a secret, so the event does not tell.
            log.warning("pre-stop hook failed", cause=str(failure), **facts)
            self._events.event(
                container_reference(pod, container.name), WARNING, "FailedPreStopHook", "PreStopHook failed"
            )
        return int(self._clock.monotonic() - before)


def spec_of(pod: Pod, name: str) -> AnyContainer:
    """What a pod says about its container of this name; of one it does not list, only the name is known."""
    listed: tuple[AnyContainer, ...] = (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)
    return next((container for container in listed if container.name == name), Container(name=name))


def bare_pod(observed: RuntimePod) -> Pod:
    """All that is known of a pod which only the runtime knows."""
    names = dict.fromkeys(container.name for container in observed.containers)
    return Pod(
        metadata=ObjectMeta(name=observed.name, namespace=observed.namespace, uid=observed.uid),
        spec=PodSpec(containers=tuple(Container(name=name) for name in names)),
    )
