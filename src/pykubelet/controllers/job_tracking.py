"""Counting finished pods exactly once, whatever crashes in between.

Pure; three steps, each safe to repeat. A finished pod is first noted in the status, then loses its finalizer, and only
a noted pod without finalizer moves into the counters. As long as the finalizer is there, the pod cannot vanish
uncounted. Upstream: trackJobStatusAndRemoveFinalizers in pkg/controller/job/job_controller.go.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from msgspec.structs import replace

from pykubelet.api.generated.batch import Job, JobCondition, JobStatus, UncountedTerminatedPods
from pykubelet.api.generated.core import Pod
from pykubelet.controllers.job_conditions import FAILURE_TARGET, SUCCESS_CRITERIA_MET, true_condition
from pykubelet.controllers.job_failure_policy import judge_failure
from pykubelet.controllers.job_outcome import Census, has_tracking_finalizer, is_pod_failed, uncounted_of

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


def plan_tracking(job: Job, status: JobStatus, census: Census, ending: JobCondition | None) -> TrackingPlan:
    """Note finished pods in `status`, and the interim condition if the job ends.

    `job` is as it was read; `status` is what this sync has made of its status so far.
    """
    noted = uncounted_of(job)
    tracked = [pod for pod in census.pods if has_tracking_finalizer(pod) and pod.metadata.uid not in census.released]
    holders = frozenset(pod.metadata.uid for pod in tracked)
    status = settle(status, holders)
    kept = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded, failed, release = list(kept.succeeded), list(kept.failed), list[Pod]()
    for pod in tracked:
        if not _may_release(job, pod, ending):
            continue
        release.append(pod)
        uid = pod.metadata.uid
        if pod.status.phase == "Succeeded" and uid not in noted.failed:
            if uid not in noted.succeeded:
                succeeded.append(uid)
        elif uid not in noted.failed and _counts_as_failed(job, pod, ending):
            failed.append(uid)
        if len(succeeded) + len(failed) >= MAX_UNCOUNTED_PODS:
            break
    uncounted = UncountedTerminatedPods(succeeded=tuple(succeeded), failed=tuple(failed))
    return TrackingPlan(
        status=_with_interim(replace(status, uncounted_terminated_pods=uncounted), ending),
        release=tuple(release),
        holders=holders,
        is_full=len(succeeded) + len(failed) >= MAX_UNCOUNTED_PODS,
    )


def settle(status: JobStatus, holders: AbstractSet[str]) -> JobStatus:
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


def _may_release(job: Job, pod: Pod, ending: JobCondition | None) -> bool:
    """Whether the pod has nothing left to say, or nobody is left to hear it."""
    ends = job.metadata.deletion_timestamp is not None or ending is not None
    return ends or pod.status.phase == "Succeeded" or is_pod_failed(pod, job)


def _counts_as_failed(job: Job, pod: Pod, ending: JobCondition | None) -> bool:
    """A job that ends badly takes its unfinished pods with it."""
    fails = ending is not None and ending.type != SUCCESS_CRITERIA_MET
    return (is_pod_failed(pod, job) or fails) and judge_failure(job.spec.pod_failure_policy, pod).counts


def _with_interim(status: JobStatus, ending: JobCondition | None) -> JobStatus:
    is_new = ending is not None and (
        ending.type == FAILURE_TARGET
        or (ending.type == SUCCESS_CRITERIA_MET and not true_condition(status.conditions, SUCCESS_CRITERIA_MET))
    )
    return replace(status, conditions=(*status.conditions, ending)) if ending is not None and is_new else status
