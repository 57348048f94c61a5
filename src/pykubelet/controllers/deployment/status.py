"""What the status of a Deployment says: its pods, and how a rollout gets on.

Pure. Upstream: pkg/controller/deployment/{sync,progress}.go and util/deployment_util.go.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from pykubelet.api.generated.apps import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from pykubelet.api.times import parse_time
from pykubelet.controllers.deployment import conditions
from pykubelet.controllers.deployment.conditions import condition_of, deadline_seconds, progress
from pykubelet.controllers.deployment.limits import desired_replicas, min_available
from pykubelet.controllers.replica_plan import wanted_replicas


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
    return conditions.with_condition(status, conditions.condition(conditions.AVAILABLE, value, reason, message, now))


def rollout_status(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """The status of a Deployment that is rolled out: its pods, its progress, and failures to make pods."""
    status = _with_progress(deployment, pod_counts(deployment, new, old, now), new, now)
    failure = _failure(new, old)
    if failure is None:
        return conditions.without_condition(status, conditions.REPLICA_FAILURE)
    return conditions.with_condition(status, failure)


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
        return conditions.without_condition(status, conditions.PROGRESSING)
    present = condition_of(status, conditions.PROGRESSING)
    is_rolled_out = present is not None and present.reason == conditions.SET_AVAILABLE
    if is_rolled_out and status.replicas == status.updated_replicas:
        # Pods that come and go later are not a rollout.
        return status
    subject = f'ReplicaSet "{new.metadata.name}"' if new is not None else f'Deployment "{deployment.metadata.name}"'
    if is_complete(deployment, status):
        message = f"{subject} has successfully progressed."
        return conditions.with_condition(status, progress("True", conditions.SET_AVAILABLE, message, now))
    if _has_progressed(deployment.status, status):
        # Also if it said so before: the deadline counts from now.
        message = f"{subject} is progressing."
        return conditions.with_update(status, progress("True", conditions.SET_UPDATED, message, now))
    due_at = _deadline(deployment, status)
    if due_at is not None and due_at < now:
        message = f"{subject} has timed out progressing."
        return conditions.with_condition(status, progress("False", conditions.TIMED_OUT, message, now))
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
    seconds, present = deadline_seconds(deployment), condition_of(status, conditions.PROGRESSING)
    if seconds is None or present is None or not present.last_update_time:
        return None
    if present.reason in {conditions.SET_AVAILABLE, conditions.TIMED_OUT}:
        return None
    return parse_time(present.last_update_time) + timedelta(seconds=seconds)


def _failure(new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> DeploymentCondition | None:
    """Why a set cannot make or delete pods; if several cannot, what the new one says."""
    for one in [*([new] if new is not None else []), *old]:
        for found in one.status.conditions:
            if found.type == conditions.REPLICA_FAILURE:
                return DeploymentCondition(
                    type=found.type,
                    status=found.status,
                    reason=found.reason,
                    message=found.message,
                    last_transition_time=found.last_transition_time,
                    last_update_time=found.last_transition_time,
                )
    return None
