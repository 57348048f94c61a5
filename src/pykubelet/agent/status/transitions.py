"""What may never happen in a pod's life: a dead container that lives again, an end that is no end.

Statuses in, a complaint or a status out; pure. The first rule is upstream's
(pkg/kubelet/status/status_manager.go, checkContainerStateTransition). The second is ours: upstream lets a terminal
phase change again, and pods that had failed were seen running or succeeded afterwards.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from pykubelet.api.generated.core import ContainerStatus, PodSpec, PodStatus
from pykubelet.api.pods import is_restartable_init_container, is_terminal


def illegal_transition(old: PodStatus, new: PodStatus, spec: PodSpec) -> str | None:
    """What a change of container states does that must not be done; None if it is legal."""
    if spec.restart_policy == "Always":
        return None
    for status in old.container_statuses:
        if _is_final(status, spec) and _lives(status.name, new.container_statuses):
            return f"terminated container {status.name} attempted illegal transition to non-terminated state"
    for index, status in enumerate(old.init_container_statuses):
        container = spec.init_containers[index] if index < len(spec.init_containers) else None
        if container is None or container.name != status.name:
            return f"found mismatch between pod spec and status, container: {status.name}"
        if is_restartable_init_container(container):
            continue
        if _is_final(status, spec) and _lives(status.name, new.init_container_statuses):
            return f"terminated init container {status.name} attempted illegal transition to non-terminated state"
    return None


def latch_phase(old: PodStatus, new: PodStatus) -> PodStatus:
    """The new status, but in the old phase, with its reason and message, if that is terminal and another one."""
    if not is_terminal(old.phase) or new.phase == old.phase:
        return new
    return replace(new, phase=old.phase, reason=old.reason, message=old.message)


def _is_final(status: ContainerStatus, spec: PodSpec) -> bool:
    """Whether a container has ended for good."""
    ended = status.state.terminated
    return ended is not None and (ended.exit_code == 0 or spec.restart_policy != "OnFailure")


def _lives(name: str, statuses: Iterable[ContainerStatus]) -> bool:
    return any(status.name == name and status.state.terminated is None for status in statuses)
