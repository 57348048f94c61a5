"""The pods of a Job: which to create and delete, their templates, and the requests to the API.

Requested creations, deletions and finalizer removals are remembered until they are seen. The pod of an index carries it
in a label, an annotation, the host name and an environment variable.

Upstream: pkg/controller/job/job_controller.go, pkg/controller/job/tracking_utils.go,
pkg/controller/job/indexed_job_utils.go
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.batch import Job
from pykubelet.api.generated.core import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodTemplateSpec
from pykubelet.client.indexer import key_of
from pykubelet.controllers.framework.active_pods import deletion_order, is_pod_terminating, ready_condition
from pykubelet.controllers.framework.expectations import CountingExpectations
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.controllers.framework.pod_control import (
    PodControlInterface,
    attempt_all,
    slow_start_batch,
    terminating_namespace_ignored,
)
from pykubelet.controllers.job.indexes import IndexSet, index_set
from pykubelet.controllers.job.policies import FailureRecord, finished_at, remaining_seconds
from pykubelet.controllers.job.status import (
    COMPLETION_INDEX,
    FAILURE_COUNT,
    IGNORED_FAILURE_COUNT,
    TRACKING_FINALIZER,
    IndexState,
    JobPodCounts,
    completion_index,
    failure_counts,
    has_place,
    has_tracking_finalizer,
    is_indexed,
    is_suspended,
    next_failure_counts,
    only_replaces_failed,
)

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
# The server appends five characters to generateName, and a name has at most 63.
_MAX_PREFIX = 58
# Keeps the sync of a large job from delaying others.
MAX_PODS_PER_SYNC = 500
_PARALLELISM = 1  # the API's default
REMOVE_FINALIZER = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}


@dataclass(frozen=True, slots=True)
class PodPlan:
    """What one sync does to the pods: delete, create or wait."""

    delete: tuple[Pod, ...] = ()
    create: tuple[int | None, ...] = ()
    """The index of each pod to create; None if the job is not indexed."""
    wait_seconds: float = 0.0
    """The backoff of failed pods that is left."""


@dataclass(frozen=True, slots=True)
class PodRemovalResult:
    """How many pods were deleted, how many of the requested ones had been ready, and one of the errors."""

    deleted: int
    ready: int
    error: Exception | None


class JobPodControl:
    """Creates, deletes and releases the pods of jobs. The event handlers update `expectations` and `removals`."""

    def __init__(self, *, pod_control: PodControlInterface, clock: Clock) -> None:
        self._pod_control, self._clock = pod_control, clock
        self.expectations = CountingExpectations()
        self.removals = FinalizerRemovals()
        self.failures: dict[str, FailureRecord] = {}
        """The failure backoff of each job key."""

    async def create(
        self, job: Job, indexes: Sequence[int | None], to_replace: Mapping[int, Pod]
    ) -> tuple[int, Exception | None]:
        """Creates a pod for each index, or without one; returns the number created and one of the errors."""
        key, namespace, reference, count = key_of(job), job.metadata.namespace, new_controller_ref(job), len(indexes)
        plain, left = pod_template(job), iter(indexes)
        self.expectations.expect_creations(key, count, now_seconds=self._clock.monotonic())

        async def create_one() -> None:
            template, prefix = plain, ""
            if (index := next(left)) is not None:
                template = with_index(plain, job, index, to_replace.get(index))
                prefix = index_prefix(job.metadata.name, index)
            with terminating_namespace_ignored():
                await self._pod_control.create_pods(namespace, template, job, reference, generate_name=prefix)

        created, error = await slow_start_batch(count, create_one)
        self.expectations.lower(key, add=count - created)
        return created, error

    async def delete_uncounted(self, job: Job, pods: Sequence[Pod]) -> PodRemovalResult:
        """Deletes pods that must not be counted, after removing their finalizers."""
        key = key_of(job)
        self.expectations.expect_deletions(key, len(pods), now_seconds=self._clock.monotonic())
        released: set[str] = set()

        async def delete(pod: Pod) -> None:
            meta = pod.metadata
            if has_tracking_finalizer(pod):
                await self._pod_control.patch_pod(meta.namespace, meta.name, REMOVE_FINALIZER)
            released.add(meta.uid)
            await self._pod_control.delete_pod(job.metadata.namespace, meta.name, job)

        outcomes = await attempt_all(delete(pod) for pod in pods)
        self.expectations.lower(key, delete=sum(error is not None for error in outcomes))
        return _removal([pod for pod in pods if pod.metadata.uid in released], outcomes)

    async def delete_counted(self, job: Job, pods: Sequence[Pod]) -> PodRemovalResult:
        """Deletes the pods of a job that ends; their finalizers keep them until they are counted."""
        control, namespace = self._pod_control, job.metadata.namespace
        outcomes = await attempt_all(control.delete_pod(namespace, pod.metadata.name, job) for pod in pods)
        return _removal(pods, outcomes)

    async def release(self, job: Job, pods: Sequence[Pod]) -> tuple[frozenset[str], Exception | None]:
        """Removes the finalizers; returns the UIDs of the released pods and one of the errors."""
        key, control = key_of(job), self._pod_control
        if not pods:
            return frozenset(), None
        self.removals.expect(key, (pod.metadata.uid for pod in pods))
        outcomes = await attempt_all(
            control.patch_pod(pod.metadata.namespace, pod.metadata.name, REMOVE_FINALIZER) for pod in pods
        )
        released, first = set[str](), None
        for pod, error in zip(pods, outcomes, strict=True):
            if error is not None:
                # No event will show the pod without its finalizer.
                self.removals.observed(key, pod.metadata.uid)
            if error is None or isinstance(error, NotFound):
                released.add(pod.metadata.uid)
            else:
                first = first or error
        return frozenset(released), first

    def forget(self, key: str) -> None:
        self.failures.pop(key, None)
        self.expectations.forget(key)
        self.removals.forget(key)


class FinalizerRemovals:
    """UIDs of pods whose finalizer was removed and that were not seen without it yet, by job key."""

    def __init__(self) -> None:
        self._by_key: dict[str, set[str]] = {}

    def awaited(self, key: str) -> frozenset[str]:
        """The pods of this job that the informer may still show with their finalizer."""
        return frozenset(self._by_key.get(key, ()))

    def expect(self, key: str, uids: Iterable[str]) -> None:
        """Records that these finalizers are being removed."""
        self._by_key.setdefault(key, set()).update(uids)

    def observed(self, key: str, uid: str) -> None:
        """The pod was seen without its finalizer, or keeps it because the request failed."""
        self._by_key.get(key, set()).discard(uid)

    def forget(self, key: str) -> None:
        self._by_key.pop(key, None)


def pod_template(job: Job) -> PodTemplateSpec:
    """The template of every pod of the job, with the tracking finalizer."""
    template = job.spec.template
    finalizers = dict.fromkeys((*template.metadata.finalizers, TRACKING_FINALIZER))
    return replace(template, metadata=replace(template.metadata, finalizers=tuple(finalizers)))


def with_index(template: PodTemplateSpec, job: Job, index: int, replaced: Pod | None) -> PodTemplateSpec:
    """The template of the pod of an index; `replaced` is the failed pod it replaces."""
    annotations = {**template.metadata.annotations, COMPLETION_INDEX: str(index)}
    if job.spec.backoff_limit_per_index is not None:
        counted, ignored = next_failure_counts(job, replaced)
        annotations[FAILURE_COUNT] = str(counted)
        if ignored:
            annotations[IGNORED_FAILURE_COUNT] = str(ignored)
    labels = {**template.metadata.labels, COMPLETION_INDEX: str(index)}
    spec = replace(
        template.spec,
        hostname=f"{job.metadata.name}-{index}",
        init_containers=tuple(map(_with_variable, template.spec.init_containers)),
        containers=tuple(map(_with_variable, template.spec.containers)),
    )
    return replace(template, metadata=replace(template.metadata, labels=labels, annotations=annotations), spec=spec)


def index_prefix(job_name: str, index: int) -> str:
    """The generateName prefix of an index; a long job name is cut, not the index."""
    end = f"-{index}-"
    return f"{job_name[: _MAX_PREFIX - len(end)]}{end}"


def _with_variable(container: Container) -> Container:
    """Adds JOB_COMPLETION_INDEX unless the user has set it."""
    if any(variable.name == INDEX_VARIABLE for variable in container.env):
        return container
    source = EnvVarSource(field_ref=ObjectFieldSelector(field_path=f"metadata.labels['{COMPLETION_INDEX}']"))
    return replace(container, env=(*container.env, EnvVar(name=INDEX_VARIABLE, value_from=source)))


def wanted_active(job: Job, active: int, succeeded: int) -> int:
    parallelism = _PARALLELISM if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return active if succeeded > 0 else parallelism
    return max(0, min(parallelism, job.spec.completions - succeeded))


def plan_pods(job: Job, counts: JobPodCounts, record: FailureRecord, now: datetime) -> PodPlan:
    """Decides which pods to delete or else to create."""
    active = len(counts.active)
    if is_suspended(job):
        return PodPlan(delete=_to_delete(job, counts, active))
    wanted = wanted_active(job, active, counts.succeeded)
    if surplus := _to_delete(job, counts, max(0, active - wanted)):
        return PodPlan(delete=surplus[:MAX_PODS_PER_SYNC])
    occupied = active + (counts.terminating if only_replaces_failed(job) else 0)
    count = min(wanted - occupied, MAX_PODS_PER_SYNC)
    if count <= 0:
        return PodPlan()
    indexes = counts.indexes
    if (indexes is None or indexes.failed is None) and (left := remaining_seconds(record, now)) > 0:
        return PodPlan(wait_seconds=left)
    if indexes is None:
        return PodPlan(create=(None,) * count)
    return _plan_indexes(_pending(job, counts, indexes, count), indexes.to_replace, now)


def _plan_indexes(pending: tuple[int, ...], to_replace: Mapping[int, Pod], now: datetime) -> PodPlan:
    """Each index has its own backoff; creates those that are due."""
    left = {index: _seconds_left(to_replace.get(index), now) for index in pending}
    due = tuple(index for index in pending if left[index] <= 0)
    return PodPlan(create=due, wait_seconds=0.0 if due else min(left.values(), default=0.0))


def _seconds_left(last_failed: Pod | None, now: datetime) -> float:
    if last_failed is None:
        return 0.0
    return remaining_seconds(FailureRecord(sum(failure_counts(last_failed)) + 1, finished_at(last_failed)), now)


def _pending(job: Job, counts: JobPodCounts, indexes: IndexState, count: int) -> tuple[int, ...]:
    """The first indexes that are neither finished nor have a pod."""
    keeps_place = only_replaces_failed(job)
    busy = [pod for pod in counts.pods if keeps_place and is_pod_terminating(pod)]
    taken = index_set(index for pod in (*counts.active, *busy) if (index := completion_index(pod)) is not None)
    over = indexes.succeeded | (indexes.failed or IndexSet())
    return (over | taken).missing(count, job.spec.completions or 0)


def _to_delete(job: Job, counts: JobPodCounts, at_least: int) -> tuple[Pod, ...]:
    """At least so many active pods in deletion order, and every pod that duplicates another's index."""
    ordered = deletion_order(counts.active)
    duplicates = list[Pod]()
    if is_indexed(job):
        best = {completion_index(pod): pod.metadata.uid for pod in ordered}
        duplicates = [
            pod for pod in ordered if not has_place(pod, job) or best[completion_index(pod)] != pod.metadata.uid
        ]
    gone = {pod.metadata.uid for pod in duplicates}
    rest = [pod for pod in ordered if pod.metadata.uid not in gone]
    return (*duplicates, *rest[: max(0, at_least - len(duplicates))])


def _removal(requested: Sequence[Pod], outcomes: Sequence[Exception | None]) -> PodRemovalResult:
    """Pods already gone count as deleted; a pod whose deletion failed no longer counts as ready either."""
    errors = [error for error in outcomes if error is not None and not isinstance(error, NotFound)]
    ready = sum(ready_condition(pod) is not None for pod in requested)
    return PodRemovalResult(len(outcomes) - len(errors), ready, errors[0] if errors else None)
