"""When a pod has been active for longer than it may be.

Time is passed in; the answer when that will be lets a worker wake exactly then. Pure.
Upstream: pkg/kubelet/active_deadline.go.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.times import parse_time


@dataclass(frozen=True, slots=True)
class PodEnd:
    """Why the node ends a pod that would go on: what its status says, and the event about it."""

    reason: str
    message: str


DEADLINE_EXCEEDED = PodEnd("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


def deadline_at(pod: Pod, reported: PodStatus) -> datetime | None:
    """When the pod's time is up; None if it has no limit, or has not started. `reported` is its last known status."""
    limit = pod.spec.active_deadline_seconds
    if limit is None or reported.start_time is None:
        return None
    return parse_time(reported.start_time) + timedelta(seconds=limit)


def deadline_exceeded(pod: Pod, reported: PodStatus, now: datetime) -> PodEnd | None:
    """The end of a pod whose time is up."""
    deadline = deadline_at(pod, reported)
    return DEADLINE_EXCEEDED if deadline is not None and now >= deadline else None
