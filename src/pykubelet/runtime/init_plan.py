"""Which init container is next, which sidecars must run again, and when a pod counts as initialized.

The init containers are judged from the last to the first: old ones may have been removed, so the last one of which
anything is known tells how far the pod has come. All before it were through once; of those only sidecars still matter.
Pure. Upstream: computeInitContainerActions in pkg/kubelet/kuberuntime/kuberuntime_container.go.
"""

from dataclasses import dataclass

from pykubelet.api.generated.core import Container, Pod
from pykubelet.api.pods import is_restartable_init_container
from pykubelet.runtime.actions import Kill, KillReason, ProbeResults
from pykubelet.runtime.container_hash import container_hash
from pykubelet.runtime.protocol import ContainerState, RuntimeContainer, RuntimePod


@dataclass(frozen=True, slots=True, kw_only=True)
class InitPlan:
    """What the init containers need; `has_failed` if one has failed for good, and with it the pod."""

    is_initialized: bool
    has_failed: bool = False
    start: tuple[Container, ...] = ()
    kills: tuple[Kill, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What one init container needs: a start, a kill before it; `is_through` if the next one may go."""

    start: bool = False
    kill: Kill | None = None
    is_through: bool = False
    fails_pod: bool = False


def init_plan(pod: Pod, observed: RuntimePod, probes: ProbeResults) -> InitPlan:
    """What the init containers of a pod with a good sandbox need."""
    inits = pod.spec.init_containers
    if not inits:
        return InitPlan(is_initialized=True)
    is_initialized = was_through = _has_live_regular_container(pod, observed)
    start: list[Container] = []
    kills: list[Kill] = []
    for index, container in reversed(tuple(enumerate(inits))):
        newest = observed.newest(container.name)
        verdict = _judge(pod, container, newest, probes, was_through=was_through)
        if verdict.fails_pod:
            return InitPlan(is_initialized=False, has_failed=True, kills=tuple(kills))
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
    return InitPlan(is_initialized=is_initialized, start=tuple(reversed(start)), kills=tuple(kills))


def _has_live_regular_container(pod: Pod, observed: RuntimePod) -> bool:
    """Whether a regular container proves that the init containers are through.

    One that has exited proves nothing: it may be from the sandbox before this one, as after a reboot.
    """
    newest = (observed.newest(container.name) for container in pod.spec.containers)
    return any(one is not None and one.state in {ContainerState.CREATED, ContainerState.RUNNING} for one in newest)


def _judge(
    pod: Pod, container: Container, newest: RuntimeContainer | None, probes: ProbeResults, *, was_through: bool
) -> _Verdict:
    if is_restartable_init_container(container):
        # A sidecar that was through and is gone must run again; the first start of one is its predecessor's to ask for.
        return _Verdict(start=was_through) if newest is None else _judge_sidecar(container, newest, probes)
    return _Verdict() if newest is None or was_through else _judge_plain(pod, container, newest)


def _judge_plain(pod: Pod, container: Container, newest: RuntimeContainer) -> _Verdict:
    may_retry = pod.spec.restart_policy != "Never"
    match newest.state:
        case ContainerState.CREATED:
            # Creating and starting are one step for us: who is found between them did not start.
            return _Verdict(start=True)
        case ContainerState.RUNNING:
            return _Verdict()
        case ContainerState.EXITED if newest.exit_code == 0 and newest.reason != "OOMKilled":
            return _Verdict(is_through=True)
        case ContainerState.EXITED:
            return _Verdict(start=True) if may_retry else _Verdict(fails_pod=True)
        case _:
            return _restart_unknown(container, newest) if may_retry else _Verdict(fails_pod=True)


def _judge_sidecar(container: Container, newest: RuntimeContainer, probes: ProbeResults) -> _Verdict:
    match newest.state:
        case ContainerState.CREATED | ContainerState.EXITED:
            return _Verdict(start=True)
        case ContainerState.RUNNING:
            return _judge_running_sidecar(container, newest, probes)
        case _:
            return _restart_unknown(container, newest)


def _judge_running_sidecar(container: Container, newest: RuntimeContainer, probes: ProbeResults) -> _Verdict:
    if container.startup_probe is not None:
        has_started = probes.startup.get(newest.id)
        if has_started is None:
            return _Verdict()
        if not has_started:
            message = f"Init container {container.name} failed startup probe"
            return _restart(container, newest, message, KillReason.STARTUP_PROBE)
    if newest.hash != container_hash(container):
        message = f"Init container {container.name} definition changed"
        return _restart(container, newest, message, is_through=True)
    if container.liveness_probe is not None and probes.liveness.get(newest.id) is False:
        message = f"Init container {container.name} failed liveness probe"
        return _restart(container, newest, message, KillReason.LIVENESS_PROBE, is_through=True)
    return _Verdict(is_through=True)


def _restart_unknown(container: Container, newest: RuntimeContainer) -> _Verdict:
    message = f'Init container is in "{newest.state}" state, try killing it before restart'
    return _restart(container, newest, message, KillReason.UNKNOWN)


def _restart(
    container: Container,
    newest: RuntimeContainer,
    message: str,
    reason: KillReason = KillReason.OTHER,
    *,
    is_through: bool = False,
) -> _Verdict:
    kill = Kill(container_id=newest.id, container=container, message=message, reason=reason)
    return _Verdict(start=True, kill=kill, is_through=is_through)
