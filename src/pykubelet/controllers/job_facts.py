"""What a Job and its pods say about themselves.

Pure. Upstream: pkg/controller/job/{job_controller,indexed_job_utils}.go.
"""

from pykubelet.api.generated.batch import Job, UncountedTerminatedPods
from pykubelet.api.generated.core import Pod
from pykubelet.api.int64 import parse_int64

CONTROLLER_NAME = "kubernetes.io/job-controller"
TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Annotation and label of the pods of an indexed job."""


def has_tracking_finalizer(pod: Pod) -> bool:
    """Whether the pod is yet to be counted."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


def is_ours(job: Job) -> bool:
    """Whether the job is for this controller and not for another one."""
    return job.spec.managed_by in (None, CONTROLLER_NAME)


def is_suspended(job: Job) -> bool:
    """Whether the job is to have no pods for now."""
    return bool(job.spec.suspend)


def is_indexed(job: Job) -> bool:
    """Whether each completion has a number of its own."""
    return job.spec.completion_mode == "Indexed"


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


def completion_index(pod: Pod) -> int | None:
    """The index of the pod; None if it has none that makes sense."""
    index = parse_int64(pod.metadata.annotations.get(COMPLETION_INDEX, ""))
    return index if index is not None and index >= 0 else None


def has_place(pod: Pod, job: Job) -> bool:
    """Whether the job can count the pod: one of an indexed job needs an index below the number of completions."""
    if not is_indexed(job):
        return True
    index = completion_index(pod)
    return index is not None and index < (job.spec.completions or 0)
