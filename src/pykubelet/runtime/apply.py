"""Carries out what the plan says about a pod: kill, make a sandbox, start containers.

In: a pod, what the runtime has of it, and the `PodActions` for it. Out: what came of each step; what users must know is
told as events. May be cancelled anywhere: nothing is undone, nothing is killed for it, and the next plan goes on from
what is there.

Upstream: SyncPod in pkg/kubelet/kuberuntime/kuberuntime_manager.go
"""

import asyncio
from collections.abc import Sequence

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import is_restartable_init_container
from pykubelet.runtime.actions import Kill, PodActions
from pykubelet.runtime.crash_backoff import CrashBackoff, back_off_event
from pykubelet.runtime.events import NORMAL, WARNING, AnyContainer, Events, container_reference, pod_reference, pod_text
from pykubelet.runtime.gc_plan import Removal
from pykubelet.runtime.keyring import NO_KEYS, Keyring
from pykubelet.runtime.kill import Killer
from pykubelet.runtime.make_sandbox import SandboxMaker
from pykubelet.runtime.protocol import RuntimeFailure, RuntimePod
from pykubelet.runtime.prune_init import all_init_containers, surplus_init_containers
from pykubelet.runtime.removal import ContainerRemover
from pykubelet.runtime.results import Action, StepResult, failed
from pykubelet.runtime.start_container import ContainerStarter, StartPlace


class Applier:
    """Brings pods a step further; may be used for many pods at once."""

    def __init__(
        self,
        *,
        sandboxes: SandboxMaker,
        starter: ContainerStarter,
        killer: Killer,
        remover: ContainerRemover,
        backoff: CrashBackoff,
        events: Events,
        clock: Clock,
    ) -> None:
        self._sandboxes, self._starter, self._killer, self._remover = sandboxes, starter, killer, remover
        self._backoff, self._events, self._clock = backoff, events, clock

    async def apply(
        self, pod: Pod, observed: RuntimePod, actions: PodActions, keyring: Keyring = NO_KEYS
    ) -> tuple[StepResult, ...]:
        """Do it; what came of each step, in order. A step that failed may have kept later ones from being tried."""
        if actions.create_sandbox and actions.sandbox_id:
            told = "Pod sandbox changed, it will be killed and re-created."
            self._events.event(pod_reference(pod), NORMAL, "SandboxChanged", told)
        results = [*await self._kill(pod, observed, actions)]
        if any(step.reason for step in results):
            return tuple(results)
        old = (all_init_containers if actions.create_sandbox else surplus_init_containers)(pod, observed)
        await self._remover.remove(observed, [Removal(container_id, stop_first=False) for container_id in old])
        try:
            place = await self._place(pod, observed, actions, keyring)
        except RuntimeFailure as failure:
            return *results, failed(Action.CREATE_SANDBOX, pod_text(pod), failure)
        return *results, *await self._start_all(place, actions)

    async def _kill(self, pod: Pod, observed: RuntimePod, actions: PodActions) -> Sequence[StepResult]:
        if actions.kill_pod:
            return await self._killer.kill_pod(pod, observed)
        # At the same time: each may need all of its grace.
        async with asyncio.TaskGroup() as group:
            kills = [
                group.create_task(self._kill_one(pod, kill), name=f"kill {kill.container.name} of {pod_text(pod)}")
                for kill in actions.kills
            ]
        return [kill.result() for kill in kills]

    async def _kill_one(self, pod: Pod, kill: Kill) -> StepResult:
        container = kill.container
        try:
            await self._killer.kill_container(
                pod, container, kill.container_id, message=kill.message, reason=kill.reason
            )
        except RuntimeFailure as failure:
            return failed(Action.KILL_CONTAINER, container.name, failure)
        return StepResult(action=Action.KILL_CONTAINER, target=container.name)

    async def _place(self, pod: Pod, observed: RuntimePod, actions: PodActions, keyring: Keyring) -> StartPlace:
        if actions.create_sandbox:
            sandbox = await self._sandboxes.make(pod, actions.attempt)
            sandbox_id, ips = sandbox.id, sandbox.ips
        else:
            sandbox_id, ips = actions.sandbox_id, observed.sandboxes[0].ips if observed.sandboxes else ()
        return StartPlace(pod=pod, observed=observed, sandbox_id=sandbox_id, ips=ips, keyring=keyring)

    async def _start_all(self, place: StartPlace, actions: PodActions) -> list[StepResult]:
        """Start what is to be started, one after the other: a post-start hook holds up those that follow."""
        # One to debug with goes first: it may be wanted because an init container does not start.
        results = [await self._start(place, container) for container in actions.start_ephemeral]
        for container in actions.start_init:
            results.append(await self._start(place, container))
            if results[-1].reason and not is_restartable_init_container(container):
                return results
        results += [await self._start(place, container) for container in actions.start]
        return results

    async def _start(self, place: StartPlace, container: AnyContainer) -> StepResult:
        pod, observed, now = place.pod, place.observed, self._clock.now()
        refusal = self._backoff.hold_back(pod, container, observed, now)
        if refusal is not None:
            if self._backoff.is_news(pod, container, refusal):
                reference = container_reference(pod, container.name)
                self._events.event(reference, WARNING, "BackOff", back_off_event(pod, container))
            return failed(Action.START_CONTAINER, container.name, refusal)
        try:
            request = await self._starter.prepare(place, container)
            # Only now: who was cancelled before has started nothing, and is not to wait longer for it.
            self._backoff.note_start(pod, container, observed, now)
            await self._starter.launch(request)
        except RuntimeFailure as failure:
            return failed(Action.START_CONTAINER, container.name, failure)
        return StepResult(action=Action.START_CONTAINER, target=container.name)
