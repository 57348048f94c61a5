"""How far each index of an indexed Job has come: done, given up, or to be tried again.

Pure. A failed pod that is to be replaced keeps its finalizer until the new pod is there, for the new one takes over
how often the index has failed. Upstream: pkg/controller/job/indexed_job_utils.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pykubelet.api.generated.batch import Job
from pykubelet.api.generated.core import Pod
from pykubelet.api.int64 import parse_int64
from pykubelet.controllers.job_backoff import finished_at
from pykubelet.controllers.job_facts import completion_index, has_place, has_tracking_finalizer, is_pod_failed
from pykubelet.controllers.job_failure_policy import judge_failure
from pykubelet.controllers.job_indexes import IndexSet, index_set, parse_indexes
from pykubelet.controllers.pod_order import is_active

FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
_MAX_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class IndexState:
    """The indexes of a job at one moment."""

    counted: IndexSet
    """Succeeded by the job's status."""
    succeeded: IndexSet
    """Succeeded by its pods, too."""
    failed: IndexSet | None = None
    """Given up; None if indexes have no limit of their own."""
    to_replace: Mapping[int, Pod] = field(default_factory=dict)
    """The last failed pod of each index that is to have another; only where indexes have a limit of their own."""


def index_state(job: Job, pods: Sequence[Pod], tracked: Sequence[Pod]) -> IndexState:
    """What the status and the pods say together; `tracked` are those of the pods that are yet to be counted."""
    completions = job.spec.completions or 0
    placed = [(index, pod) for pod in pods if has_place(pod, job) and (index := completion_index(pod)) is not None]
    uncounted = [(index, pod) for index, pod in placed if has_tracking_finalizer(pod)]
    counted = parse_indexes(job.status.completed_indexes, completions)
    succeeded = counted | index_set(index for index, pod in uncounted if pod.status.phase == "Succeeded")
    if job.spec.backoff_limit_per_index is None:
        return IndexState(counted, succeeded)
    failed = parse_indexes(job.status.failed_indexes or "", completions)
    failed |= index_set(index for index, pod in uncounted if _fails_index(pod, job))
    active = {completion_index(pod) for pod in pods if is_active(pod)}
    return IndexState(counted, succeeded, failed, _to_replace(job, tracked, succeeded | failed, active))


def failure_counts(pod: Pod) -> tuple[int, int]:
    """How often the pod's index failed before this pod: counted and ignored failures."""
    return _count(pod, FAILURE_COUNT), _count(pod, IGNORED_FAILURE_COUNT)


def next_failure_counts(job: Job, replaced: Pod | None) -> tuple[int, int]:
    """The same for the pod that takes the place of this one."""
    if replaced is None:
        return 0, 0
    counted, ignored = failure_counts(replaced)
    counts = judge_failure(job.spec.pod_failure_policy, replaced).counts
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
    """Whether this failure is the last one of its index."""
    if not is_pod_failed(pod, job):
        return False
    verdict = judge_failure(job.spec.pod_failure_policy, pod)
    counted, _ = failure_counts(pod)
    return verdict.fails_index or (verdict.counts and counted >= (job.spec.backoff_limit_per_index or 0))


def _count(pod: Pod, annotation: str) -> int:
    """Users can write annotations; what is no count is none."""
    count = parse_int64(pod.metadata.annotations.get(annotation, ""))
    return count if count is not None and 0 <= count <= _MAX_COUNT else 0
