"""The status of a Deployment: pod counts, rollout progress and its conditions.

Conditions are Available, Progressing and ReplicaFailure.

Upstream: pkg/controller/deployment/progress.go, pkg/controller/deployment/sync.go,
pkg/controller/deployment/util/deployment_util.go
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from pykubelet.api.generated.apps import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from pykubelet.api.names import MAX_ID
from pykubelet.api.times import format_time, parse_time, seconds_after
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
    """The progress deadline; None if the rollout has none."""
    seconds = deployment.spec.progress_deadline_seconds
    return None if seconds == _NO_DEADLINE else seconds


def deployment_condition(status: DeploymentStatus, kind: str) -> DeploymentCondition | None:
    return next((one for one in status.conditions if one.type == kind), None)


def progressing_condition(status: str, reason: str, message: str, now: datetime) -> DeploymentCondition:
    return new_deployment_condition(PROGRESSING, status, reason, message, now)


def new_deployment_condition(kind: str, status: str, reason: str, message: str, now: datetime) -> DeploymentCondition:
    at = format_time(now)
    return DeploymentCondition(
        type=kind, status=status, reason=reason, message=message, last_update_time=at, last_transition_time=at
    )


def with_condition(status: DeploymentStatus, new: DeploymentCondition) -> DeploymentStatus:
    """Sets a condition unless one with the same status and reason exists."""
    present = deployment_condition(status, new.type)
    if present is not None and (present.status, present.reason) == (new.status, new.reason):
        return status
    return with_update(status, new)


def with_update(status: DeploymentStatus, new: DeploymentCondition) -> DeploymentStatus:
    """Replaces a condition; its transition time changes only with its status."""
    present = deployment_condition(status, new.type)
    if present is not None and present.status == new.status:
        new = replace(new, last_transition_time=present.last_transition_time)
    return replace(status, conditions=(*without_condition(status, new.type).conditions, new))


def without_condition(status: DeploymentStatus, kind: str) -> DeploymentStatus:
    return replace(status, conditions=tuple(one for one in status.conditions if one.type != kind))


def with_pause(deployment: Deployment, now: datetime) -> DeploymentStatus:
    """Records pausing or resuming in the Progressing condition; paused time is not part of the deadline."""
    status = deployment.status
    present = deployment_condition(status, PROGRESSING)
    reason = present.reason if present is not None else ""
    # An exceeded deadline stays recorded.
    if deadline_seconds(deployment) is None or reason == TIMED_OUT or deployment.spec.paused == (reason == PAUSED):
        return status
    reason, word = (PAUSED, "paused") if deployment.spec.paused else (RESUMED, "resumed")
    return with_condition(status, progressing_condition("Unknown", reason, f"Deployment is {word}", now))


def pod_counts(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """The status with the pod counts summed over all sets, and the Available condition."""
    sets = [*old, *([new] if new is not None else [])]
    available = sum(one.status.available_replicas for one in sets)
    status = replace(
        deployment.status,
        observed_generation=deployment.metadata.generation,
        replicas=sum(one.status.replicas for one in sets),
        updated_replicas=new.status.replicas if new is not None else 0,
        ready_replicas=sum(one.status.ready_replicas for one in sets),
        available_replicas=available,
        # A shrinking set may have more available pods than it wants.
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
    """The status during a rollout: pod counts, progress, and failures to create pods."""
    status = _with_progress(deployment, pod_counts(deployment, new, old, now), new, now)
    failure = _failure(new, old)
    if failure is None:
        return without_condition(status, REPLICA_FAILURE)
    return with_condition(status, failure)


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all desired pods exist, are available and of the new revision, and no others exist."""
    counts = (status.updated_replicas, status.replicas, status.available_replicas)
    is_current = status.observed_generation >= deployment.metadata.generation
    return is_current and all(count == desired_replicas(deployment) for count in counts)


def seconds_to_deadline(deployment: Deployment, now: datetime) -> float | None:
    """Seconds until a rollout without progress must be checked again; None if there is no need."""
    due_at = _deadline(deployment, deployment.status)
    if due_at is None or is_complete(deployment, deployment.status):
        return None
    # API times have whole seconds, and the deadline is exceeded only after it.
    return max((due_at - now).total_seconds(), 0.0) + 1.0


def _with_progress(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: datetime
) -> DeploymentStatus:
    if deadline_seconds(deployment) is None:
        return without_condition(status, PROGRESSING)
    present = deployment_condition(status, PROGRESSING)
    is_rolled_out = present is not None and present.reason == SET_AVAILABLE
    if is_rolled_out and status.replicas == status.updated_replicas:
        # Pods replaced after a completed rollout are not progress.
        return status
    subject = f'ReplicaSet "{new.metadata.name}"' if new is not None else f'Deployment "{deployment.metadata.name}"'
    if is_complete(deployment, status):
        message = f"{subject} has successfully progressed."
        return with_condition(status, progressing_condition("True", SET_AVAILABLE, message, now))
    if _has_progressed(deployment.status, status):
        # Updated even if unchanged: the deadline counts from now.
        message = f"{subject} is progressing."
        return with_update(status, progressing_condition("True", SET_UPDATED, message, now))
    due_at = _deadline(deployment, status)
    if due_at is not None and due_at < now:
        message = f"{subject} has timed out progressing."
        return with_condition(status, progressing_condition("False", TIMED_OUT, message, now))
    return status


def _has_progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    """Whether there are more new pods, fewer old ones, or more ready or available ones."""
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def _deadline(deployment: Deployment, status: DeploymentStatus) -> datetime | None:
    """When a rollout without progress times out; None if none is under way or it has timed out already."""
    seconds, present = deadline_seconds(deployment), deployment_condition(status, PROGRESSING)
    if seconds is None or present is None or not present.last_update_time:
        return None
    if present.reason in {SET_AVAILABLE, TIMED_OUT}:
        return None
    return seconds_after(parse_time(present.last_update_time), seconds)


def _failure(new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> DeploymentCondition | None:
    """The ReplicaFailure condition of a set; the new set's takes precedence."""
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
