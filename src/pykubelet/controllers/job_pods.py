"""Creates, deletes and releases the pods of a Job.

What was asked for is remembered until it has been seen. Upstream: pkg/controller/job/{job_controller,tracking_utils}.go.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.batch import Job
from pykubelet.api.generated.core import Pod
from pykubelet.controllers.expectations import CountingExpectations
from pykubelet.controllers.job_backoff import FailureRecord
from pykubelet.controllers.job_facts import TRACKING_FINALIZER, has_tracking_finalizer
from pykubelet.controllers.job_index_pods import index_prefix, pod_template, with_index
from pykubelet.controllers.object_index import key_of
from pykubelet.controllers.ownership import new_controller_ref
from pykubelet.controllers.pod_actions import PodActions, attempt_all
from pykubelet.controllers.pod_control import NAMESPACE_TERMINATING
from pykubelet.controllers.pod_order import ready_condition
from pykubelet.controllers.slow_start import slow_start_batch

REMOVE_FINALIZER = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}


@dataclass(frozen=True, slots=True)
class Removal:
    """How many pods were deleted, how many of those asked for had been ready, and one of the errors."""

    deleted: int
    ready: int
    error: Exception | None


class FinalizerRemovals:
    """Pods, by UID, whose finalizer was removed and that were not seen without it yet; by job key."""

    def __init__(self) -> None:
        self._by_key: dict[str, set[str]] = {}

    def awaited(self, key: str) -> frozenset[str]:
        """The pods of this job that may still look as if they had their finalizer."""
        return frozenset(self._by_key.get(key, ()))

    def expect(self, key: str, uids: Iterable[str]) -> None:
        """These finalizers are being removed."""
        self._by_key.setdefault(key, set()).update(uids)

    def observed(self, key: str, uid: str) -> None:
        """The pod was seen without its finalizer, or keeps it because the call failed."""
        self._by_key.get(key, set()).discard(uid)

    def forget(self, key: str) -> None:
        """The job is gone."""
        self._by_key.pop(key, None)


class JobPods:
    """What jobs do to their pods. `expectations` and `removals` are told by pod events what was seen."""

    def __init__(self, *, pod_control: PodActions, clock: Clock) -> None:
        self._pod_control, self._clock = pod_control, clock
        self.expectations = CountingExpectations()
        self.removals = FinalizerRemovals()
        self.failures: dict[str, FailureRecord] = {}
        """What makes a job wait before it replaces pods, by its key."""

    async def create(
        self, job: Job, indexes: Sequence[int | None], to_replace: Mapping[int, Pod]
    ) -> tuple[int, Exception | None]:
        """Create a pod for each index, or without one; how many came to be, and one of the errors."""
        key, namespace, reference, count = key_of(job), job.metadata.namespace, new_controller_ref(job), len(indexes)
        plain, left = pod_template(job), iter(indexes)
        self.expectations.expect_creations(key, count, now_seconds=self._clock.monotonic())

        async def create_one() -> None:
            template, prefix = plain, ""
            if (index := next(left)) is not None:
                template = with_index(plain, job, index, to_replace.get(index))
                prefix = index_prefix(job.metadata.name, index)
            try:
                await self._pod_control.create_pods(namespace, template, job, reference, generate_name=prefix)
            except ApiError as error:
                # Nothing can be made in a namespace that goes away, and nothing needs to be.
                if not error.has_cause(NAMESPACE_TERMINATING):
                    raise

        created, error = await slow_start_batch(count, create_one)
        self.expectations.lower(key, add=count - created)
        return created, error

    async def delete_uncounted(self, job: Job, pods: Sequence[Pod]) -> Removal:
        """Delete pods that are not to be counted: without their finalizer they vanish at once."""
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

    async def delete_counted(self, job: Job, pods: Sequence[Pod]) -> Removal:
        """Delete the pods of a job that ends; their finalizers keep them until they are counted."""
        control, namespace = self._pod_control, job.metadata.namespace
        outcomes = await attempt_all(control.delete_pod(namespace, pod.metadata.name, job) for pod in pods)
        return _removal(pods, outcomes)

    async def release(self, job: Job, pods: Sequence[Pod]) -> tuple[frozenset[str], Exception | None]:
        """Remove the finalizers; the UIDs of the pods that are without now, and one of the errors."""
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
                # No event will show the pod without finalizer.
                self.removals.observed(key, pod.metadata.uid)
            if error is None or isinstance(error, NotFound):
                released.add(pod.metadata.uid)
            else:
                first = first or error
        return frozenset(released), first

    def forget(self, key: str) -> None:
        """The job is gone."""
        self.failures.pop(key, None)
        self.expectations.forget(key)
        self.removals.forget(key)


def _removal(asked: Sequence[Pod], outcomes: Sequence[Exception | None]) -> Removal:
    """What is gone already counts as deleted; a pod whose deletion failed no longer counts as ready either."""
    errors = [error for error in outcomes if error is not None and not isinstance(error, NotFound)]
    ready = sum(ready_condition(pod) is not None for pod in asked)
    return Removal(len(outcomes) - len(errors), ready, errors[0] if errors else None)
