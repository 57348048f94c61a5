"""What a Job's pods amount to: counts, the end it has come to, the pods it wants.

Pure. In: the job and its pods. Out: a census, the condition that ends the job, and what to create or delete.
Upstream: pkg/controller/job/job_controller.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pykubelet.api.generated.batch import Job, JobCondition, UncountedTerminatedPods
from pykubelet.api.generated.core import Pod
from pykubelet.api.times import parse_time
from pykubelet.controllers.job_conditions import (
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    new_condition,
    true_condition,
)
from pykubelet.controllers.job_failure_policy import judge_failure
from pykubelet.controllers.pod_order import deletion_order, is_active, is_terminating, ready_condition

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
# Keeps one sync of a big job from holding up the others.
MAX_PODS_PER_SYNC = 500
# The API's defaults.
_BACKOFF_LIMIT, _PARALLELISM = 6, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """The pods of a job at one moment, compared with what its status has counted."""

    pods: tuple[Pod, ...]
    active: tuple[Pod, ...]
    ready: int
    terminating: int
    newly_succeeded: tuple[Pod, ...]
    newly_failed: tuple[Pod, ...]
    succeeded: int
    failed: int
    released: frozenset[str]
    """UIDs whose finalizer has been removed, though the pods still show it."""


@dataclass(frozen=True, slots=True)
class PodPlan:
    """What to do about a job's pods in this sync; never both."""

    delete: tuple[Pod, ...] = ()
    create: int = 0


def has_tracking_finalizer(pod: Pod) -> bool:
    """Whether the pod is yet to be counted."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


def is_suspended(job: Job) -> bool:
    """Whether the job is to have no pods for now."""
    return bool(job.spec.suspend)


def only_replaces_failed(job: Job) -> bool:
    """Whether a pod that is being deleted keeps its place until it has really ended."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def is_pod_failed(pod: Pod, job: Job) -> bool:
    """Whether the pod counts as failed; a deleted one may never get to say so itself."""
    if pod.status.phase == "Failed":
        return True
    if only_replaces_failed(job):
        return False
    return pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"


def uncounted_of(job: Job) -> UncountedTerminatedPods:
    """The finished pods that are noted in the status and not yet in its counters."""
    return job.status.uncounted_terminated_pods or UncountedTerminatedPods()


def take_census(job: Job, pods: Sequence[Pod], released: frozenset[str] = frozenset()) -> Census:
    """Count the pods of a job; `released`: see `Census.released`."""
    uncounted = uncounted_of(job)
    tracked = [pod for pod in pods if has_tracking_finalizer(pod) and pod.metadata.uid not in released]
    newly_succeeded = tuple(
        pod for pod in tracked if pod.status.phase == "Succeeded" and pod.metadata.uid not in uncounted.succeeded
    )
    newly_failed = tuple(pod for pod in tracked if is_pod_failed(pod, job) and pod.metadata.uid not in uncounted.failed)
    active = tuple(pod for pod in pods if is_active(pod))
    policy = job.spec.pod_failure_policy
    return Census(
        pods=tuple(pods),
        active=active,
        ready=sum(ready_condition(pod) is not None for pod in active),
        terminating=sum(is_terminating(pod) for pod in pods),
        newly_succeeded=newly_succeeded,
        newly_failed=newly_failed,
        succeeded=job.status.succeeded + len(newly_succeeded) + len(uncounted.succeeded),
        failed=job.status.failed
        + sum(judge_failure(policy, pod).counts for pod in newly_failed)
        + len(uncounted.failed),
        released=released,
    )


def ending_of(job: Job, census: Census, now: datetime) -> JobCondition | None:
    """The condition that ends the job now: one decided before, or a failure; success by count is asked later."""
    if met := true_condition(job.status.conditions, SUCCESS_CRITERIA_MET):
        return met
    if target := true_condition(job.status.conditions, FAILURE_TARGET):
        return new_condition(FAILED, "True", target.reason, target.message, now)
    for pod in census.pods if job.spec.pod_failure_policy is not None else ():
        message = judge_failure(job.spec.pod_failure_policy, pod).fails_job if is_pod_failed(pod, job) else None
        if message is not None:
            return new_condition(FAILURE_TARGET, "True", "PodFailurePolicy", message, now)
    if census.failed > _backoff_limit(job) or _restarted_too_often(job, census.pods):
        message = "Job has reached the specified backoff limit"
        return new_condition(FAILURE_TARGET, "True", "BackoffLimitExceeded", message, now)
    left = deadline_seconds_left(job, now)
    if left is not None and left <= 0:
        message = "Job was active longer than specified deadline"
        return new_condition(FAILURE_TARGET, "True", "DeadlineExceeded", message, now)
    return None


def deadline_seconds_left(job: Job, now: datetime) -> float | None:
    """How long the job may still be active; None if it has no deadline or the time does not run."""
    seconds = job.spec.active_deadline_seconds
    if seconds is None or job.status.start_time is None or is_suspended(job):
        return None
    return (parse_time(job.status.start_time) + timedelta(seconds=seconds) - now).total_seconds()


def success_of(job: Job, succeeded: int, active: int, now: datetime) -> JobCondition | None:
    """The condition that ends the job because enough pods have succeeded and none is left."""
    # Without a number of completions any success is enough, once the other pods have finished.
    wanted = 1 if job.spec.completions is None else job.spec.completions
    if succeeded < wanted or active > 0:
        return None
    message = "Reached expected number of succeeded pods"
    return new_condition(SUCCESS_CRITERIA_MET, "True", "CompletionsReached", message, now)


def wanted_active(job: Job, active: int, succeeded: int) -> int:
    """How many pods are to run at once now."""
    parallelism = _PARALLELISM if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return active if succeeded > 0 else parallelism
    return max(0, min(parallelism, job.spec.completions - succeeded))


def plan_pods(job: Job, census: Census) -> PodPlan:
    """Which pods to delete, or else how many to create."""
    active = len(census.active)
    if is_suspended(job):
        return PodPlan(delete=tuple(deletion_order(census.active)))
    wanted = wanted_active(job, active, census.succeeded)
    if active > wanted:
        surplus = min(active - wanted, MAX_PODS_PER_SYNC)
        return PodPlan(delete=tuple(deletion_order(census.active)[:surplus]))
    occupied = active + (census.terminating if only_replaces_failed(job) else 0)
    return PodPlan(create=max(0, min(wanted - occupied, MAX_PODS_PER_SYNC)))


def _backoff_limit(job: Job) -> int:
    return _BACKOFF_LIMIT if job.spec.backoff_limit is None else job.spec.backoff_limit


def _restarted_too_often(job: Job, pods: Sequence[Pod]) -> bool:
    """Where containers restart in place, their restarts count instead of failed pods."""
    if job.spec.template.spec.restart_policy != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return restarts >= max(1, _backoff_limit(job))
