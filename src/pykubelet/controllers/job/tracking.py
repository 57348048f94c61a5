"""Counting finished pods exactly once, whatever crashes in between.

Pure; three steps, each safe to repeat. A finished pod is first noted in the status, then loses its finalizer, and only
a noted pod without finalizer moves into the counters. As long as the finalizer is there, the pod cannot vanish
uncounted. Upstream: trackJobStatusAndRemoveFinalizers in pkg/controller/job/job_controller.go.

Frees pods whose Job will not count them any more: it is gone, it has finished, or it lost them.

In: pods that still have the finalizer, from `JobEvents`. Out: the finalizer taken off, so that they can be deleted.
Upstream: syncOrphanPod in pkg/controller/job/job_controller.go.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from msgspec.structs import replace

from pykubelet.aio.backoff import Backoff
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.batch import Job, JobCondition, JobStatus, UncountedTerminatedPods
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_label
from pykubelet.client.indexer import ObjectIndex, PodIndex, controller_of
from pykubelet.controllers.framework.pod_control import PodControlInterface
from pykubelet.controllers.framework.work_queue import WorkQueue
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


class OrphanPodReleaser:
    """The pods to free, by `namespace/name`."""

    def __init__(self, *, pod_control: PodControlInterface, pods: PodIndex, jobs: ObjectIndex[Job]) -> None:
        self._pod_control, self._pods, self._jobs = pod_control, pods, jobs
        self.queue = WorkQueue(_RETRY)

    def note(self, pod: Pod) -> None:
        """A pod may have lost its job."""
        if has_tracking_finalizer(pod):
            self.queue.add(pod_label(pod))

    def note_all(self, job: Job) -> None:
        """A job is over; it has left no pod to be counted, unless something went wrong."""
        for pod in self._pods.of_owner(job):
            self.note(pod)

    async def process_next(self) -> None:
        """Look at the next pod; a failure puts it back, later."""
        await self.queue.process_next(self.sync)

    async def sync(self, label: str) -> None:
        """Take the finalizer off, if nobody counts the pod. Raises what went wrong."""
        pod = self._pods.get(label)
        if pod is None or not has_tracking_finalizer(pod) or not self._is_lost(pod):
            return
        try:
            await self._pod_control.patch_pod(pod.metadata.namespace, pod.metadata.name, REMOVE_FINALIZER)
        except NotFound:
            return

    def _is_lost(self, pod: Pod) -> bool:
        reference = controller_of(pod)
        if reference is None:
            return True
        if (reference.api_version, reference.kind) != ("batch/v1", "Job"):
            return False
        job = self._jobs.resolve(pod.metadata.namespace, reference)
        return job is None or (is_ours(job) and is_finished(job))


# Keeps the noted UIDs in a status below 20 KB or so.
MAX_UNCOUNTED_PODS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingPlan:
    """The status to write before any finalizer goes, and the pods whose finalizer goes then."""

    status: JobStatus
    release: tuple[Pod, ...]
    holders: frozenset[str]
    """UIDs of the pods that have the finalizer."""
    is_full: bool
    """No more pods fit into the status: the job is not finished, whatever it looks like."""


def plan_tracking(job: Job, status: JobStatus, census: JobPodCounts, ending: JobCondition | None) -> TrackingPlan:
    """Note finished pods in `status`, and the interim condition if the job ends.

    `job` is as it was read; `status` is what this sync has made of its status so far.
    """
    noted = uncounted_of(job)
    noted_succeeded, noted_failed = frozenset(noted.succeeded), frozenset(noted.failed)
    holders = frozenset(pod.metadata.uid for pod in census.tracked)
    status = _with_indexes(count_released_pods(status, holders), census)
    kept = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded, failed, release, indexes = list(kept.succeeded), list(kept.failed), list[Pod](), 0
    for pod in _in_order(census):
        if not _may_release(job, pod, census, ending):
            continue
        release.append(pod)
        uid = pod.metadata.uid
        if pod.status.phase == "Succeeded" and uid not in noted_failed:
            if census.indexes is not None:
                indexes += completion_index(pod) not in census.indexes.counted
            elif uid not in noted_succeeded:
                succeeded.append(uid)
        elif uid not in noted_failed and _counts_as_failed(job, pod, ending):
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
    """Move noted pods that no longer have the finalizer into the counters."""
    noted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded = tuple(uid for uid in noted.succeeded if uid in holders)
    failed = tuple(uid for uid in noted.failed if uid in holders)
    return replace(
        status,
        succeeded=status.succeeded + len(noted.succeeded) - len(succeeded),
        failed=status.failed + len(noted.failed) - len(failed),
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=succeeded, failed=failed),
    )


def _with_indexes(status: JobStatus, census: JobPodCounts) -> JobStatus:
    """The indexes themselves keep a success from being counted twice; no UID needs to be noted."""
    indexes = census.indexes
    if indexes is None:
        return status
    return replace(
        status,
        succeeded=indexes.succeeded.total,
        completed_indexes=str(indexes.succeeded),
        failed_indexes=None if indexes.failed is None else str(indexes.failed),
    )


def _in_order(census: JobPodCounts) -> list[Pod]:
    """The pods to look at; those of an indexed job by their index."""
    if census.indexes is None:
        return list(census.tracked)
    return sorted(census.tracked, key=lambda pod: -1 if (index := completion_index(pod)) is None else index)


def _may_release(job: Job, pod: Pod, census: JobPodCounts, ending: JobCondition | None) -> bool:
    """Whether the pod has nothing left to say, or nobody is left to hear it."""
    if job.metadata.deletion_timestamp is not None or ending is not None or pod.status.phase == "Succeeded":
        return True
    if not is_pod_failed(pod, job):
        return False
    index = completion_index(pod)
    awaited = census.indexes.to_replace.get(index) if census.indexes is not None and index is not None else None
    return awaited is None or awaited.metadata.uid != pod.metadata.uid


def _counts_as_failed(job: Job, pod: Pod, ending: JobCondition | None) -> bool:
    """A job that ends badly takes its unfinished pods with it."""
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
