"""What the status of a Deployment says: its pods, and how a rollout gets on.

Pure. Upstream: pkg/controller/deployment/{sync,progress}.go and util/deployment_util.go.

The conditions of a Deployment: Available, Progressing, ReplicaFailure.

Pure. Upstream: pkg/controller/deployment/{sync,progress}.go and util/deployment_util.go.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from pykubelet.api.generated.apps import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from pykubelet.api.names import MAX_ID
from pykubelet.api.times import format_time, parse_time
from pykubelet.controllers.deployment.replica_sets import desired_replicas, min_available
from pykubelet.controllers.replicaset.replica_set import wanted_replicas

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


def deployment_condition(status: DeploymentStatus, kind: str) -> DeploymentCondition | None:
    """The condition of this type."""
    return next((one for one in status.conditions if one.type == kind), None)


def progressing_condition(status: str, reason: str, message: str, now: datetime) -> DeploymentCondition:
    """What is to be said of the progress, from now on."""
    return new_deployment_condition(PROGRESSING, status, reason, message, now)


def new_deployment_condition(kind: str, status: str, reason: str, message: str, now: datetime) -> DeploymentCondition:
    """A condition that holds from now on."""
    at = format_time(now)
    return DeploymentCondition(
        type=kind, status=status, reason=reason, message=message, last_update_time=at, last_transition_time=at
    )


def with_condition(status: DeploymentStatus, new: DeploymentCondition) -> DeploymentStatus:
    """The status with a condition; one that says the same, with the same reason, stays as it is."""
    present = deployment_condition(status, new.type)
    if present is not None and (present.status, present.reason) == (new.status, new.reason):
        return status
    return with_update(status, new)


def with_update(status: DeploymentStatus, new: DeploymentCondition) -> DeploymentStatus:
    """The status with a condition in place of what was said before; its last transition is when its status changed."""
    present = deployment_condition(status, new.type)
    if present is not None and present.status == new.status:
        new = replace(new, last_transition_time=present.last_transition_time)
    return replace(status, conditions=(*without_condition(status, new.type).conditions, new))


def without_condition(status: DeploymentStatus, kind: str) -> DeploymentStatus:
    """The status without a condition."""
    return replace(status, conditions=tuple(one for one in status.conditions if one.type != kind))


def with_pause(deployment: Deployment, now: datetime) -> DeploymentStatus:
    """The status after the Deployment was paused or resumed: no time counts against the deadline meanwhile."""
    status = deployment.status
    present = deployment_condition(status, PROGRESSING)
    reason = present.reason if present is not None else ""
    # That the deadline has passed stays said.
    if deadline_seconds(deployment) is None or reason == TIMED_OUT or deployment.spec.paused == (reason == PAUSED):
        return status
    if deployment.spec.paused:
        return with_condition(status, progressing_condition("Unknown", PAUSED, "Deployment is paused", now))
    return with_condition(status, progressing_condition("Unknown", RESUMED, "Deployment is resumed", now))


def pod_counts(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """The status with the pods of all sets counted, as the sets count them; the rest stays."""
    sets = [*old, *([new] if new is not None else [])]
    available = sum(one.status.available_replicas for one in sets)
    status = replace(
        deployment.status,
        observed_generation=deployment.metadata.generation,
        replicas=sum(one.status.replicas for one in sets),
        updated_replicas=new.status.replicas if new is not None else 0,
        ready_replicas=sum(one.status.ready_replicas for one in sets),
        available_replicas=available,
        # A set that shrinks may have more of them than it wants.
        unavailable_replicas=max(sum(wanted_replicas(one) for one in sets) - available, 0),
    )
    if available >= min_available(deployment):
        value, reason, word = "True", "MinimumReplicasAvailable", "has"
    else:
        value, reason, word = "False", "MinimumReplicasUnavailable", "does not have"
    message = f"Deployment {word} minimum availability."
    return with_condition(status, new_deployment_condition(AVAILABLE, value, reason, message, now))


def rollout_status(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """The status of a Deployment that is rolled out: its pods, its progress, and failures to make pods."""
    status = _with_progress(deployment, pod_counts(deployment, new, old, now), new, now)
    failure = _failure(new, old)
    if failure is None:
        return without_condition(status, REPLICA_FAILURE)
    return with_condition(status, failure)


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all wanted pods are there and available, all of the new version, and no others."""
    counts = (status.updated_replicas, status.replicas, status.available_replicas)
    is_current = status.observed_generation >= deployment.metadata.generation
    return is_current and all(count == desired_replicas(deployment) for count in counts)


def seconds_to_deadline(deployment: Deployment, now: datetime) -> float | None:
    """How long until a rollout without progress has to be looked at again; None if there is no need to."""
    due_at = _deadline(deployment, deployment.status)
    if due_at is None or is_complete(deployment, deployment.status):
        return None
    # Times in the API have whole seconds, and at the deadline itself it is not yet exceeded.
    return max((due_at - now).total_seconds(), 0.0) + 1.0


def _with_progress(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: datetime
) -> DeploymentStatus:
    if deadline_seconds(deployment) is None:
        return without_condition(status, PROGRESSING)
    present = deployment_condition(status, PROGRESSING)
    is_rolled_out = present is not None and present.reason == SET_AVAILABLE
    if is_rolled_out and status.replicas == status.updated_replicas:
        # Pods that come and go later are not a rollout.
        return status
    subject = f'ReplicaSet "{new.metadata.name}"' if new is not None else f'Deployment "{deployment.metadata.name}"'
    if is_complete(deployment, status):
        message = f"{subject} has successfully progressed."
        return with_condition(status, progressing_condition("True", SET_AVAILABLE, message, now))
    if _has_progressed(deployment.status, status):
        # Also if it said so before: the deadline counts from now.
        message = f"{subject} is progressing."
        return with_update(status, progressing_condition("True", SET_UPDATED, message, now))
    due_at = _deadline(deployment, status)
    if due_at is not None and due_at < now:
        message = f"{subject} has timed out progressing."
        return with_condition(status, progressing_condition("False", TIMED_OUT, message, now))
    return status


def _has_progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    """Whether there are more new pods, fewer old ones, or more that are ready or available."""
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def _deadline(deployment: Deployment, status: DeploymentStatus) -> datetime | None:
    """When a rollout that shows no progress is given up; None if it is not under way, or given up already."""
    seconds, present = deadline_seconds(deployment), deployment_condition(status, PROGRESSING)
    if seconds is None or present is None or not present.last_update_time:
        return None
    if present.reason in {SET_AVAILABLE, TIMED_OUT}:
        return None
    return parse_time(present.last_update_time) + timedelta(seconds=seconds)


def _failure(new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> DeploymentCondition | None:
    """Why a set cannot make or delete pods; if several cannot, what the new one says."""
    for one in [*([new] if new is not None else []), *old]:
        for found in one.status.conditions:
            if found.type == REPLICA_FAILURE:
                return DeploymentCondition(
                    type=found.type,
                    status=found.status,
                    reason=found.reason,
                    message=found.message,
                    last_transition_time=found.last_transition_time,
                    last_update_time=found.last_transition_time,
                )
    return None
