"""The last status of a pod: what is said of containers that nobody can find any more.

The pod and its status so far in, the final status out; pure. A container whose end nobody saw counts as failed, or a
pod could be called successful by mistake. Containers that never had a chance to start stay waiting.
Upstream: pkg/kubelet/status/status_manager.go (TerminatePod).
"""

from msgspec.structs import replace

from pykubelet.api.generated.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus
from pykubelet.api.pods import is_restartable_init_container, is_static_pod, is_terminal

UNKNOWN = ContainerState(
    terminated=ContainerStateTerminated(
        reason="ContainerStatusUnknown",
        message="The container could not be located when the pod was terminated",
        exit_code=137,
    )
)


def final_status(pod: Pod, status: PodStatus) -> PodStatus:
    """The status with every container that may have run terminated; a pod that is not static also gets its phase.

    Whether the pod has initialized is judged by `pod.status`, not by `status`.
    """
    containers = status.container_statuses
    if has_initialized(pod):
        containers = _terminated(containers)
    tried = _tried(status.init_container_statuses)
    inits = (*_terminated(status.init_container_statuses[:tried]), *status.init_container_statuses[tried:])
    phase = status.phase if is_static_pod(pod) or is_terminal(status.phase) else "Failed"
    return replace(status, container_statuses=containers, init_container_statuses=inits, phase=phase)


def has_initialized(pod: Pod) -> bool:
    """Whether the pod's status proves that its init containers are through."""
    if not pod.spec.init_containers:
        return True
    if any(_has_tried(status) for status in pod.status.container_statuses):
        return True
    inits = pod.status.init_container_statuses
    last = len(inits) - 1
    if last < 0 or last >= len(pod.spec.init_containers):
        return False
    status, container = inits[last], pod.spec.init_containers[last]
    if status.name != container.name:
        return False
    if is_restartable_init_container(container):
        return status.state.running is not None and bool(status.started)
    ends = (status.last_state.terminated, status.state.terminated)
    return any(end is not None and end.exit_code == 0 for end in ends)


def _tried(statuses: tuple[ContainerStatus, ...]) -> int:
    """How many init containers must be accounted for: all up to the last that shows a start, but at least one."""
    for index in range(len(statuses) - 1, -1, -1):
        if _has_tried(statuses[index]):
            return index + 1
    return min(len(statuses), 1)


def _has_tried(status: ContainerStatus) -> bool:
    return status.state.waiting is None or status.last_state.terminated is not None


def _terminated(statuses: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
    return tuple(one if one.state.terminated is not None else replace(one, state=UNKNOWN) for one in statuses)
