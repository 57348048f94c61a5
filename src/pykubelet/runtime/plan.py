"""What to do with a pod now: compare what it should be with what the runtime has of it.

The pod, the runtime's view and the probes' verdicts in, one `PodActions` out. It says what to do next, not all that
ever has to be done: each change brings the pod here again. Pure; resizing a running container is not part of it.
Upstream: computePodActions in pkg/kubelet/kuberuntime/kuberuntime_manager.go.
"""

from pykubelet.api.generated.core import Container, Pod
from pykubelet.runtime.actions import Kill, KillReason, PodActions, ProbeResults
from pykubelet.runtime.container_hash import container_hash
from pykubelet.runtime.init_plan import init_plan
from pykubelet.runtime.protocol import ContainerState, RuntimeContainer, RuntimePod
from pykubelet.runtime.restarts import should_restart
from pykubelet.runtime.sandbox_need import SandboxNeed, sandbox_need


def plan(pod: Pod, observed: RuntimePod, probes: ProbeResults) -> PodActions:
    """The next step of a pod."""
    need = sandbox_need(pod, observed)
    return _begin_anew(pod, observed, need) if need.is_new else _go_on(pod, observed, probes, need)


def _begin_anew(pod: Pod, observed: RuntimePod, need: SandboxNeed) -> PodActions:
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


def _go_on(pod: Pod, observed: RuntimePod, probes: ProbeResults, need: SandboxNeed) -> PodActions:
    """The sandbox is good: see to the containers in it."""
    # An ephemeral container needs no initialization, and runs once whatever becomes of it.
    ephemeral = tuple(one for one in pod.spec.ephemeral_containers if observed.newest(one.name) is None)
    init = init_plan(pod, observed, probes)
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
) -> tuple[tuple[Kill, ...], tuple[Container, ...], bool]:
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


def _kill(container: Container, newest: RuntimeContainer, message: str, reason: KillReason) -> Kill:
    return Kill(container_id=newest.id, container=container, message=message, reason=reason)
