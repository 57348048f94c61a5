"""Counts finished pods exactly once, even after crashes, and releases pods without a job.

Three repeatable steps: a finished pod is recorded in the status, then loses its finalizer, and only a recorded pod
without finalizer moves into the counters. While the finalizer is there the pod cannot vanish uncounted. Pods whose job
is gone or finished only lose the finalizer.

Upstream: pkg/controller/job/job_controller.go, pkg/controller/job/tracking_utils.go
"""

from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from pykubelet.aio.backoff import Backoff
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.batch import Job, JobCondition, JobStatus, UncountedTerminatedPods
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_label
from pykubelet.client.indexer import ObjectIndex, PodIndex, controller_of
from pykubelet.controllers.framework.pod_control import PodControlInterface
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.controllers.job.pods import REMOVE_FINALIZER
from pykubelet.controllers.job.policies import match_pod_failure_policy
from pykubelet.controllers.job.status import (
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    JobPodCounts,
    completion_index,
    has_place,
    has_tracking_finalizer,
    is_finished,
    is_ours,
    is_pod_failed,
    true_condition,
    uncounted_of,
)

_RETRY = Backoff(first_seconds=1, limit_seconds=60)
# Keeps the recorded UIDs of a status below about 20 KB.
MAX_UNCOUNTED_PODS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingPlan:
    """The status to write before finalizers are removed, and the pods to release then."""

    status: JobStatus
    release: tuple[Pod, ...]
    holders: frozenset[str]
    """UIDs of the pods that have the finalizer."""
    is_full: bool
    """The status has no room for more pods, so the job cannot finish in this sync."""


class OrphanPodReleaser(KeyedController):
    """Removes the finalizer of pods that no job will count, by `namespace/name`."""

    def __init__(self, *, pod_control: PodControlInterface, pods: PodIndex, jobs: ObjectIndex[Job]) -> None:
        self._pod_control, self._pods, self._jobs = pod_control, pods, jobs
        self.queue = WorkQueue(_RETRY)

    def enqueue(self, pod: Pod) -> None:
        if has_tracking_finalizer(pod):
            self.queue.add(pod_label(pod))

    def enqueue_all(self, job: Job) -> None:
        """Enqueues the remaining pods of a job that is over."""
        for pod in self._pods.of_owner(job):
            self.enqueue(pod)

    async def sync(self, label: str) -> None:
        """Removes the finalizer if no job counts the pod. Raises what went wrong."""
        pod = self._pods.get(label)
        if pod is None or not has_tracking_finalizer(pod) or not self._has_no_job(pod):
            return
        with suppress(NotFound):
            await self._pod_control.patch_pod(pod.metadata.namespace, pod.metadata.name, REMOVE_FINALIZER)

    def _has_no_job(self, pod: Pod) -> bool:
        reference = controller_of(pod)
        if reference is None:
            return True
        if (reference.api_version, reference.kind) != ("batch/v1", "Job"):
            return False
        job = self._jobs.resolve(pod.metadata.namespace, reference)
        return job is None or (is_ours(job) and is_finished(job))


def plan_tracking(job: Job, status: JobStatus, counts: JobPodCounts, ending: JobCondition | None) -> TrackingPlan:
    """Records finished pods in `status`, and the interim condition if the job ends.

    `job` is as it was read; `status` is what this sync has made of its status so far.
    """
    recorded = uncounted_of(job)
    recorded_succeeded, recorded_failed = frozenset(recorded.succeeded), frozenset(recorded.failed)
    holders = frozenset(pod.metadata.uid for pod in counts.tracked)
    status = _with_indexes(count_released_pods(status, holders), counts)
    kept = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded, failed, release, indexes = list(kept.succeeded), list(kept.failed), list[Pod](), 0
    for pod in _in_order(counts):
        if not _may_release(job, pod, counts, ending):
            continue
        release.append(pod)
        uid = pod.metadata.uid
        if pod.status.phase == "Succeeded" and uid not in recorded_failed:
            if counts.indexes is not None:
                indexes += completion_index(pod) not in counts.indexes.counted
            elif uid not in recorded_succeeded:
                succeeded.append(uid)
        elif uid not in recorded_failed and _counts_as_failed(job, pod, ending):
            failed.append(uid)
        if len(succeeded) + len(failed) + indexes >= MAX_UNCOUNTED_PODS:
            break
    uncounted = UncountedTerminatedPods(succeeded=tuple(succeeded), failed=tuple(failed))
    return TrackingPlan(
        status=_with_interim(replace(status, uncounted_terminated_pods=uncounted), ending),
        release=tuple(release),
        holders=holders,
        is_full=len(succeeded) + len(failed) + indexes >= MAX_UNCOUNTED_PODS,
    )


def count_released_pods(status: JobStatus, holders: AbstractSet[str]) -> JobStatus:
    """Moves recorded pods that no longer have the finalizer into the counters."""
    recorded = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded = tuple(uid for uid in recorded.succeeded if uid in holders)
    failed = tuple(uid for uid in recorded.failed if uid in holders)
    return replace(
        status,
        succeeded=status.succeeded + len(recorded.succeeded) - len(succeeded),
        failed=status.failed + len(recorded.failed) - len(failed),
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=succeeded, failed=failed),
    )


def _with_indexes(status: JobStatus, counts: JobPodCounts) -> JobStatus:
    """Updates the index counters. The indexes prevent double counting, so no UID is recorded."""
    indexes = counts.indexes
    if indexes is None:
        return status
    return replace(
        status,
        succeeded=indexes.succeeded.total,
        completed_indexes=str(indexes.succeeded),
        failed_indexes=None if indexes.failed is None else str(indexes.failed),
    )


def _in_order(counts: JobPodCounts) -> list[Pod]:
    """The tracked pods, sorted by index in an indexed job."""
    if counts.indexes is None:
        return list(counts.tracked)
    return sorted(counts.tracked, key=lambda pod: -1 if (index := completion_index(pod)) is None else index)


def _may_release(job: Job, pod: Pod, counts: JobPodCounts, ending: JobCondition | None) -> bool:
    """Whether the pod is finished and not awaiting a replacement, or the job is over."""
    if job.metadata.deletion_timestamp is not None or ending is not None or pod.status.phase == "Succeeded":
        return True
    if not is_pod_failed(pod, job):
        return False
    index = completion_index(pod)
    awaited = counts.indexes.to_replace.get(index) if counts.indexes is not None and index is not None else None
    return awaited is None or awaited.metadata.uid != pod.metadata.uid


def _counts_as_failed(job: Job, pod: Pod, ending: JobCondition | None) -> bool:
    """Whether the pod counts as failed; when a job fails, its unfinished pods do."""
    if not has_place(pod, job):
        return False
    fails = ending is not None and ending.type != SUCCESS_CRITERIA_MET
    return (is_pod_failed(pod, job) or fails) and match_pod_failure_policy(job.spec.pod_failure_policy, pod).counts


def _with_interim(status: JobStatus, ending: JobCondition | None) -> JobStatus:
    is_new = ending is not None and (
        ending.type == FAILURE_TARGET
        or (ending.type == SUCCESS_CRITERIA_MET and not true_condition(status.conditions, SUCCESS_CRITERIA_MET))
    )
    return replace(status, conditions=(*status.conditions, ending)) if ending is not None and is_new else status
