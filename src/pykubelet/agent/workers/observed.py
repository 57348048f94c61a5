"""Small questions about what the runtime has of a pod and what its status says.

Pure. Upstream: preserveDataFromBeforeStopping in pkg/kubelet/kubelet.go, pkg/kubelet/active_deadline.go.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.times import parse_time
from pykubelet.runtime.protocol import ContainerState, RuntimePod


def has_running_status(status: PodStatus) -> bool:
    """Whether the status shows a regular container that runs."""
    return any(container.state.running is not None for container in status.container_statuses)


def running_ids(observed: RuntimePod) -> tuple[str, ...]:
    """The containers that run."""
    return tuple(container.id for container in observed.containers if container.state is ContainerState.RUNNING)


def nothing_left_of(observed: RuntimePod) -> RuntimePod:
    """The same pod, of which the runtime has nothing any more."""
    return replace(observed, sandboxes=(), containers=())


def with_addresses_of(stopped: RuntimePod, before: RuntimePod) -> RuntimePod:
    """A stopped pod with the addresses it had while it ran: the runtime forgets them, its status must not."""
    known = {sandbox.id: sandbox.ips for sandbox in before.sandboxes}
    kept = tuple(
        sandbox if sandbox.ips else replace(sandbox, ips=known.get(sandbox.id, ())) for sandbox in stopped.sandboxes
    )
    return replace(stopped, sandboxes=kept or tuple(replace(sandbox, is_ready=False) for sandbox in before.sandboxes))


def deadline_in_seconds(pod: Pod, status: PodStatus, now: datetime) -> float | None:
    """How long the pod may still be active; None if nothing limits it, or it has not started."""
    if pod.spec.active_deadline_seconds is None or status.start_time is None:
        return None
    ends_at = parse_time(status.start_time) + timedelta(seconds=pod.spec.active_deadline_seconds)
    return max((ends_at - now).total_seconds(), 0.0)
