"""Whose log is meant: the container's that runs, or of the one before it.

In: the status of a pod, the name of a container, and whether its predecessor is asked for. Out: a container's id
(`runtime://id`), or why there is none.

Upstream: validateContainerLogStatus in pkg/kubelet/kubelet_pods.go
"""

from pykubelet.api.generated.core import ContainerStatus, PodStatus
from pykubelet.api.validation.field_errors import go_quote

_WAITING = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}


class NoLog(Exception):
    """There is no log to show; the message says why."""


def logged_container(pod_name: str, status: PodStatus, container: str, *, previous: bool) -> str:
    """The id of the container whose log is meant; raises NoLog."""
    what = f"container {go_quote(container)} in pod {go_quote(pod_name)}"
    found = _find(status, container)
    if found is None:
        raise NoLog(f"{what} is not available")
    before = found.last_state.terminated
    former_id = before.container_id if before is not None else ""
    if previous:
        if not former_id:
            raise NoLog(f"previous terminated {what} not found")
        return former_id
    if found.state.running is not None:
        return found.container_id
    if found.state.terminated is not None or before is not None:
        # Where the next one could not be made, the state has no id.
        ended_id = found.state.terminated.container_id if found.state.terminated is not None else ""
        if not (ended_id or former_id):
            raise NoLog(f"{what} is terminated")
        return ended_id or former_id
    if found.state.waiting is not None:
        reason = found.state.waiting.reason
        raise NoLog(f"{what} is waiting to start: {_WAITING.get(reason, reason)}")
    raise NoLog(f"{what} is waiting to start - no logs yet")


def _find(status: PodStatus, name: str) -> ContainerStatus | None:
    kinds = (status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses)
    return next((found for statuses in kinds for found in statuses if found.name == name), None)
