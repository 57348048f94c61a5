"""The end a Job has come to, and why.

Pure. In: the job and the census of its pods. Out: the condition that ends the job.
Upstream: syncJob in pkg/controller/job/job_controller.go.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from pykubelet.api.generated.batch import Job, JobCondition
from pykubelet.api.generated.core import Pod
from pykubelet.api.times import parse_time
from pykubelet.controllers.job_census import Census
from pykubelet.controllers.job_conditions import (
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    new_condition,
    true_condition,
)
from pykubelet.controllers.job_facts import is_pod_failed, is_suspended
from pykubelet.controllers.job_failure_policy import judge_failure
from pykubelet.controllers.job_success_policy import matched_rule

# The API's default.
_BACKOFF_LIMIT = 6


def ending_of(job: Job, census: Census, now: datetime) -> JobCondition | None:
    """The condition that ends the job now: one decided before, a failure, or its success policy.

    Success by count is asked later, when the pods have been dealt with.
    """
    if met := true_condition(job.status.conditions, SUCCESS_CRITERIA_MET):
        return met
    if target := true_condition(job.status.conditions, FAILURE_TARGET):
        return new_condition(FAILED, "True", target.reason, target.message, now)
    if failure := _failure(job, census, now) or _index_failure(job, census):
        return new_condition(FAILURE_TARGET, "True", *failure, now)
    if census.indexes is None:
        return None
    rule = matched_rule(job.spec.success_policy, census.indexes.succeeded, job.spec.completions or 0)
    if rule is None:
        return None
    return new_condition(SUCCESS_CRITERIA_MET, "True", "SuccessPolicy", f"Matched rules at index {rule}", now)


def _failure(job: Job, census: Census, now: datetime) -> tuple[str, str] | None:
    """Reason and message of what fails the whole job."""
    for pod in census.pods if job.spec.pod_failure_policy is not None else ():
        message = judge_failure(job.spec.pod_failure_policy, pod).fails_job if is_pod_failed(pod, job) else None
        if message is not None:
            return "PodFailurePolicy", message
    if census.failed > _backoff_limit(job) or _restarted_too_often(job, census.pods):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    left = deadline_seconds_left(job, now)
    if left is not None and left <= 0:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    return None


def _index_failure(job: Job, census: Census) -> tuple[str, str] | None:
    """The same for a job that gives up its indexes one by one."""
    if census.indexes is None or census.indexes.failed is None:
        return None
    failed, limit = census.indexes.failed.total, job.spec.max_failed_indexes
    if limit is not None and failed > limit:
        return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
    if failed > 0 and failed + census.indexes.succeeded.total >= (job.spec.completions or 0):
        return "FailedIndexes", "Job has failed indexes"
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
