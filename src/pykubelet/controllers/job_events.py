"""What the Job controller makes of changes: expectations met, keys to sync.

In: changes of pods and jobs, told after the indexes have been brought up to date. Out: keys in `queue`; those of pod
changes a second late, so that many of them cost one sync; and pods that have lost their job, in `orphans`.
Upstream: pkg/controller/job/job_controller.go.
"""

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.api.generated.batch import Job
from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import LabelSelector
from pykubelet.api.typed import JOBS, PODS
from pykubelet.controllers.informers import Informers
from pykubelet.controllers.job_conditions import is_finished
from pykubelet.controllers.job_facts import has_tracking_finalizer
from pykubelet.controllers.job_orphans import JobOrphans
from pykubelet.controllers.job_outcome import deadline_seconds_left
from pykubelet.controllers.job_pods import JobPods
from pykubelet.controllers.object_index import ObjectIndex, key_of
from pykubelet.controllers.pod_order import controller_of
from pykubelet.controllers.work_queue import WorkQueue

POD_BATCH_SECONDS = 1.0
_RETRY = Backoff(first_seconds=1, limit_seconds=60)


class JobEvents:
    """The event handlers of the Job controller."""

    def __init__(self, *, jobs: ObjectIndex[Job], work: JobPods, orphans: JobOrphans, clock: Clock) -> None:
        self._jobs, self._work, self._orphans, self._clock = jobs, work, orphans, clock
        self.queue = WorkQueue(_RETRY)

    def listen(self, informers: Informers) -> None:
        """Have all changes told that matter to jobs."""
        informers.tell(JOBS, added=self.job_added, updated=self.job_updated, deleted=self.job_deleted)
        informers.tell(PODS, added=self.pod_added, updated=self.pod_updated, deleted=self.pod_deleted)

    def job_added(self, job: Job) -> None:
        """A job is new."""
        self.queue.add(key_of(job))

    def job_updated(self, old: Job, new: Job) -> None:
        """A job has changed, or another one has taken its name; only a change of what it wants is urgent."""
        if old.metadata.uid != new.metadata.uid:
            self.job_deleted(old)
            self._work.forget(key_of(old))
        if is_finished(new):
            self._orphans.note_all(new)
            return
        urgent = old.metadata.generation != new.metadata.generation
        self.queue.add_after(key_of(new), 0 if urgent else POD_BATCH_SECONDS)
        if old.spec.active_deadline_seconds != new.spec.active_deadline_seconds:
            left = deadline_seconds_left(new, self._clock.now())
            if left is not None:
                self.queue.add_after(key_of(new), left)

    def job_deleted(self, job: Job) -> None:
        """A job is gone; a new one of its name starts without its failures."""
        self._work.failures.pop(key_of(job), None)
        self.queue.add(key_of(job))
        self._orphans.note_all(job)

    def pod_added(self, pod: Pod) -> None:
        """A pod is new to us. One that is being deleted already was never the creation we wait for."""
        if pod.metadata.deletion_timestamp is not None:
            self._pod_leaves(pod, is_gone=False)
        elif controller_of(pod) is None:
            self._orphans.note(pod)
            self._wake_selecting(pod)
        elif job := self._jobs.resolve(pod.metadata.namespace, controller_of(pod)):
            self._work.expectations.creation_observed(key_of(job))
            self._wake(job)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """A pod has changed."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        if new.metadata.deletion_timestamp is not None:
            self._pod_leaves(new, is_gone=False)
            return
        manager_changed = controller_of(old) != controller_of(new)
        if manager_changed and (former := self._jobs.resolve(old.metadata.namespace, controller_of(old))):
            self._see_finalizer(former, new)
            self._wake(former)
        if controller_of(new) is None:
            self._orphans.note(new)
            if manager_changed or old.metadata.labels != new.metadata.labels:
                self._wake_selecting(new)
        elif job := self._jobs.resolve(new.metadata.namespace, controller_of(new)):
            self._see_finalizer(job, new)
            self._wake(job)

    def pod_deleted(self, pod: Pod) -> None:
        """A pod is gone."""
        self._pod_leaves(pod, is_gone=True)

    def _pod_leaves(self, pod: Pod, *, is_gone: bool) -> None:
        job = self._jobs.resolve(pod.metadata.namespace, controller_of(pod))
        if job is None or is_finished(job):
            self._orphans.note(pod)
            return
        self._work.expectations.deletion_observed(key_of(job))
        if is_gone:
            self._work.removals.observed(key_of(job), pod.metadata.uid)
        self._see_finalizer(job, pod)
        self._wake(job)

    def _see_finalizer(self, job: Job, pod: Pod) -> None:
        if not has_tracking_finalizer(pod):
            self._work.removals.observed(key_of(job), pod.metadata.uid)

    def _wake(self, job: Job) -> None:
        self.queue.add_after(key_of(job), POD_BATCH_SECONDS)

    def _wake_selecting(self, pod: Pod) -> None:
        """An orphan may be adopted by any job that selects it."""
        for job in self._jobs.selecting(pod, _selector_of):
            self._wake(job)


def _selector_of(job: Job) -> LabelSelector | None:
    return job.spec.selector
