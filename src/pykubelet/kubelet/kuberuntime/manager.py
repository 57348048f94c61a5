"""Carries out what the plan says about a pod: kill, make a sandbox, start containers.

In: a pod, what the runtime has of it, and the `PodActions` for it. Out: what came of each step; what users must know is
told as events. May be cancelled anywhere: nothing is undone, nothing is killed for it, and the next plan goes on from
what is there.

Upstream: SyncPod in pkg/kubelet/kuberuntime/kuberuntime_manager.go

The containers of pods, as the workers of a node see them: bring a pod further, end it, look at it.

Upstream: the interface Runtime of pkg/kubelet/container/runtime.go, as far as SyncPod, KillPod and GetPodStatus

Counts the pods and containers that were started or could not be. A collector.

Upstream: SyncPod in pkg/kubelet/kuberuntime/kuberuntime_manager.go, pkg/kubelet/metrics/metrics.go

Which init containers of the past are removed before a pod goes on.

Upstream: pruneInitContainersBeforeStart, purgeInitContainers in pkg/kubelet/kuberuntime/kuberuntime_container.go

Makes the sandbox of a pod and finds out its addresses.

Upstream: createPodSandbox in pkg/kubelet/kuberuntime/kuberuntime_sandbox.go, and step 4 of SyncPod

How long a container that ended must wait before it starts again: the crash loop's back-off.

The first restart is immediate. Later ones wait 10, 20, 40, 80, 160, then 300 seconds, counted from the exit; one that
ran ten minutes begins at once again. The answer says until when, so that nobody has to ask every few seconds.
Time is passed in. Upstream: doBackOff in pkg/kubelet/kuberuntime/kuberuntime_manager.go, GetBackoffKey in helpers.go.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias

from pykubelet.aio.backoff import KeyedBackoff
from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Pod, Secret
from pykubelet.api.pods import PodUid, is_restartable_init_container
from pykubelet.api.times import format_duration
from pykubelet.kubelet.events import (
    NORMAL,
    WARNING,
    AnyContainer,
    EventReporter,
    container_reference,
    format_pod,
    pod_reference,
)
from pykubelet.kubelet.images.keyring import EMPTY_KEYRING, DockerKeyring, keyring_of
from pykubelet.kubelet.kuberuntime.container import ContainerStarter, PodSettings, SandboxContext
from pykubelet.kubelet.kuberuntime.container_gc import ContainerRemoval, ContainerRemover
from pykubelet.kubelet.kuberuntime.pod_actions import (
    ContainerToKill,
    PodActions,
    ProbeResults,
    SyncAction,
    SyncResult,
    compute_pod_actions,
    failed_result,
)
from pykubelet.kubelet.kuberuntime.termination import ContainerKiller
from pykubelet.kubelet.logs.log_directory import LogDirectory, pod_names
from pykubelet.runtimes.protocol import ContainerState, Runtime, RuntimeFailure, RuntimePod, Sandbox, SandboxRequest

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
FIRST_SECONDS, LIMIT_SECONDS, FORGOTTEN_AFTER_SECONDS = 10.0, 300.0, 600.0

_Items: TypeAlias = frozenset[tuple[str, str]]
_Key: TypeAlias = tuple[str, str, str, str, str, _Items, _Items]


class CrashBackoff:
    """The back-off of all containers of a node."""

    def __init__(
        self,
        *,
        first_seconds: float = FIRST_SECONDS,
        limit_seconds: float = LIMIT_SECONDS,
        forgotten_after_seconds: float = FORGOTTEN_AFTER_SECONDS,
    ) -> None:
        self._delays: KeyedBackoff[_Key] = KeyedBackoff(
            first_seconds=first_seconds,
            limit_seconds=limit_seconds,
            forgotten_after_seconds=forgotten_after_seconds,
        )
        self._told: dict[_Key, datetime] = {}

    def hold_back(
        self, pod: Pod, container: AnyContainer, observed: RuntimePod, now: datetime
    ) -> RuntimeFailure | None:
        """Why a start has to wait, and until when; None if it may go ahead."""
        exited_at = _last_exit(container.name, observed)
        if exited_at is None:
            return None
        key = _key(pod, container)
        until = self._delays.waits_until(key, event_at=exited_at, now=now)
        if until is None:
            return None
        delay = format_duration(self._delays.delay_seconds(key))
        message = f"back-off {delay} restarting failed container={container.name} pod={format_pod(pod)}"
        return RuntimeFailure(message, reason=CRASH_LOOP_BACK_OFF, retry_at=until)

    def is_news(self, pod: Pod, container: AnyContainer, refusal: RuntimeFailure) -> bool:
        """Whether users have not been told of this wait yet; afterwards they have."""
        key, until = _key(pod, container), refusal.retry_at
        assert until is not None
        is_news = self._told.get(key) != until
        self._told[key] = until
        return is_news

    def note_start(self, pod: Pod, container: AnyContainer, observed: RuntimePod, now: datetime) -> None:
        """The start went ahead: the next wait is longer."""
        exited_at = _last_exit(container.name, observed)
        if exited_at is not None:
            self._delays.advance(_key(pod, container), event_at=exited_at, now=now)

    def prune(self, now: datetime) -> None:
        """Drop what no longer matters; for housekeeping."""
        self._delays.prune(now)
        self._told = {key: until for key, until in self._told.items() if key in self._delays}


def back_off_event(pod: Pod, container: AnyContainer) -> str:
    """What the Warning `BackOff` says of a start that is put off."""
    return f"Back-off restarting failed container {container.name} in pod {format_pod(pod)}"


def _last_exit(name: str, observed: RuntimePod) -> datetime | None:
    """When the newest exited container of this name ended; one whose end has no time ended when it was made."""
    for container in observed.containers:
        if container.name == name and container.state == ContainerState.EXITED:
            return container.finished_at or container.created_at
    return None


def _key(pod: Pod, container: AnyContainer) -> _Key:
    # Another image or other resources may well mend the container, so they begin anew.
    meta, resources = pod.metadata, container.resources
    limits, requests = frozenset(resources.limits.items()), frozenset(resources.requests.items())
    return meta.name, meta.namespace, meta.uid, container.name, container.image, limits, requests


class RuntimeHandlers(Protocol):
    """Knows the ways of running containers."""

    async def handler(self, class_name: str) -> str:
        """The one that a runtime class stands for; RuntimeFailure if there is no such class."""


class SandboxCreator:
    """Makes sandboxes."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        settings: PodSettings,
        handlers: RuntimeHandlers,
        logs: LogDirectory,
        events: EventReporter,
    ) -> None:
        self._runtime, self._settings, self._handlers = runtime, settings, handlers
        self._logs, self._events = logs, events

    async def make(self, pod: Pod, attempt: int) -> Sandbox:
        """A new sandbox; RuntimeFailure, told as an event, if it cannot be had."""
        try:
            request = SandboxRequest(
                pod=pod,
                attempt=attempt,
                hostname=self._settings.hostname(pod),
                log_directory=self._logs.of_pod(pod_names(pod)),
                handler=await self._handlers.handler(class_name) if (class_name := pod.spec.runtime_class_name) else "",
            )
            sandbox_id = await self._runtime.create_sandbox(request)
        except RuntimeFailure as failure:
            self._fail(pod, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {failure.message}", failure)
        try:
            return await self._sandbox(pod, sandbox_id)
        except RuntimeFailure as failure:
            told = f"Unable to get pod sandbox status: {failure.message}"
            self._fail(pod, "FailedPodSandBoxStatus", told, failure)

    async def _sandbox(self, pod: Pod, sandbox_id: str) -> Sandbox:
        observed = await self._runtime.inspect(PodUid(pod.metadata.uid))
        for sandbox in observed.sandboxes if observed is not None else ():
            if sandbox.id == sandbox_id:
                return sandbox
        raise RuntimeFailure("the sandbox that was made is not there")

    def _fail(self, pod: Pod, reason: str, message: str, failure: RuntimeFailure) -> NoReturn:
        self._events.event(pod_reference(pod), WARNING, reason, message)
        raise failure


_OVER = frozenset({ContainerState.EXITED, ContainerState.UNKNOWN})


def surplus_init_containers(pod: Pod, observed: RuntimePod) -> tuple[str, ...]:
    """All that are over but the newest of each name: a pod that keeps failing to initialize must not pile them up."""
    surplus: list[str] = []
    for spec in pod.spec.init_containers:
        over = [one.id for one in observed.containers if one.name == spec.name and one.state in _OVER]
        surplus += over[1:]
    return tuple(surplus)


def all_init_containers(pod: Pod, observed: RuntimePod) -> tuple[str, ...]:
    """All there are: in a new sandbox, what they did in the old one counts no more."""
    names = {spec.name for spec in pod.spec.init_containers}
    return tuple(one.id for one in observed.containers if one.name in names)


class PodActionsExecutor:
    """Brings pods a step further; may be used for many pods at once."""

    def __init__(
        self,
        *,
        sandboxes: SandboxCreator,
        starter: ContainerStarter,
        killer: ContainerKiller,
        remover: ContainerRemover,
        backoff: CrashBackoff,
        events: EventReporter,
        clock: Clock,
    ) -> None:
        self._sandboxes, self._starter, self._killer, self._remover = sandboxes, starter, killer, remover
        self._backoff, self._events, self._clock = backoff, events, clock

    async def apply(
        self, pod: Pod, observed: RuntimePod, actions: PodActions, keyring: DockerKeyring = EMPTY_KEYRING
    ) -> tuple[SyncResult, ...]:
        """Do it; what came of each step, in order. A step that failed may have kept later ones from being tried."""
        if actions.create_sandbox and actions.sandbox_id:
            told = "Pod sandbox changed, it will be killed and re-created."
            self._events.event(pod_reference(pod), NORMAL, "SandboxChanged", told)
        results = [*await self._kill(pod, observed, actions)]
        if any(step.reason for step in results):
            return tuple(results)
        old = (all_init_containers if actions.create_sandbox else surplus_init_containers)(pod, observed)
        await self._remover.remove(observed, [ContainerRemoval(container_id, stop_first=False) for container_id in old])
        try:
            place = await self._place(pod, observed, actions, keyring)
        except RuntimeFailure as failure:
            return *results, failed_result(SyncAction.CREATE_SANDBOX, format_pod(pod), failure)
        return *results, *await self._start_all(place, actions)

    async def _kill(self, pod: Pod, observed: RuntimePod, actions: PodActions) -> Sequence[SyncResult]:
        if actions.kill_pod:
            return await self._killer.kill_pod(pod, observed)
        # At the same time: each may need all of its grace.
        async with asyncio.TaskGroup() as group:
            kills = [
                group.create_task(self._kill_one(pod, kill), name=f"kill {kill.container.name} of {format_pod(pod)}")
                for kill in actions.kills
            ]
        return [kill.result() for kill in kills]

    async def _kill_one(self, pod: Pod, kill: ContainerToKill) -> SyncResult:
        container = kill.container
        try:
            await self._killer.kill_container(
                pod, container, kill.container_id, message=kill.message, reason=kill.reason
            )
        except RuntimeFailure as failure:
            return failed_result(SyncAction.KILL_CONTAINER, container.name, failure)
        return SyncResult(action=SyncAction.KILL_CONTAINER, target=container.name)

    async def _place(
        self, pod: Pod, observed: RuntimePod, actions: PodActions, keyring: DockerKeyring
    ) -> SandboxContext:
        if actions.create_sandbox:
            sandbox = await self._sandboxes.make(pod, actions.attempt)
            sandbox_id, ips = sandbox.id, sandbox.ips
        else:
            sandbox_id, ips = actions.sandbox_id, observed.sandboxes[0].ips if observed.sandboxes else ()
        return SandboxContext(pod=pod, observed=observed, sandbox_id=sandbox_id, ips=ips, keyring=keyring)

    async def _start_all(self, place: SandboxContext, actions: PodActions) -> list[SyncResult]:
        """Start what is to be started, one after the other: a post-start hook holds up those that follow."""
        # One to debug with goes first: it may be wanted because an init container does not start.
        results = [await self._start(place, container) for container in actions.start_ephemeral]
        for container in actions.start_init:
            results.append(await self._start(place, container))
            if results[-1].reason and not is_restartable_init_container(container):
                return results
        results += [await self._start(place, container) for container in actions.start]
        return results

    async def _start(self, place: SandboxContext, container: AnyContainer) -> SyncResult:
        pod, observed, now = place.pod, place.observed, self._clock.now()
        refusal = self._backoff.hold_back(pod, container, observed, now)
        if refusal is not None:
            if self._backoff.is_news(pod, container, refusal):
                reference = container_reference(pod, container.name)
                self._events.event(reference, WARNING, "BackOff", back_off_event(pod, container))
            return failed_result(SyncAction.START_CONTAINER, container.name, refusal)
        try:
            request = await self._starter.prepare(place, container)
            # Only now: who was cancelled before has started nothing, and is not to wait longer for it.
            self._backoff.note_start(pod, container, observed, now)
            await self._starter.launch(request)
        except RuntimeFailure as failure:
            return failed_result(SyncAction.START_CONTAINER, container.name, failure)
        return SyncResult(action=SyncAction.START_CONTAINER, target=container.name)


class ContainerStartMetrics:
    """The counts of one node: every try counts, as upstream has it."""

    def __init__(self) -> None:
        self._pods = self._failed_pods = 0
        self._containers: Counter[str] = Counter()
        self._failed: Counter[tuple[str, str]] = Counter()

    def sandbox_asked(self) -> None:
        """A pod is about to get a sandbox."""
        self._pods += 1

    def note(self, pod: Pod, results: Iterable[SyncResult]) -> None:
        """What came of the steps of a pod."""
        for step in results:
            if step.action is SyncAction.CREATE_SANDBOX and step.reason:
                self._failed_pods += 1
            elif step.action is SyncAction.START_CONTAINER and step.reason != CRASH_LOOP_BACK_OFF:
                kind = container_type(pod, step.target)
                self._containers[kind] += 1
                if step.reason:
                    self._failed[kind, step.reason] += 1

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for."""
        from prometheus_client.metrics_core import CounterMetricFamily

        yield CounterMetricFamily("kubelet_started_pods_total", "Tries to start a pod.", self._pods)
        yield CounterMetricFamily("kubelet_started_pods_errors_total", "Those that failed.", self._failed_pods)
        containers = CounterMetricFamily(
            "kubelet_started_containers_total", "Tries to start a container.", labels=("container_type",)
        )
        for kind, count in self._containers.items():
            containers.add_metric((kind,), count)
        yield containers
        failed = CounterMetricFamily(
            "kubelet_started_containers_errors_total", "Those that failed.", labels=("container_type", "code")
        )
        for labels, count in self._failed.items():
            failed.add_metric(labels, count)
        yield failed


def container_type(pod: Pod, name: str) -> str:
    """Which of its lists a pod has this container in, by upstream's word for it."""
    if any(container.name == name for container in pod.spec.init_containers):
        return "init_container"
    is_ephemeral = any(container.name == name for container in pod.spec.ephemeral_containers)
    return "ephemeral_container" if is_ephemeral else "container"


Verdicts = Callable[[RuntimePod], ProbeResults]
"""What the probes say of a pod's containers."""
Prune = Callable[[RuntimePod], Awaitable[None]]
"""Removes dead containers of which there is a newer one of their name."""


class KubeRuntimeManager:
    """Plans and does, one step of a pod at a time."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        applier: PodActionsExecutor,
        killer: ContainerKiller,
        prune: Prune,
        verdicts: Verdicts,
    ) -> None:
        self._runtime, self._applier, self._killer = runtime, applier, killer
        self._prune, self._verdicts = prune, verdicts
        self.starts = ContainerStartMetrics()

    async def sync_pod(self, pod: Pod, observed: RuntimePod, secrets: Sequence[Secret]) -> tuple[SyncResult, ...]:
        """Go as far as possible towards what the pod should be; what came of each step."""
        actions = compute_pod_actions(pod, observed, self._verdicts(observed))
        if actions.create_sandbox:
            self.starts.sandbox_asked()
        results = await self._applier.apply(pod, observed, actions, keyring_of(secrets))
        self.starts.note(pod, results)
        return results

    async def kill_pod(
        self, pod: Pod | None, observed: RuntimePod, *, grace_seconds: int | None = None
    ) -> tuple[SyncResult, ...]:
        """End everything that runs of a pod; None is one that only the runtime knows."""
        return await self._killer.kill_pod(pod, observed, grace_seconds=grace_seconds)

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        """What the runtime has of a pod, as of now."""
        return await self._runtime.inspect(uid)

    async def prune(self, observed: RuntimePod) -> None:
        """Remove ended containers of which there is a newer one of their name.

        Only what was seen and reported goes, so that a container is never gone before anybody heard how it ended.
        """
        await self._prune(observed)
