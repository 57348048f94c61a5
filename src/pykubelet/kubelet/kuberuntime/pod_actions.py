"""Decides the next step of a pod: compares its spec with its state at the runtime.

`compute_pod_actions` takes the pod, the runtime's view and the probe results, and returns one `PodActions`. It says what
to do next, not everything that has to be done: each change of the pod leads here again. `SyncResult` is the outcome of
one step. All functions are pure. Resizing a running container is not part of this.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go, pkg/kubelet/kuberuntime/kuberuntime_container.go,
pkg/kubelet/kuberuntime/util/util.go, pkg/kubelet/container/helpers.go, pkg/kubelet/container/sync_result.go
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from pykubelet.api.field_errors import aggregate_messages, go_json, go_quote
from pykubelet.api.generated.core import Container, EphemeralContainer, Pod
from pykubelet.api.pods import AnyContainer, is_restartable_init_container
from pykubelet.api.times import MAX_DURATION_SECONDS
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimeFailure, RuntimePod

MINIMUM_GRACE_SECONDS = 2
"""Every container gets at least this long to end, so that a wrong number never kills it outright."""

# Rotated logs have the restart count too, followed by a suffix.
_LOG_NAME = re.compile(r"0*([0-9]{1,19})\.log")
_MAX_COUNT = 2**63 - 1
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResults:
    """Whether each container passed its last probe, by container id; a container without a result is absent."""

    liveness: Mapping[str, bool] = field(default_factory=dict)
    startup: Mapping[str, bool] = field(default_factory=dict)
    readiness: Mapping[str, bool] = field(default_factory=dict)


class KillReason(StrEnum):
    """Why a container is killed, where the reason decides its grace period."""

    LIVENESS_PROBE = "LivenessProbe"
    STARTUP_PROBE = "StartupProbe"
    UNKNOWN = "Unknown"
    OTHER = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerToKill:
    """One container to kill; `message` is the text of its event."""

    container_id: str
    container: Container
    message: str
    reason: KillReason = KillReason.OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class PodActions:
    """The next step of a pod. Kills come before starts.

    `kill_pod` kills everything of the pod; `create_sandbox` then creates a new sandbox. `sandbox_id` is the
    existing sandbox (empty if it cannot be kept), `attempt` the number of the sandbox to use.
    """

    attempt: int
    sandbox_id: str = ""
    kill_pod: bool
    create_sandbox: bool = False
    kills: tuple[ContainerToKill, ...] = ()
    start_ephemeral: tuple[EphemeralContainer, ...] = ()
    start_init: tuple[Container, ...] = ()
    start: tuple[Container, ...] = ()


def compute_pod_actions(pod: Pod, observed: RuntimePod, probes: ProbeResults) -> PodActions:
    """The next step of a pod: in a new sandbox if it needs one, else in the sandbox it has."""
    change = pod_sandbox_changed(pod, observed)
    if change.is_new:
        return _actions_in_new_sandbox(pod, observed, change)
    return _actions_in_sandbox(pod, observed, probes, change)


@dataclass(frozen=True, slots=True)
class SandboxChange:
    """Whether a pod needs a new sandbox, the attempt number of the sandbox to use, and the existing sandbox."""

    is_new: bool
    attempt: int
    sandbox_id: str


def pod_sandbox_changed(pod: Pod, observed: RuntimePod) -> SandboxChange:
    """Whether a pod needs a new sandbox: it has none, two, or one that is dead or lacks its network."""
    if not observed.sandboxes:
        return SandboxChange(True, 0, "")
    newest = observed.sandboxes[0]
    ready = sum(sandbox.is_ready for sandbox in observed.sandboxes)
    if ready > 1 or not newest.is_ready:
        return SandboxChange(True, newest.attempt + 1, newest.id)
    if newest.host_network != pod.spec.host_network:
        # A sandbox with another network was never this pod's, so it is not named as the one that changed.
        return SandboxChange(True, newest.attempt + 1, "")
    if not pod.spec.host_network and not newest.ips:
        return SandboxChange(True, newest.attempt + 1, newest.id)
    return SandboxChange(False, newest.attempt, newest.id)


def _actions_in_new_sandbox(pod: Pod, observed: RuntimePod, change: SandboxChange) -> PodActions:
    """Starts the pod anew, unless none of its containers is to run again."""
    only_kill = PodActions(attempt=change.attempt, sandbox_id=change.sandbox_id, kill_pod=True)
    if pod.spec.restart_policy == "Never" and change.attempt > 0 and observed.containers:
        return only_kill
    start = tuple(one for one in pod.spec.containers if not _has_succeeded(pod, observed.newest(one.name)))
    if not start and _had_regular_container(pod, observed):
        return only_kill
    return PodActions(
        attempt=change.attempt,
        sandbox_id=change.sandbox_id,
        kill_pod=True,
        create_sandbox=True,
        start_init=pod.spec.init_containers[:1],
        start=() if pod.spec.init_containers else start,
    )


def _has_succeeded(pod: Pod, newest: RuntimeContainer | None) -> bool:
    is_success = newest is not None and newest.state == ContainerState.EXITED and newest.exit_code == 0
    return is_success and pod.spec.restart_policy == "OnFailure"


def _had_regular_container(pod: Pod, observed: RuntimePod) -> bool:
    newest = (observed.newest(container.name) for container in pod.spec.containers)
    return any(one is not None and one.state != ContainerState.UNKNOWN for one in newest)


def _actions_in_sandbox(pod: Pod, observed: RuntimePod, probes: ProbeResults, change: SandboxChange) -> PodActions:
    """Keeps the sandbox and decides on each container in it."""
    # An ephemeral container needs no initialization and runs at most once.
    ephemeral = tuple(one for one in pod.spec.ephemeral_containers if observed.newest(one.name) is None)
    init = compute_init_container_actions(pod, observed, probes)
    if init.has_failed or not init.is_initialized:
        return PodActions(
            attempt=change.attempt,
            sandbox_id=change.sandbox_id,
            kill_pod=init.has_failed,
            kills=init.kills,
            start_ephemeral=ephemeral,
            start_init=init.start,
        )
    kills, start, keeps_any = _regular_container_actions(pod, observed, probes)
    is_over = not keeps_any and not start
    return PodActions(
        attempt=change.attempt,
        sandbox_id=change.sandbox_id,
        kill_pod=is_over,
        kills=(*init.kills, *kills),
        start_ephemeral=ephemeral,
        # Sidecars must not keep a pod alive whose regular containers are all done.
        start_init=() if is_over else init.start,
        start=start,
    )


def _regular_container_actions(
    pod: Pod, observed: RuntimePod, probes: ProbeResults
) -> tuple[tuple[ContainerToKill, ...], tuple[Container, ...], bool]:
    """What to kill, what to start, and whether any container keeps running."""
    kills, start, keeps_any = [], [], False
    for container in pod.spec.containers:
        newest = observed.newest(container.name)
        if newest is None or newest.state != ContainerState.RUNNING:
            if should_restart(container.name, pod, observed):
                start.append(container)
                if newest is not None and newest.state == ContainerState.UNKNOWN:
                    # It may be running after all, and two containers of one name must never run.
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
    """Why a running container must be killed; a changed definition restarts it under any restart policy."""
    if newest.hash != container_hash(container):
        return f"Container {container.name} definition changed", KillReason.OTHER
    if probes.liveness.get(newest.id) is False:
        return f"Container {container.name} failed liveness probe", KillReason.LIVENESS_PROBE
    if probes.startup.get(newest.id) is False:
        return f"Container {container.name} failed startup probe", KillReason.STARTUP_PROBE
    return None


def _kill(container: Container, newest: RuntimeContainer, message: str, reason: KillReason) -> ContainerToKill:
    return ContainerToKill(container_id=newest.id, container=container, message=message, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitContainerActions:
    """What the init containers need; `has_failed` if one has failed for good, and with it the pod."""

    is_initialized: bool
    has_failed: bool = False
    start: tuple[Container, ...] = ()
    kills: tuple[ContainerToKill, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _InitDecision:
    """What one init container needs: a start, a kill before it; with `is_completed` the next one may start."""

    start: bool = False
    kill: ContainerToKill | None = None
    is_completed: bool = False
    fails_pod: bool = False


def compute_init_container_actions(pod: Pod, observed: RuntimePod, probes: ProbeResults) -> InitContainerActions:
    """What the init containers of a pod with a good sandbox need.

    Goes from the last init container to the first: old containers may have been removed, so the last one that the
    runtime knows shows how far the pod has come. All before it completed once; of those only sidecars still matter.
    """
    inits = pod.spec.init_containers
    if not inits:
        return InitContainerActions(is_initialized=True)
    is_initialized = was_completed = _has_live_regular_container(pod, observed)
    start: list[Container] = []
    kills: list[ContainerToKill] = []
    for index, container in reversed(tuple(enumerate(inits))):
        newest = observed.newest(container.name)
        decision = _decide_init(pod, container, newest, probes, was_completed=was_completed)
        if decision.fails_pod:
            return InitContainerActions(is_initialized=False, has_failed=True, kills=tuple(kills))
        if decision.is_completed and index == len(inits) - 1:
            is_initialized = True
        elif decision.is_completed and not was_completed:
            start.append(inits[index + 1])
        if decision.start:
            start.append(container)
        if decision.kill is not None:
            kills.append(decision.kill)
        was_completed = was_completed or newest is not None
    if not was_completed:
        start.append(inits[0])
    return InitContainerActions(is_initialized=is_initialized, start=tuple(reversed(start)), kills=tuple(kills))


def _has_live_regular_container(pod: Pod, observed: RuntimePod) -> bool:
    """Whether a regular container proves that the init containers completed.

    An exited one proves nothing: it may belong to the previous sandbox, as after a reboot.
    """
    newest = (observed.newest(container.name) for container in pod.spec.containers)
    return any(one is not None and one.state in {ContainerState.CREATED, ContainerState.RUNNING} for one in newest)


def _decide_init(
    pod: Pod, container: Container, newest: RuntimeContainer | None, probes: ProbeResults, *, was_completed: bool
) -> _InitDecision:
    if is_restartable_init_container(container):
        # A sidecar that ran and is gone must run again; for its first start, its predecessor decides.
        return _InitDecision(start=was_completed) if newest is None else _decide_sidecar(container, newest, probes)
    return _InitDecision() if newest is None or was_completed else _decide_plain_init(pod, container, newest)


def _decide_plain_init(pod: Pod, container: Container, newest: RuntimeContainer) -> _InitDecision:
    may_retry = pod.spec.restart_policy != "Never"
    match newest.state:
        case ContainerState.CREATED:
            # Its start was cancelled, and may still be in flight: it is removed before the next one is created.
            return _InitDecision(start=True)
        case ContainerState.RUNNING:
            return _InitDecision()
        case ContainerState.EXITED if newest.exit_code == 0 and newest.reason != "OOMKilled":
            return _InitDecision(is_completed=True)
        case ContainerState.EXITED:
            return _InitDecision(start=True) if may_retry else _InitDecision(fails_pod=True)
        case _:
            return _restart_unknown(container, newest) if may_retry else _InitDecision(fails_pod=True)


def _decide_sidecar(container: Container, newest: RuntimeContainer, probes: ProbeResults) -> _InitDecision:
    match newest.state:
        case ContainerState.CREATED | ContainerState.EXITED:
            return _InitDecision(start=True)
        case ContainerState.RUNNING:
            return _decide_running_sidecar(container, newest, probes)
        case _:
            return _restart_unknown(container, newest)


def _decide_running_sidecar(container: Container, newest: RuntimeContainer, probes: ProbeResults) -> _InitDecision:
    if container.startup_probe is not None:
        has_started = probes.startup.get(newest.id)
        if has_started is None:
            return _InitDecision()
        if not has_started:
            message = f"Init container {container.name} failed startup probe"
            return _restart(container, newest, message, KillReason.STARTUP_PROBE)
    if newest.hash != container_hash(container):
        message = f"Init container {container.name} definition changed"
        return _restart(container, newest, message, is_completed=True)
    if container.liveness_probe is not None and probes.liveness.get(newest.id) is False:
        message = f"Init container {container.name} failed liveness probe"
        return _restart(container, newest, message, KillReason.LIVENESS_PROBE, is_completed=True)
    return _InitDecision(is_completed=True)


def _restart_unknown(container: Container, newest: RuntimeContainer) -> _InitDecision:
    message = f'Init container is in "{newest.state}" state, try killing it before restart'
    return _restart(container, newest, message, KillReason.UNKNOWN)


def _restart(
    container: Container,
    newest: RuntimeContainer,
    message: str,
    reason: KillReason = KillReason.OTHER,
    *,
    is_completed: bool = False,
) -> _InitDecision:
    return _InitDecision(start=True, kill=_kill(container, newest, message, reason), is_completed=is_completed)


def should_restart(name: str, pod: Pod, observed: RuntimePod) -> bool:
    """Whether to start the container with this name, which does not run."""
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
    """The attempt number of the next container with this name, starting at 0.

    `log_names` lists its log directory: logs outlive containers and hold the number when no container is left.
    """
    newest = observed.newest(name)
    return newest.attempt + 1 if newest is not None else restart_count_from_logs(log_names)


def restart_count_from_logs(log_names: Iterable[str]) -> int:
    """One more than the highest number in the names of log files; ignores other files."""
    numbers = (int(match[1]) for match in map(_LOG_NAME.match, log_names) if match)
    return max((number + 1 for number in numbers if number <= _MAX_COUNT), default=0)


def kill_grace_seconds(pod: Pod, container: AnyContainer, reason: KillReason) -> int:
    """The grace period of one container: the deletion's, else the failed probe's, else the pod's.

    `effective_grace` of the pod workers decides the whole pod's.
    """
    return min(_wanted_grace_seconds(pod, container, reason), MAX_DURATION_SECONDS)


def _wanted_grace_seconds(pod: Pod, container: AnyContainer, reason: KillReason) -> int:
    if pod.metadata.deletion_grace_period_seconds is not None:
        return pod.metadata.deletion_grace_period_seconds
    of_pod = pod.spec.termination_grace_period_seconds
    if of_pod is None:
        return MINIMUM_GRACE_SECONDS
    probes = {KillReason.LIVENESS_PROBE: container.liveness_probe, KillReason.STARTUP_PROBE: container.startup_probe}
    probe = probes.get(reason)
    of_probe = probe.termination_grace_period_seconds if probe is not None else None
    return of_probe if of_probe is not None else of_pod


def container_hash(container: AnyContainer) -> str:
    """The hash, in hexadecimal, that shows whether a container was made from the current spec.

    It covers name and image only and equals upstream's, so that containers survive a change of the kubelet.
    """
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


class SyncAction(StrEnum):
    """The kinds of step that a sync of a pod consists of."""

    START_CONTAINER = "StartContainer"
    KILL_CONTAINER = "KillContainer"
    CREATE_SANDBOX = "CreatePodSandbox"
    KILL_SANDBOX = "KillPodSandbox"


# The reason of a failed step if the failure has none of its own.
_REASONS = {
    SyncAction.START_CONTAINER: "RunContainerError",
    SyncAction.KILL_CONTAINER: "KillContainerError",
    SyncAction.CREATE_SANDBOX: "CreatePodSandboxError",
    SyncAction.KILL_SANDBOX: "KillPodSandboxError",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """The outcome of one step; it succeeded if `reason` is empty. `target` names the container or the pod.

    For a container that did not start, reason and message become its waiting state. `retry_at` is when the next try
    makes sense, if known.
    """

    action: SyncAction
    target: str
    reason: str = ""
    message: str = ""
    retry_at: datetime | None = None


def failed_result(action: SyncAction, target: str, failure: RuntimeFailure) -> SyncResult:
    """The result of a step that ended in this failure."""
    reason = failure.reason or _REASONS[action]
    return SyncResult(action=action, target=target, reason=reason, message=failure.message, retry_at=failure.retry_at)


def error_text(results: Iterable[SyncResult]) -> str:
    """All errors in one line; empty if every step succeeded."""
    texts = [
        f"failed to {go_quote(step.action)} for {go_quote(step.target)} with {step.reason}: {go_quote(step.message)}"
        for step in results
        if step.reason
    ]
    return aggregate_messages(texts) if texts else ""


def retry_at(results: Iterable[SyncResult]) -> datetime | None:
    """When the first failed step should be tried again; None unless every failed step says when."""
    times = [step.retry_at for step in results if step.reason]
    known = [at for at in times if at is not None]
    return min(known) if known and len(known) == len(times) else None
