"""Which pods a Job creates or deletes now.

Pure. Upstream: manageJob in pkg/controller/job/job_controller.go, firstPendingIndexes and
appendDuplicatedIndexPodsForRemoval in indexed_job_utils.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pykubelet.api.generated.batch import Job
from pykubelet.api.generated.core import Pod
from pykubelet.controllers.job_backoff import FailureRecord, finished_at, remaining_seconds
from pykubelet.controllers.job_census import Census
from pykubelet.controllers.job_facts import completion_index, has_place, is_indexed, is_suspended, only_replaces_failed
from pykubelet.controllers.job_index_state import IndexState, failure_counts
from pykubelet.controllers.job_indexes import IndexSet, index_set
from pykubelet.controllers.pod_order import deletion_order, is_terminating

# Keeps one sync of a big job from holding up the others.
MAX_PODS_PER_SYNC = 500
# The API's default.
_PARALLELISM = 1


@dataclass(frozen=True, slots=True)
class PodPlan:
    """What to do about a job's pods in this sync; never two of them."""

    delete: tuple[Pod, ...] = ()
    create: tuple[int | None, ...] = ()
    """The index of each pod to create; None if the job is not indexed."""
    wait_seconds: float = 0.0
    """Too early to replace failed pods: look again after so long."""


def wanted_active(job: Job, active: int, succeeded: int) -> int:
    """How many pods are to run at once now."""
    parallelism = _PARALLELISM if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return active if succeeded > 0 else parallelism
    return max(0, min(parallelism, job.spec.completions - succeeded))


def plan_pods(job: Job, census: Census, record: FailureRecord, now: datetime) -> PodPlan:
    """Which pods to delete, or else which to create."""
    active = len(census.active)
    if is_suspended(job):
        return PodPlan(delete=_to_delete(job, census, active))
    wanted = wanted_active(job, active, census.succeeded)
    if surplus := _to_delete(job, census, max(0, active - wanted)):
        return PodPlan(delete=surplus[:MAX_PODS_PER_SYNC])
    occupied = active + (census.terminating if only_replaces_failed(job) else 0)
    count = min(wanted - occupied, MAX_PODS_PER_SYNC)
    if count <= 0:
        return PodPlan()
    indexes = census.indexes
    if (indexes is None or indexes.failed is None) and (left := remaining_seconds(record, now)) > 0:
        return PodPlan(wait_seconds=left)
    if indexes is None:
        return PodPlan(create=(None,) * count)
    return _plan_indexes(_pending(job, census, indexes, count), indexes.to_replace, now)


def _plan_indexes(pending: tuple[int, ...], to_replace: Mapping[int, Pod], now: datetime) -> PodPlan:
    """Each index waits by itself; those that need not are tried now."""
    left = {index: _seconds_left(to_replace.get(index), now) for index in pending}
    due = tuple(index for index in pending if left[index] <= 0)
    return PodPlan(create=due, wait_seconds=0.0 if due else min(left.values(), default=0.0))


def _seconds_left(last_failed: Pod | None, now: datetime) -> float:
    if last_failed is None:
        return 0.0
    return remaining_seconds(FailureRecord(sum(failure_counts(last_failed)) + 1, finished_at(last_failed)), now)


def _pending(job: Job, census: Census, indexes: IndexState, count: int) -> tuple[int, ...]:
    """The first indexes that are neither over nor worked on."""
    keeps_place = only_replaces_failed(job)
    busy = [pod for pod in census.pods if keeps_place and is_terminating(pod)]
    taken = index_set(index for pod in (*census.active, *busy) if (index := completion_index(pod)) is not None)
    over = indexes.succeeded | (indexes.failed or IndexSet())
    return (over | taken).missing(count, job.spec.completions or 0)


def _to_delete(job: Job, census: Census, at_least: int) -> tuple[Pod, ...]:
    """So many active pods, those that matter least first; and every one that does the work of another."""
    ordered = deletion_order(census.active)
    needless = list[Pod]()
    if is_indexed(job):
        best = {completion_index(pod): pod.metadata.uid for pod in ordered}
        needless = [
            pod for pod in ordered if not has_place(pod, job) or best[completion_index(pod)] != pod.metadata.uid
        ]
    gone = {pod.metadata.uid for pod in needless}
    rest = [pod for pod in ordered if pod.metadata.uid not in gone]
    return (*needless, *rest[: max(0, at_least - len(needless))])
