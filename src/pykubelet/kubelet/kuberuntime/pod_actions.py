"""Which init container is next, which sidecars must run again, and when a pod counts as initialized.

The init containers are judged from the last to the first: old ones may have been removed, so the last one of which
anything is known tells how far the pod has come. All before it were through once; of those only sidecars still matter.
Pure. Upstream: computeInitContainerActions in pkg/kubelet/kuberuntime/kuberuntime_container.go.

What came of each step of bringing a pod where it should be.

Upstream: pkg/kubelet/container/sync_result.go

What to do with a pod now: compare what it should be with what the runtime has of it.

The pod, the runtime's view and the probes' verdicts in, one `PodActions` out. It says what to do next, not all that
ever has to be done: each change brings the pod here again. Pure; resizing a running container is not part of it.
Upstream: computePodActions in pkg/kubelet/kuberuntime/kuberuntime_manager.go.

Whether a pod needs a new sandbox: it has none, two, or one that is dead or misses its network.

Pure. Upstream: PodSandboxChanged in pkg/kubelet/kuberuntime/util/util.go.

Whether a container starts again, how often it did before, and how long it may take to end.

Values in, values out; pure. Upstream: ShouldContainerBeRestarted in pkg/kubelet/container/helpers.go,
calcRestartCountByLogDir and setTerminationGracePeriod in pkg/kubelet/kuberuntime/kuberuntime_container.go.

Tells whether a container was made from the present spec: a hash of name and image, nothing else.

Equal to upstream's, so that a node which changes its agent keeps its containers. Pure.
Upstream: HashContainer in pkg/kubelet/container/helpers.go.

What to do with a pod now, and what its probes say: the values around the plan.

Upstream: podActions and containerToKillInfo in pkg/kubelet/kuberuntime/kuberuntime_manager.go.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from pykubelet.api.field_errors import go_json, go_quote
from pykubelet.api.generated.core import Container, EphemeralContainer, Pod, Probe
from pykubelet.api.pods import is_restartable_init_container
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimeFailure, RuntimePod


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResults:
    """Whether each container passed its last probe, by its id at the runtime; one without a verdict yet is absent."""

    liveness: Mapping[str, bool] = field(default_factory=dict)
    startup: Mapping[str, bool] = field(default_factory=dict)
    readiness: Mapping[str, bool] = field(default_factory=dict)


class KillReason(StrEnum):
    """Why one container of a pod is killed, where that decides how long it may take to end."""

    LIVENESS_PROBE = "LivenessProbe"
    STARTUP_PROBE = "StartupProbe"
    UNKNOWN = "Unknown"
    OTHER = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerToKill:
    """One container to kill; `message` is what its event says."""

    container_id: str
    container: Container
    message: str
    reason: KillReason = KillReason.OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class PodActions:
    """One step towards what a pod should be. What is to be killed goes before anything starts.

    `kill_pod` takes everything the pod has; a sandbox is then made anew only if `create_sandbox` says so. `sandbox_id`
    is the sandbox there is (none if it cannot be kept as it is), `attempt` the number of the one to use.
    """

    attempt: int
    sandbox_id: str = ""
    kill_pod: bool = False
    create_sandbox: bool = False
    kills: tuple[ContainerToKill, ...] = ()
    start_ephemeral: tuple[EphemeralContainer, ...] = ()
    start_init: tuple[Container, ...] = ()
    start: tuple[Container, ...] = ()


_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


def container_hash(container: Container | EphemeralContainer) -> str:
    """The hash, in hexadecimal."""
    return _hash(container.name, container.image)


@lru_cache(maxsize=4096)
def _hash(name: str, image: str) -> str:
    text = go_json({"image": image, "name": name})
    # Upstream hashes the printed form of the bytes, not the bytes.
    printed = f"([]uint8)[{' '.join(map(str, text.encode()))}]"
    value = _FNV_OFFSET
    for byte in printed.encode():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return f"{value:x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitContainerActions:
    """What the init containers need; `has_failed` if one has failed for good, and with it the pod."""

    is_initialized: bool
    has_failed: bool = False
    start: tuple[Container, ...] = ()
    kills: tuple[ContainerToKill, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _InitDecision:
    """What one init container needs: a start, a kill before it; `is_through` if the next one may go."""

    start: bool = False
    kill: ContainerToKill | None = None
    is_through: bool = False
    fails_pod: bool = False


def compute_init_container_actions(pod: Pod, observed: RuntimePod, probes: ProbeResults) -> InitContainerActions:
    """What the init containers of a pod with a good sandbox need."""
    inits = pod.spec.init_containers
    if not inits:
        return InitContainerActions(is_initialized=True)
    is_initialized = was_through = _has_live_regular_container(pod, observed)
    start: list[Container] = []
    kills: list[ContainerToKill] = []
    for index, container in reversed(tuple(enumerate(inits))):
        newest = observed.newest(container.name)
        verdict = _judge(pod, container, newest, probes, was_through=was_through)
        if verdict.fails_pod:
            return InitContainerActions(is_initialized=False, has_failed=True, kills=tuple(kills))
        if verdict.is_through and index == len(inits) - 1:
            is_initialized = True
        elif verdict.is_through and not was_through:
            start.append(inits[index + 1])
        if verdict.start:
            start.append(container)
        if verdict.kill is not None:
            kills.append(verdict.kill)
        was_through = was_through or newest is not None
    if not was_through:
        start.append(inits[0])
    return InitContainerActions(is_initialized=is_initialized, start=tuple(reversed(start)), kills=tuple(kills))


def _has_live_regular_container(pod: Pod, observed: RuntimePod) -> bool:
    """Whether a regular container proves that the init containers are through.

    One that has exited proves nothing: it may be from the sandbox before this one, as after a reboot.
    """
    newest = (observed.newest(container.name) for container in pod.spec.containers)
    return any(one is not None and one.state in {ContainerState.CREATED, ContainerState.RUNNING} for one in newest)


def _judge(
    pod: Pod, container: Container, newest: RuntimeContainer | None, probes: ProbeResults, *, was_through: bool
) -> _InitDecision:
    if is_restartable_init_container(container):
        # A sidecar that was through and is gone must run again; the first start of one is its predecessor's to ask for.
        return _InitDecision(start=was_through) if newest is None else _judge_sidecar(container, newest, probes)
    return _InitDecision() if newest is None or was_through else _judge_plain(pod, container, newest)


def _judge_plain(pod: Pod, container: Container, newest: RuntimeContainer) -> _InitDecision:
    may_retry = pod.spec.restart_policy != "Never"
    match newest.state:
        case ContainerState.CREATED:
            # Creating and starting are one step for us: who is found between them did not start.
            return _InitDecision(start=True)
        case ContainerState.RUNNING:
            return _InitDecision()
        case ContainerState.EXITED if newest.exit_code == 0 and newest.reason != "OOMKilled":
            return _InitDecision(is_through=True)
        case ContainerState.EXITED:
            return _InitDecision(start=True) if may_retry else _InitDecision(fails_pod=True)
        case _:
            return _restart_unknown(container, newest) if may_retry else _InitDecision(fails_pod=True)


def _judge_sidecar(container: Container, newest: RuntimeContainer, probes: ProbeResults) -> _InitDecision:
    match newest.state:
        case ContainerState.CREATED | ContainerState.EXITED:
            return _InitDecision(start=True)
        case ContainerState.RUNNING:
            return _judge_running_sidecar(container, newest, probes)
        case _:
            return _restart_unknown(container, newest)


def _judge_running_sidecar(container: Container, newest: RuntimeContainer, probes: ProbeResults) -> _InitDecision:
    if container.startup_probe is not None:
        has_started = probes.startup.get(newest.id)
        if has_started is None:
            return _InitDecision()
        if not has_started:
            message = f"Init container {container.name} failed startup probe"
            return _restart(container, newest, message, KillReason.STARTUP_PROBE)
    if newest.hash != container_hash(container):
        message = f"Init container {container.name} definition changed"
        return _restart(container, newest, message, is_through=True)
    if container.liveness_probe is not None and probes.liveness.get(newest.id) is False:
        message = f"Init container {container.name} failed liveness probe"
        return _restart(container, newest, message, KillReason.LIVENESS_PROBE, is_through=True)
    return _InitDecision(is_through=True)


def _restart_unknown(container: Container, newest: RuntimeContainer) -> _InitDecision:
    message = f'Init container is in "{newest.state}" state, try killing it before restart'
    return _restart(container, newest, message, KillReason.UNKNOWN)


def _restart(
    container: Container,
    newest: RuntimeContainer,
    message: str,
    reason: KillReason = KillReason.OTHER,
    *,
    is_through: bool = False,
) -> _InitDecision:
    kill = ContainerToKill(container_id=newest.id, container=container, message=message, reason=reason)
    return _InitDecision(start=True, kill=kill, is_through=is_through)


MINIMUM_GRACE_SECONDS = 2
"""What every container gets to end in, so that no mistake of a number kills it outright."""

# Nothing has to follow: rotated logs keep the number and add to the name.
_LOG_NAME = re.compile(r"0*([0-9]{1,19})\.log")
_MAX_COUNT = 2**63 - 1


def should_restart(name: str, pod: Pod, observed: RuntimePod) -> bool:
    """Whether the container of this name is to be started, now that it does not run."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    newest = observed.newest(name)
    if newest is None:
        return True
    if newest.state != ContainerState.EXITED:
        return newest.state != ContainerState.RUNNING
    policy = pod.spec.restart_policy
    return policy != "Never" and (policy != "OnFailure" or newest.exit_code != 0)


def next_attempt(name: str, observed: RuntimePod, log_names: Iterable[str]) -> int:
    """The attempt of the next container of this name; `log_names` is what its log directory holds.

    The logs outlive the containers: they tell the number when nothing else does.
    """
    newest = observed.newest(name)
    return newest.attempt + 1 if newest is not None else restarts_in_logs(log_names)


def restarts_in_logs(log_names: Iterable[str]) -> int:
    """The number after the highest that a log bears; what is not named as a log counts for nothing."""
    numbers = (int(match[1]) for match in map(_LOG_NAME.match, log_names) if match)
    return max((number + 1 for number in numbers if number <= _MAX_COUNT), default=0)


def kill_grace_seconds(pod: Pod, container: Container | EphemeralContainer, reason: KillReason) -> int:
    """How long the container gets to end: what the deletion says, else what the failed probe says, else the pod."""
    if pod.metadata.deletion_grace_period_seconds is not None:
        return pod.metadata.deletion_grace_period_seconds
    of_pod = pod.spec.termination_grace_period_seconds
    if of_pod is None:
        return MINIMUM_GRACE_SECONDS
    of_probe = _grace_of(_failed_probe(container, reason))
    return of_probe if of_probe is not None else of_pod


def _failed_probe(container: Container | EphemeralContainer, reason: KillReason) -> Probe | None:
    if reason == KillReason.LIVENESS_PROBE:
        return container.liveness_probe
    return container.startup_probe if reason == KillReason.STARTUP_PROBE else None


def _grace_of(probe: Probe | None) -> int | None:
    return probe.termination_grace_period_seconds if probe is not None else None


@dataclass(frozen=True, slots=True)
class SandboxChange:
    """Whether a new sandbox is needed, the attempt the pod is or will be at, and the sandbox there is."""

    is_new: bool
    attempt: int
    sandbox_id: str


def pod_sandbox_changed(pod: Pod, observed: RuntimePod) -> SandboxChange:
    """What the pod needs, given what the runtime has of it."""
    if not observed.sandboxes:
        return SandboxChange(True, 0, "")
    newest = observed.sandboxes[0]
    ready = sum(sandbox.is_ready for sandbox in observed.sandboxes)
    if ready > 1 or not newest.is_ready:
        return SandboxChange(True, newest.attempt + 1, newest.id)
    if newest.host_network != pod.spec.host_network:
        # A sandbox of another network was never this pod's, so it is not named as the one that changed.
        return SandboxChange(True, newest.attempt + 1, "")
    if not pod.spec.host_network and not newest.ips:
        return SandboxChange(True, newest.attempt + 1, newest.id)
    return SandboxChange(False, newest.attempt, newest.id)


def compute_pod_actions(pod: Pod, observed: RuntimePod, probes: ProbeResults) -> PodActions:
    """The next step of a pod."""
    need = pod_sandbox_changed(pod, observed)
    return _begin_anew(pod, observed, need) if need.is_new else _go_on(pod, observed, probes, need)


def _begin_anew(pod: Pod, observed: RuntimePod, need: SandboxChange) -> PodActions:
    """A new sandbox means a new beginning, unless nothing of the pod is to run any more."""
    only_kill = PodActions(attempt=need.attempt, sandbox_id=need.sandbox_id, kill_pod=True)
    if pod.spec.restart_policy == "Never" and need.attempt > 0 and observed.containers:
        return only_kill
    start = tuple(one for one in pod.spec.containers if not _is_done(pod, observed.newest(one.name)))
    if not start and _had_regular_container(pod, observed):
        return only_kill
    return PodActions(
        attempt=need.attempt,
        sandbox_id=need.sandbox_id,
        kill_pod=True,
        create_sandbox=True,
        start_init=pod.spec.init_containers[:1],
        start=() if pod.spec.init_containers else start,
    )


def _is_done(pod: Pod, newest: RuntimeContainer | None) -> bool:
    is_success = newest is not None and newest.state == ContainerState.EXITED and newest.exit_code == 0
    return is_success and pod.spec.restart_policy == "OnFailure"


def _had_regular_container(pod: Pod, observed: RuntimePod) -> bool:
    newest = (observed.newest(container.name) for container in pod.spec.containers)
    return any(one is not None and one.state != ContainerState.UNKNOWN for one in newest)


def _go_on(pod: Pod, observed: RuntimePod, probes: ProbeResults, need: SandboxChange) -> PodActions:
    """The sandbox is good: see to the containers in it."""
    # An ephemeral container needs no initialization, and runs once whatever becomes of it.
    ephemeral = tuple(one for one in pod.spec.ephemeral_containers if observed.newest(one.name) is None)
    init = compute_init_container_actions(pod, observed, probes)
    if init.has_failed or not init.is_initialized:
        return PodActions(
            attempt=need.attempt,
            sandbox_id=need.sandbox_id,
            kill_pod=init.has_failed,
            kills=init.kills,
            start_ephemeral=ephemeral,
            start_init=init.start,
        )
    kills, start, keeps_any = _regular(pod, observed, probes)
    is_over = not keeps_any and not start
    return PodActions(
        attempt=need.attempt,
        sandbox_id=need.sandbox_id,
        kill_pod=is_over,
        kills=(*init.kills, *kills),
        start_ephemeral=ephemeral,
        # Sidecars must not keep a pod alive whose regular containers are all done.
        start_init=() if is_over else init.start,
        start=start,
    )


def _regular(
    pod: Pod, observed: RuntimePod, probes: ProbeResults
) -> tuple[tuple[ContainerToKill, ...], tuple[Container, ...], bool]:
    """What to kill, what to start, and whether any container just goes on."""
    kills, start, keeps_any = [], [], False
    for container in pod.spec.containers:
        newest = observed.newest(container.name)
        if newest is None or newest.state != ContainerState.RUNNING:
            if should_restart(container.name, pod, observed):
                start.append(container)
                if newest is not None and newest.state == ContainerState.UNKNOWN:
                    # It may be running after all, and two of a name must never run.
                    message = f'Container is in "{newest.state}" state, try killing it before restart'
                    kills.append(_kill(container, newest, message, KillReason.UNKNOWN))
            continue
        fault = _fault(container, newest, probes)
        if fault is None:
            keeps_any = True
            continue
        message, reason = fault
        if reason == KillReason.OTHER or pod.spec.restart_policy != "Never":
            message = f"{message}, will be restarted"
            start.append(container)
        kills.append(_kill(container, newest, message, reason))
    return tuple(kills), tuple(start), keeps_any


def _fault(container: Container, newest: RuntimeContainer, probes: ProbeResults) -> tuple[str, KillReason] | None:
    """Why a running container cannot go on; a change of its definition restarts it under any policy."""
    if newest.hash != container_hash(container):
        return f"Container {container.name} definition changed", KillReason.OTHER
    if probes.liveness.get(newest.id) is False:
        return f"Container {container.name} failed liveness probe", KillReason.LIVENESS_PROBE
    if probes.startup.get(newest.id) is False:
        return f"Container {container.name} failed startup probe", KillReason.STARTUP_PROBE
    return None


def _kill(container: Container, newest: RuntimeContainer, message: str, reason: KillReason) -> ContainerToKill:
    return ContainerToKill(container_id=newest.id, container=container, message=message, reason=reason)


class SyncAction(StrEnum):
    """What was tried."""

    START_CONTAINER = "StartContainer"
    KILL_CONTAINER = "KillContainer"
    CREATE_SANDBOX = "CreatePodSandbox"
    KILL_SANDBOX = "KillPodSandbox"


# What a failed step is called, if the failure does not say better.
_REASONS = {
    SyncAction.START_CONTAINER: "RunContainerError",
    SyncAction.KILL_CONTAINER: "KillContainerError",
    SyncAction.CREATE_SANDBOX: "CreatePodSandboxError",
    SyncAction.KILL_SANDBOX: "KillPodSandboxError",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """One step; without a `reason` it worked. `target` is the name of a container, or says which pod.

    Of a container that did not start, reason and message are what users see it waiting for. `retry_at` is when another
    try is worth while, if that is known.
    """

    action: SyncAction
    target: str
    reason: str = ""
    message: str = ""
    retry_at: datetime | None = None


def failed_result(action: SyncAction, target: str, failure: RuntimeFailure) -> SyncResult:
    """The step that ended in this failure."""
    reason = failure.reason or _REASONS[action]
    return SyncResult(action=action, target=target, reason=reason, message=failure.message, retry_at=failure.retry_at)


def error_text(results: Iterable[SyncResult]) -> str:
    """All that went wrong in one line; empty if nothing did."""
    texts = dict.fromkeys(
        f"failed to {go_quote(step.action)} for {go_quote(step.target)} with {step.reason}: {go_quote(step.message)}"
        for step in results
        if step.reason
    )
    return f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)


def retry_at(results: Iterable[SyncResult]) -> datetime | None:
    """When the first of the failed steps is worth another try; None if that is not known of all of them."""
    times = [step.retry_at for step in results if step.reason]
    known = [at for at in times if at is not None]
    return min(known) if known and len(known) == len(times) else None
