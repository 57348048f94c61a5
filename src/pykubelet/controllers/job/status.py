"""The status of a Job: pod counts, progress of its indexes, conditions and how it ends.

A job ends in two steps: an interim condition (SuccessCriteriaMet, FailureTarget) says how it will end; the terminal one
(Complete, Failed) follows once every pod is counted and gone. A failed pod of an index that will be replaced keeps its
finalizer until its replacement exists, because that takes over the failure count.

Upstream: pkg/controller/job/job_controller.go, pkg/controller/job/indexed_job_utils.go,
pkg/controller/job/success_policy.go
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pykubelet.api.generated.batch import Job, JobCondition, UncountedTerminatedPods
from pykubelet.api.generated.core import Pod
from pykubelet.api.quantity import parse_int64
from pykubelet.api.times import format_time, parse_time, seconds_after
from pykubelet.controllers.framework.active_pods import is_pod_active, is_pod_terminating, ready_condition
from pykubelet.controllers.job.indexes import IndexSet, index_set, parse_indexes
from pykubelet.controllers.job.policies import finished_at, match_pod_failure_policy, match_success_policy

CONTROLLER_NAME = "kubernetes.io/job-controller"
TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Annotation and label of the pods of an indexed job."""
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
_MAX_COUNT = 2**31 - 1
COMPLETE, FAILED = "Complete", "Failed"
SUCCESS_CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
SUSPENDED = "Suspended"
_BACKOFF_LIMIT = 6  # the API's default


@dataclass(frozen=True, slots=True)
class IndexState:
    """The progress of the indexes of a job."""

    counted: IndexSet
    """Succeeded according to the status."""
    succeeded: IndexSet
    """Succeeded according to the status and the pods."""
    failed: IndexSet | None = None
    """Failed indexes; None without backoffLimitPerIndex."""
    to_replace: Mapping[int, Pod] = field(default_factory=dict)
    """The last failed pod of each index to retry; only with backoffLimitPerIndex."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPodCounts:
    """The pods of a job, compared with what its status has counted."""

    pods: tuple[Pod, ...]
    tracked: tuple[Pod, ...]
    """Pods not counted yet: they have the finalizer, and its removal has not been requested."""
    active: tuple[Pod, ...]
    ready: int
    terminating: int
    newly_succeeded: tuple[Pod, ...]
    newly_failed: tuple[Pod, ...]
    succeeded: int
    failed: int
    indexes: IndexState | None
    """None if the job is not indexed."""


def has_tracking_finalizer(pod: Pod) -> bool:
    """Whether the pod has not been counted yet."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


def is_ours(job: Job) -> bool:
    """Whether `spec.managedBy` leaves the job to this controller."""
    return job.spec.managed_by in (None, CONTROLLER_NAME)


def is_suspended(job: Job) -> bool:
    return bool(job.spec.suspend)


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def only_replaces_failed(job: Job) -> bool:
    """Whether a terminating pod is replaced only after it has failed (podReplacementPolicy Failed)."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def is_pod_failed(pod: Pod, job: Job) -> bool:
    """Whether the pod counts as failed; a deleted pod may never report it itself."""
    if pod.status.phase == "Failed":
        return True
    if only_replaces_failed(job):
        return False
    return pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"


def uncounted_of(job: Job) -> UncountedTerminatedPods:
    """The finished pods recorded in the status and not yet counted."""
    return job.status.uncounted_terminated_pods or UncountedTerminatedPods()


def completion_index(pod: Pod) -> int | None:
    """The completion index of the pod; None if missing or malformed."""
    index = parse_int64(pod.metadata.annotations.get(COMPLETION_INDEX, ""))
    return index if index is not None and index >= 0 else None


def has_place(pod: Pod, job: Job) -> bool:
    """Whether the job can count the pod: in an indexed job it needs an index below `spec.completions`."""
    if not is_indexed(job):
        return True
    index = completion_index(pod)
    return index is not None and index < (job.spec.completions or 0)


def index_state(job: Job, pods: Sequence[Pod], tracked: Sequence[Pod]) -> IndexState:
    """Combines the status with the pods; `tracked` are the pods not counted yet."""
    completions = job.spec.completions or 0
    indexed = [(index, pod) for pod in pods if has_place(pod, job) and (index := completion_index(pod)) is not None]
    uncounted = [(index, pod) for index, pod in indexed if has_tracking_finalizer(pod)]
    counted = parse_indexes(job.status.completed_indexes, completions)
    succeeded = counted | index_set(index for index, pod in uncounted if pod.status.phase == "Succeeded")
    if job.spec.backoff_limit_per_index is None:
        return IndexState(counted, succeeded)
    failed = parse_indexes(job.status.failed_indexes or "", completions)
    failed |= index_set(index for index, pod in uncounted if _fails_index(pod, job))
    active = {completion_index(pod) for pod in pods if is_pod_active(pod)}
    return IndexState(counted, succeeded, failed, _to_replace(job, tracked, succeeded | failed, active))


def failure_counts(pod: Pod) -> tuple[int, int]:
    """The failures of the pod's index before this pod: counted and ignored."""
    return _count(pod, FAILURE_COUNT), _count(pod, IGNORED_FAILURE_COUNT)


def next_failure_counts(job: Job, replaced: Pod | None) -> tuple[int, int]:
    """The failure counts of the pod that replaces this one."""
    if replaced is None:
        return 0, 0
    counted, ignored = failure_counts(replaced)
    counts = match_pod_failure_policy(job.spec.pod_failure_policy, replaced).counts
    return (counted + 1, ignored) if counts else (counted, ignored + 1)


def _to_replace(job: Job, tracked: Sequence[Pod], over: IndexSet, active: set[int | None]) -> dict[int, Pod]:
    found: dict[int, Pod] = {}
    for pod in tracked:
        index = completion_index(pod)
        if index is None or not has_place(pod, job) or not is_pod_failed(pod, job) or index in over or index in active:
            continue
        last = found.get(index)
        if last is None or _comes_after(pod, last):
            found[index] = pod
    return found


def _comes_after(pod: Pod, other: Pod) -> bool:
    return sum(failure_counts(pod)) >= sum(failure_counts(other)) and finished_at(pod) >= finished_at(other)


def _fails_index(pod: Pod, job: Job) -> bool:
    """Whether this failure is the last one its index may have."""
    if not is_pod_failed(pod, job):
        return False
    verdict = match_pod_failure_policy(job.spec.pod_failure_policy, pod)
    counted, _ = failure_counts(pod)
    return verdict.fails_index or (verdict.counts and counted >= (job.spec.backoff_limit_per_index or 0))


def _count(pod: Pod, annotation: str) -> int:
    """The count in an annotation; 0 if missing or malformed, since users may edit it."""
    count = parse_int64(pod.metadata.annotations.get(annotation, ""))
    return count if count is not None and 0 <= count <= _MAX_COUNT else 0


def count_job_pods(job: Job, pods: Sequence[Pod], released: frozenset[str] = frozenset()) -> JobPodCounts:
    """Counts the pods; `released` are UIDs whose finalizer is removed even if the informer still shows it."""
    uncounted = uncounted_of(job)
    noted_succeeded, noted_failed = frozenset(uncounted.succeeded), frozenset(uncounted.failed)
    tracked = tuple(pod for pod in pods if has_tracking_finalizer(pod) and pod.metadata.uid not in released)
    countable = [pod for pod in tracked if has_place(pod, job)]
    newly_succeeded = tuple(
        pod for pod in countable if pod.status.phase == "Succeeded" and pod.metadata.uid not in noted_succeeded
    )
    newly_failed = tuple(pod for pod in countable if is_pod_failed(pod, job) and pod.metadata.uid not in noted_failed)
    active = tuple(pod for pod in pods if is_pod_active(pod))
    policy, indexes = job.spec.pod_failure_policy, index_state(job, pods, tracked) if is_indexed(job) else None
    return JobPodCounts(
        pods=tuple(pods),
        tracked=tracked,
        active=active,
        ready=sum(ready_condition(pod) is not None for pod in active),
        terminating=sum(is_pod_terminating(pod) for pod in pods),
        newly_succeeded=newly_succeeded,
        newly_failed=newly_failed,
        succeeded=indexes.succeeded.total
        if indexes is not None
        else job.status.succeeded + len(newly_succeeded) + len(noted_succeeded),
        failed=job.status.failed
        + sum(match_pod_failure_policy(policy, pod).counts for pod in newly_failed)
        + len(noted_failed),
        indexes=indexes,
    )


def new_condition(type: str, status: str, reason: str, message: str, now: datetime) -> JobCondition:
    at = format_time(now)
    return JobCondition(
        type=type, status=status, reason=reason, message=message, last_probe_time=at, last_transition_time=at
    )


def find_condition(conditions: Iterable[JobCondition], type: str) -> JobCondition | None:
    return next((condition for condition in conditions if condition.type == type), None)


def true_condition(conditions: Iterable[JobCondition], type: str) -> JobCondition | None:
    found = find_condition(conditions, type)
    return found if found is not None and found.status == "True" else None


def with_condition(conditions: tuple[JobCondition, ...], wanted: JobCondition) -> tuple[JobCondition, ...]:
    """Sets a condition, but adds none with status False; returns the same tuple if nothing changes."""
    old = find_condition(conditions, wanted.type)
    if old is None:
        return conditions if wanted.status == "False" else (*conditions, wanted)
    if (old.status, old.reason, old.message) == (wanted.status, wanted.reason, wanted.message):
        return conditions
    return tuple(wanted if condition is old else condition for condition in conditions)


def finished_condition(job: Job) -> JobCondition | None:
    """The terminal condition, Complete or Failed, if the job has finished."""
    return next((c for c in job.status.conditions if c.type in (COMPLETE, FAILED) and c.status == "True"), None)


def is_finished(job: Job) -> bool:
    return finished_condition(job) is not None


def terminal_condition(ending: JobCondition, now: datetime) -> JobCondition:
    final = COMPLETE if ending.type == SUCCESS_CRITERIA_MET else FAILED
    return new_condition(final, "True", ending.reason, ending.message, now)


def finished_condition_of(job: Job, counts: JobPodCounts, now: datetime) -> JobCondition | None:
    """The condition that ends the job now: one decided before, a failure, or its success policy.

    Success by count is decided later, after pods have been created and deleted.
    """
    if met := true_condition(job.status.conditions, SUCCESS_CRITERIA_MET):
        return met
    if target := true_condition(job.status.conditions, FAILURE_TARGET):
        return new_condition(FAILED, "True", target.reason, target.message, now)
    if failure := _failure(job, counts, now) or _index_failure(job, counts):
        return new_condition(FAILURE_TARGET, "True", *failure, now)
    if counts.indexes is None:
        return None
    rule = match_success_policy(job.spec.success_policy, counts.indexes.succeeded, job.spec.completions or 0)
    if rule is None:
        return None
    return new_condition(SUCCESS_CRITERIA_MET, "True", "SuccessPolicy", f"Matched rules at index {rule}", now)


def _failure(job: Job, counts: JobPodCounts, now: datetime) -> tuple[str, str] | None:
    """Reason and message of what fails the whole job."""
    for pod in counts.pods if job.spec.pod_failure_policy is not None else ():
        message = (
            match_pod_failure_policy(job.spec.pod_failure_policy, pod).fails_job if is_pod_failed(pod, job) else None
        )
        if message is not None:
            return "PodFailurePolicy", message
    if counts.failed > _backoff_limit(job) or _restarted_too_often(job, counts.pods):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    left = deadline_seconds_left(job, now)
    if left is not None and left <= 0:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    return None


def _index_failure(job: Job, counts: JobPodCounts) -> tuple[str, str] | None:
    """Reason and message of what fails a job with backoffLimitPerIndex."""
    if counts.indexes is None or counts.indexes.failed is None:
        return None
    failed, limit = counts.indexes.failed.total, job.spec.max_failed_indexes
    if limit is not None and failed > limit:
        return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
    if failed > 0 and failed + counts.indexes.succeeded.total >= (job.spec.completions or 0):
        return "FailedIndexes", "Job has failed indexes"
    return None


def deadline_seconds_left(job: Job, now: datetime) -> float | None:
    """Seconds until activeDeadlineSeconds expires; None if there is no deadline or the job has not started."""
    seconds = job.spec.active_deadline_seconds
    if seconds is None or job.status.start_time is None or is_suspended(job):
        return None
    return (seconds_after(parse_time(job.status.start_time), seconds) - now).total_seconds()


def success_of(job: Job, succeeded: int, active: int, now: datetime) -> JobCondition | None:
    """The condition that ends the job because enough pods have succeeded and none is active."""
    # Without completions, one success is enough once the other pods have finished.
    wanted = 1 if job.spec.completions is None else job.spec.completions
    if succeeded < wanted or active > 0:
        return None
    message = "Reached expected number of succeeded pods"
    return new_condition(SUCCESS_CRITERIA_MET, "True", "CompletionsReached", message, now)


def _backoff_limit(job: Job) -> int:
    return _BACKOFF_LIMIT if job.spec.backoff_limit is None else job.spec.backoff_limit


def _restarted_too_often(job: Job, pods: Sequence[Pod]) -> bool:
    """Whether containers restarted in place more often than the backoff limit (restartPolicy OnFailure)."""
    if job.spec.template.spec.restart_policy != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return restarts >= max(1, _backoff_limit(job))
