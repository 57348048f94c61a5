"""The conditions of a Deployment: Available, Progressing, ReplicaFailure.

Pure. Upstream: pkg/controller/deployment/{sync,progress}.go and util/deployment_util.go.
"""

from datetime import datetime

from msgspec.structs import replace

from pykubelet.api.generated.apps import Deployment, DeploymentCondition, DeploymentStatus
from pykubelet.api.names import MAX_ID
from pykubelet.api.times import format_time

AVAILABLE = "Available"
PROGRESSING = "Progressing"
REPLICA_FAILURE = "ReplicaFailure"

SET_UPDATED = "ReplicaSetUpdated"
SET_CREATE_ERROR = "ReplicaSetCreateError"
SET_CREATED = "NewReplicaSetCreated"
SET_FOUND = "FoundNewReplicaSet"
SET_AVAILABLE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"
_NO_DEADLINE = MAX_ID


def deadline_seconds(deployment: Deployment) -> int | None:
    """How long a rollout may go without progress; None if it may for ever."""
    seconds = deployment.spec.progress_deadline_seconds
    return None if seconds == _NO_DEADLINE else seconds


def condition_of(status: DeploymentStatus, kind: str) -> DeploymentCondition | None:
    """The condition of this type."""
    return next((one for one in status.conditions if one.type == kind), None)


def progress(status: str, reason: str, message: str, now: datetime) -> DeploymentCondition:
    """What is to be said of the progress, from now on."""
    return condition(PROGRESSING, status, reason, message, now)


def condition(kind: str, status: str, reason: str, message: str, now: datetime) -> DeploymentCondition:
    """A condition that holds from now on."""
    at = format_time(now)
    return DeploymentCondition(
        type=kind, status=status, reason=reason, message=message, last_update_time=at, last_transition_time=at
    )


def with_condition(status: DeploymentStatus, new: DeploymentCondition) -> DeploymentStatus:
    """The status with a condition; one that says the same, with the same reason, stays as it is."""
    present = condition_of(status, new.type)
    if present is not None and (present.status, present.reason) == (new.status, new.reason):
        return status
    return with_update(status, new)


def with_update(status: DeploymentStatus, new: DeploymentCondition) -> DeploymentStatus:
    """The status with a condition in place of what was said before; its last transition is when its status changed."""
    present = condition_of(status, new.type)
    if present is not None and present.status == new.status:
        new = replace(new, last_transition_time=present.last_transition_time)
    return replace(status, conditions=(*without_condition(status, new.type).conditions, new))


def without_condition(status: DeploymentStatus, kind: str) -> DeploymentStatus:
    """The status without a condition."""
    return replace(status, conditions=tuple(one for one in status.conditions if one.type != kind))


def with_pause(deployment: Deployment, now: datetime) -> DeploymentStatus:
    """The status after the Deployment was paused or resumed: no time counts against the deadline meanwhile."""
    status = deployment.status
    present = condition_of(status, PROGRESSING)
    reason = present.reason if present is not None else ""
    # That the deadline has passed stays said.
    if deadline_seconds(deployment) is None or reason == TIMED_OUT or deployment.spec.paused == (reason == PAUSED):
        return status
    if deployment.spec.paused:
        return with_condition(status, progress("Unknown", PAUSED, "Deployment is paused", now))
    return with_condition(status, progress("Unknown", RESUMED, "Deployment is resumed", now))
