"""What a Job's pods amount to, compared with what its status has counted.

Pure. In: the job and its pods. Out: a census. Upstream: syncJobCtx in pkg/controller/job/job_controller.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pykubelet.api.generated.batch import Job
from pykubelet.api.generated.core import Pod
from pykubelet.controllers.job_facts import has_place, has_tracking_finalizer, is_indexed, is_pod_failed, uncounted_of
from pykubelet.controllers.job_failure_policy import judge_failure
from pykubelet.controllers.job_index_state import IndexState, index_state
from pykubelet.controllers.pod_order import is_active, is_terminating, ready_condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """The pods of a job at one moment, compared with what its status has counted."""

    pods: tuple[Pod, ...]
    tracked: tuple[Pod, ...]
    """Those that are yet to be counted: they have the finalizer, and nobody has asked to remove it."""
    active: tuple[Pod, ...]
    ready: int
    terminating: int
    newly_succeeded: tuple[Pod, ...]
    newly_failed: tuple[Pod, ...]
    succeeded: int
    failed: int
    indexes: IndexState | None
    """None if the job is not indexed."""


def take_census(job: Job, pods: Sequence[Pod], released: frozenset[str] = frozenset()) -> Census:
    """Count the pods of a job; `released` are UIDs whose finalizer is removed though the pods may still show it."""
    uncounted = uncounted_of(job)
    noted_succeeded, noted_failed = frozenset(uncounted.succeeded), frozenset(uncounted.failed)
    tracked = tuple(pod for pod in pods if has_tracking_finalizer(pod) and pod.metadata.uid not in released)
    countable = [pod for pod in tracked if has_place(pod, job)]
    newly_succeeded = tuple(
        pod for pod in countable if pod.status.phase == "Succeeded" and pod.metadata.uid not in noted_succeeded
    )
    newly_failed = tuple(pod for pod in countable if is_pod_failed(pod, job) and pod.metadata.uid not in noted_failed)
    active = tuple(pod for pod in pods if is_active(pod))
    policy, indexes = job.spec.pod_failure_policy, index_state(job, pods, tracked) if is_indexed(job) else None
    return Census(
        pods=tuple(pods),
        tracked=tracked,
        active=active,
        ready=sum(ready_condition(pod) is not None for pod in active),
        terminating=sum(is_terminating(pod) for pod in pods),
        newly_succeeded=newly_succeeded,
        newly_failed=newly_failed,
        succeeded=indexes.succeeded.total
        if indexes is not None
        else job.status.succeeded + len(newly_succeeded) + len(noted_succeeded),
        failed=job.status.failed + sum(judge_failure(policy, pod).counts for pod in newly_failed) + len(noted_failed),
        indexes=indexes,
    )
