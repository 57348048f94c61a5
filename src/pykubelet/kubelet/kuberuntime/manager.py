"""Syncs the containers of a pod with its spec: decides the next step, carries it out, and kills pods.

`KubeRuntimeManager.sync_pod` decides with `compute_pod_actions` and has `PodActionsExecutor` kill, create the sandbox and
start containers. Failures and back-offs become events. A sync may be cancelled anywhere: nothing is undone or killed,
and the next sync continues from what it finds.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go, pkg/kubelet/kuberuntime/kuberuntime_sandbox.go,
pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/kubelet/container/runtime.go
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from pykubelet.aio.backoff import KeyedBackoff
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod, Secret
from pykubelet.api.pods import AnyContainer, PodUid, is_restartable_init_container, pod_label
from pykubelet.api.times import format_duration
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, container_reference, format_pod, reference_to
from pykubelet.kubelet.images.image_manager import EMPTY_KEYRING, DockerKeyring, keyring_of
from pykubelet.kubelet.kuberuntime.container import ContainerStarter, RuntimeHelper, SandboxContext
from pykubelet.kubelet.kuberuntime.container_gc import ContainerRemover
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
from pykubelet.kubelet.objectcache.pod_objects import RuntimeClasses
from pykubelet.runtimes.limits import ALL_ENFORCED, UnenforcedLimits
from pykubelet.runtimes.protocol import ContainerState, Runtime, RuntimeFailure, RuntimePod, Sandbox, SandboxRequest

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

log = get_logger(__name__)

CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
FIRST_SECONDS, LIMIT_SECONDS, FORGOTTEN_AFTER_SECONDS = 10.0, 300.0, 600.0

Prune = Callable[[RuntimePod], Awaitable[None]]
"""Removes exited containers that have a newer container of the same name."""

_Items: TypeAlias = frozenset[tuple[str, str]]
_Key: TypeAlias = tuple[str, str, str, str, str, _Items, _Items]
_ENDED = frozenset({ContainerState.EXITED, ContainerState.UNKNOWN})


class KubeRuntimeManager:
    """Syncs and kills pods, one step of a pod at a time; what the pod workers call."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        executor: "PodActionsExecutor",
        killer: ContainerKiller,
        prune: Prune,
        probe_results: ProbeResults,
    ) -> None:
        self._runtime, self._executor, self._killer = runtime, executor, killer
        self._prune, self._probe_results = prune, probe_results
        self.start_metrics = ContainerStartMetrics()

    async def sync_pod(self, pod: Pod, observed: RuntimePod, secrets: Sequence[Secret]) -> tuple[SyncResult, ...]:
        """Bring the pod as close to its spec as possible now; the result of each step."""
        actions = compute_pod_actions(pod, observed, self._probe_results)
        if actions.create_sandbox:
            self.start_metrics.sandbox_requested()
        results = await self._executor.execute(pod, observed, actions, keyring_of(secrets))
        self.start_metrics.observe(pod, results)
        return results

    async def kill_pod(
        self, pod: Pod | None, observed: RuntimePod, *, grace_seconds: int | None = None
    ) -> tuple[SyncResult, ...]:
        """Kill everything that runs of a pod; without a spec, `pod` is None."""
        return await self._killer.kill_pod(pod, observed, grace_seconds=grace_seconds)

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        return await self._runtime.inspect(uid)

    async def prune(self, observed: RuntimePod) -> None:
        """Remove exited containers that have a newer container of the same name.

        Call it after the status was reported, so that no container disappears before its end is known.
        """
        await self._prune(observed)


class PodActionsExecutor:
    """Carries out `PodActions`; serves many pods at once."""

    def __init__(
        self,
        *,
        sandboxes: "SandboxCreator",
        starter: ContainerStarter,
        killer: ContainerKiller,
        remover: ContainerRemover,
        backoff: "CrashBackoff",
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        self._sandboxes, self._starter, self._killer, self._remover = sandboxes, starter, killer, remover
        self._backoff, self._events, self._clock = backoff, events, clock

    async def remove_orphans(self, _: Container[PodUid]) -> None:
        """Drop expired back-offs; a housekeeping step."""
        self._backoff.prune(self._clock.now())

    async def execute(
        self, pod: Pod, observed: RuntimePod, actions: PodActions, keyring: DockerKeyring = EMPTY_KEYRING
    ) -> tuple[SyncResult, ...]:
        """The result of each step, in order; a failed step may prevent later ones."""
        if actions.create_sandbox and actions.sandbox_id:
            message = "Pod sandbox changed, it will be killed and re-created."
            self._events.event(reference_to(pod), NORMAL, "SandboxChanged", message)
        results = [*await self._kill(pod, observed, actions)]
        if any(step.reason for step in results):
            return tuple(results)
        old = (all_init_containers if actions.create_sandbox else surplus_init_containers)(pod, observed)
        await self._remover.remove_ended(observed, old)
        try:
            context = await self._sandbox_context(pod, observed, actions, keyring)
        except RuntimeFailure as failure:
            return *results, failed_result(SyncAction.CREATE_SANDBOX, format_pod(pod), failure)
        return *results, *await self._start_all(context, actions)

    async def _kill(self, pod: Pod, observed: RuntimePod, actions: PodActions) -> Sequence[SyncResult]:
        if actions.kill_pod:
            return await self._killer.kill_pod(pod, observed)
        # At the same time: each may need its whole grace period.
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

    async def _sandbox_context(
        self, pod: Pod, observed: RuntimePod, actions: PodActions, keyring: DockerKeyring
    ) -> SandboxContext:
        if actions.create_sandbox:
            sandbox = await self._sandboxes.create(pod, actions.attempt)
            sandbox_id, ips = sandbox.id, sandbox.ips
        else:
            sandbox_id, ips = actions.sandbox_id, observed.sandboxes[0].ips if observed.sandboxes else ()
        return SandboxContext(pod=pod, observed=observed, sandbox_id=sandbox_id, ips=ips, keyring=keyring)

    async def _start_all(self, context: SandboxContext, actions: PodActions) -> list[SyncResult]:
        """Start containers one after the other: a post-start hook delays those that follow."""
        # Ephemeral containers first: they may be there to debug an init container that does not start.
        results = [await self._start(context, container) for container in actions.start_ephemeral]
        for container in actions.start_init:
            results.append(await self._start(context, container))
            if results[-1].reason and not is_restartable_init_container(container):
                return results
        results += [await self._start(context, container) for container in actions.start]
        return results

    async def _start(self, context: SandboxContext, container: AnyContainer) -> SyncResult:
        pod, observed, now = context.pod, context.observed, self._clock.now()
        back_off = self._backoff.check(pod, container, observed, now)
        if back_off is not None:
            if self._backoff.should_report(pod, container, back_off):
                reference = container_reference(pod, container.name)
                self._events.event(reference, WARNING, "BackOff", back_off_event(pod, container))
            return failed_result(SyncAction.START_CONTAINER, container.name, back_off)
        try:
            request = await self._starter.prepare(context, container)
            await self._remover.remove_unstarted(observed, container.name)
            # Only now: a sync that was cancelled earlier has started nothing and must not lengthen the back-off.
            self._backoff.record_start(pod, container, observed, now)
            await self._starter.launch(request)
        except RuntimeFailure as failure:
            return failed_result(SyncAction.START_CONTAINER, container.name, failure)
        return SyncResult(action=SyncAction.START_CONTAINER, target=container.name)


def surplus_init_containers(pod: Pod, observed: RuntimePod) -> tuple[str, ...]:
    """All ended init containers but the newest of each name, so that they do not pile up in a pod that keeps failing."""
    surplus: list[str] = []
    for spec in pod.spec.init_containers:
        ended = [one.id for one in observed.containers if one.name == spec.name and one.state in _ENDED]
        surplus += ended[1:]
    return tuple(surplus)


def all_init_containers(pod: Pod, observed: RuntimePod) -> tuple[str, ...]:
    """All init containers: in a new sandbox they have to run again."""
    names = {spec.name for spec in pod.spec.init_containers}
    return tuple(one.id for one in observed.containers if one.name in names)


class SandboxCreator:
    """Creates the sandbox of a pod and reads its addresses."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        helper: RuntimeHelper,
        runtime_classes: RuntimeClasses,
        logs: LogDirectory,
        events: EventRecorder,
        unenforced: UnenforcedLimits = ALL_ENFORCED,
    ) -> None:
        self._runtime, self._helper, self._runtime_classes = runtime, helper, runtime_classes
        self._logs, self._events, self._unenforced = logs, events, unenforced

    async def create(self, pod: Pod, attempt: int) -> Sandbox:
        """A new sandbox; RuntimeFailure, also reported as an event, if there is none."""
        class_name = pod.spec.runtime_class_name
        try:
            request = SandboxRequest(
                pod=pod,
                attempt=attempt,
                hostname=self._helper.hostname(pod),
                log_directory=self._logs.of_pod(pod_names(pod)),
                handler=await self._runtime_classes.handler(class_name) if class_name else "",
            )
            for message in await self._helper.dns_warnings(pod):
                self._events.event(reference_to(pod), WARNING, "DNSConfigForming", message)
            sandbox_id = await self._runtime.create_sandbox(request)
        except RuntimeFailure as failure:
            self._fail(pod, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {failure.message}", failure)
        log.debug("sandbox created", pod=pod_label(pod), sandbox_id=sandbox_id)
        if message := self._unenforced.message(pod):
            self._events.event(reference_to(pod), WARNING, "ResourceLimitsNotEnforced", message)
        try:
            return await self._sandbox(pod, sandbox_id)
        except RuntimeFailure as failure:
            message = f"Unable to get pod sandbox status: {failure.message}"
            self._fail(pod, "FailedPodSandBoxStatus", message, failure)

    async def _sandbox(self, pod: Pod, sandbox_id: str) -> Sandbox:
        observed = await self._runtime.inspect(PodUid(pod.metadata.uid))
        for sandbox in observed.sandboxes if observed is not None else ():
            if sandbox.id == sandbox_id:
                return sandbox
        raise RuntimeFailure("the runtime does not report the sandbox that it created")

    def _fail(self, pod: Pod, reason: str, message: str, failure: RuntimeFailure) -> NoReturn:
        self._events.event(reference_to(pod), WARNING, reason, message)
        raise failure


class CrashBackoff:
    """The crash loop back-off of all containers of a node.

    The first restart is immediate. Later ones wait 10, 20, 40, 80, 160, then 300 seconds after the exit; a container
    that ran for ten minutes starts at once again. The failure says until when to wait, so that callers need not poll.
    """

    def __init__(
        self,
        *,
        first_seconds: float = FIRST_SECONDS,
        limit_seconds: float = LIMIT_SECONDS,
        forgotten_after_seconds: float = FORGOTTEN_AFTER_SECONDS,
    ) -> None:
        self._delays: KeyedBackoff[_Key] = KeyedBackoff(
            first_seconds=first_seconds, limit_seconds=limit_seconds, forgotten_after_seconds=forgotten_after_seconds
        )
        self._reported: dict[_Key, datetime] = {}

    def check(self, pod: Pod, container: AnyContainer, observed: RuntimePod, now: datetime) -> RuntimeFailure | None:
        """Why and until when a start has to wait; None if the container may start."""
        exited_at = _last_exit(container.name, observed)
        if exited_at is None:
            return None
        key = _backoff_key(pod, container)
        until = self._delays.waits_until(key, event_at=exited_at, now=now)
        if until is None:
            return None
        delay = format_duration(self._delays.delay_seconds(key))
        message = f"back-off {delay} restarting failed container={container.name} pod={format_pod(pod)}"
        return RuntimeFailure(message, reason=CRASH_LOOP_BACK_OFF, retry_at=until)

    def should_report(self, pod: Pod, container: AnyContainer, back_off: RuntimeFailure) -> bool:
        """Whether this wait is new; each wait is reported once."""
        key, until = _backoff_key(pod, container), back_off.retry_at
        assert until is not None
        is_new = self._reported.get(key) != until
        self._reported[key] = until
        return is_new

    def record_start(self, pod: Pod, container: AnyContainer, observed: RuntimePod, now: datetime) -> None:
        """Record a restart: the next wait is longer."""
        exited_at = _last_exit(container.name, observed)
        if exited_at is not None:
            self._delays.advance(_backoff_key(pod, container), event_at=exited_at, now=now)

    def prune(self, now: datetime) -> None:
        """Drop expired entries; called by housekeeping."""
        self._delays.prune(now)
        self._reported = {key: until for key, until in self._reported.items() if key in self._delays}


def back_off_event(pod: Pod, container: AnyContainer) -> str:
    """The message of the `BackOff` event."""
    return f"Back-off restarting failed container {container.name} in pod {format_pod(pod)}"


def _last_exit(name: str, observed: RuntimePod) -> datetime | None:
    """When the newest exited container of this name ended; its creation time if the end has no time."""
    for container in observed.containers:
        if container.name == name and container.state == ContainerState.EXITED:
            return container.finished_at or container.created_at
    return None


def _backoff_key(pod: Pod, container: AnyContainer) -> _Key:
    # Another image or other resources may repair the container, so they start a new back-off.
    meta, resources = pod.metadata, container.resources
    limits, requests = frozenset(resources.limits.items()), frozenset(resources.requests.items())
    return meta.name, meta.namespace, meta.uid, container.name, container.image, limits, requests


class ContainerStartMetrics:
    """Prometheus collector for started pods and containers; counts every try, as upstream does."""

    def __init__(self) -> None:
        self._pods = self._failed_pods = 0
        self._containers: Counter[str] = Counter()
        self._failed: Counter[tuple[str, str]] = Counter()

    def sandbox_requested(self) -> None:
        """Count a pod that is about to get a sandbox."""
        self._pods += 1

    def observe(self, pod: Pod, results: Iterable[SyncResult]) -> None:
        for step in results:
            if step.action is SyncAction.CREATE_SANDBOX and step.reason:
                self._failed_pods += 1
            elif step.action is SyncAction.START_CONTAINER and step.reason != CRASH_LOOP_BACK_OFF:
                kind = container_type(pod, step.target)
                self._containers[kind] += 1
                if step.reason:
                    self._failed[kind, step.reason] += 1

    def collect(self) -> "Iterator[Metric]":
        """Yield the metrics to prometheus_client."""
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
    """Upstream's name for the list of the pod spec that has this container."""
    if any(container.name == name for container in pod.spec.init_containers):
        return "init_container"
    is_ephemeral = any(container.name == name for container in pod.spec.ephemeral_containers)
    return "ephemeral_container" if is_ephemeral else "container"
