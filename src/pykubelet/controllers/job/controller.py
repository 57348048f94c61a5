"""The Job controller: runs pods until enough have succeeded or too many have failed.

`JobEventHandlers` turns informer events into keys; `JobController.sync` claims and counts the pods, decides whether the
job ends, creates or deletes pods, and tracks finished ones. Keys of pod changes are enqueued a second late, so that
many changes cost one sync.

Upstream: pkg/controller/job/job_controller.go
"""

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.batch import Job, JobCondition, JobStatus
from pykubelet.api.generated.core import Pod
from pykubelet.api.labels import selector_from_object
from pykubelet.api.scheme import JOBS, PODS
from pykubelet.api.times import format_time
from pykubelet.client.indexer import ObjectIndex, PodIndex, controller_of, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to
from pykubelet.controllers.framework.ownership import PodControllerRefManager, explicit, may_adopt, patch_status
from pykubelet.controllers.framework.pod_control import PodControlInterface
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.controllers.job.pods import JobPodControl, plan_pods
from pykubelet.controllers.job.policies import NO_FAILURES, FailureRecord, next_record
from pykubelet.controllers.job.status import (
    COMPLETE,
    SUSPENDED,
    TRACKING_FINALIZER,
    JobPodCounts,
    count_job_pods,
    deadline_seconds_left,
    finished_condition_of,
    has_tracking_finalizer,
    is_finished,
    is_ours,
    is_suspended,
    new_condition,
    success_of,
    terminal_condition,
    uncounted_of,
    with_condition,
)
from pykubelet.controllers.job.tracking import OrphanPodReleaser, count_released_pods, plan_tracking

POD_BATCH_SECONDS = 1.0
_RETRY = Backoff(first_seconds=1, limit_seconds=60)
_COMPLETION_MODES = (None, "NonIndexed", "Indexed")


class TrackingError(Exception):
    """Finished pods could not be counted completely; the next sync continues from the stored status."""


@dataclass(frozen=True, slots=True)
class _SyncStep:
    """The result of managing pods: the new status, the condition that ends the job, and one of the errors."""

    status: JobStatus
    ending: JobCondition | None
    error: Exception | None


class JobController(KeyedController):
    """Syncs jobs by key. `events` handles informer events, `sync` acts, `orphans` has a queue of its own."""

    def __init__(
        self,
        *,
        client: Client,
        pod_control: PodControlInterface,
        recorder: EventRecorder,
        pods: PodIndex,
        jobs: ObjectIndex[Job],
        clock: Clock,
    ) -> None:
        self._client, self._pod_control, self._recorder, self._clock = client, pod_control, recorder, clock
        self._pods, self._jobs = pods, jobs
        self._finished: dict[str, str] = {}
        self._job_pods = JobPodControl(pod_control=pod_control, clock=clock)
        self.orphans = OrphanPodReleaser(pod_control=pod_control, pods=pods, jobs=jobs)
        self.events = JobEventHandlers(jobs=jobs, job_pods=self._job_pods, orphans=self.orphans, clock=clock)
        self.queue = self.events.queue

    def listen(self, informers: Informers) -> None:
        self.events.listen(informers)

    async def sync(self, key: str) -> None:
        """Reconciles one job: creates or deletes pods, counts finished ones, and ends the job when it is over."""
        job = self._jobs.get(key)
        if job is None or is_finished(job):
            self._finished.pop(key, None)
            self._job_pods.failures.pop(key, None)
            if job is None:
                self._job_pods.forget(key)
            return
        if not is_ours(job) or self._finished.get(key) == job.metadata.uid:
            return
        if job.spec.completion_mode not in _COMPLETION_MODES:
            message = "Skipped Job sync because completion mode is unknown"
            self._recorder.event(reference_to(job), WARNING, "UnknownCompletionMode", message)
            return
        # Checked before the pods are listed: a pod that arrives in between is then listed, not created twice.
        may_act = self._job_pods.expectations.satisfied(key, now_seconds=self._clock.monotonic())
        pods = await self._claim(job)
        now = self._clock.now()
        counts = count_job_pods(job, pods, self._job_pods.removals.awaited(key))
        record = next_record(self._job_pods.failures.get(key, NO_FAILURES), counts.newly_succeeded, counts.newly_failed)
        started = job
        if not job.status.start_time and not is_suspended(job):
            started = replace(job, status=replace(job.status, start_time=format_time(now)))
        ending = finished_condition_of(started, counts, now)
        if ending is not None:
            step = await self._end(started, counts, ending, may_act=may_act)
        else:
            if (left := deadline_seconds_left(started, now)) is not None:
                self.queue.add_after(key, left)
            step = await self._run(started, counts, record, may_act=may_act)
        await self._track(job, counts, step, record)
        if step.error is not None:
            raise step.error
        self._job_pods.expectations.enqueue_on_expiry(key, self.queue, now_seconds=self._clock.monotonic())

    async def _claim(self, job: Job) -> tuple[Pod, ...]:
        manager = PodControllerRefManager(
            pod_control=self._pod_control,
            owner=job,
            selector=selector_from_object(job.spec.selector),
            can_adopt=may_adopt(self._client, JOBS, job),
            finalizers=(TRACKING_FINALIZER,),
        )
        claimed = await manager.claim_or_raise(self._pods.of_owner(job, with_orphans=True))
        return tuple(_as_adopted(pod, job) for pod in claimed)

    async def _end(self, job: Job, counts: JobPodCounts, ending: JobCondition, *, may_act: bool) -> _SyncStep:
        """Deletes the active pods. The job ends only when the last one is deleted and no created pod is unseen."""
        removal = await self._job_pods.delete_counted(job, counts.active)
        status = replace(
            job.status,
            active=len(counts.active) - removal.deleted,
            ready=counts.ready - removal.ready,
            terminating=counts.terminating + removal.deleted,
        )
        is_last = removal.deleted == len(counts.active) and may_act
        return _SyncStep(status, ending if is_last else None, removal.error)

    async def _run(self, job: Job, counts: JobPodCounts, record: FailureRecord, *, may_act: bool) -> _SyncStep:
        """Creates or deletes pods as the spec requires, and checks whether the job is complete."""
        error, now = None, self._clock.now()
        manages = may_act and job.metadata.deletion_timestamp is None
        status = replace(job.status, active=len(counts.active), ready=counts.ready, terminating=counts.terminating)
        if manages:
            status, error = await self._manage(job, status, counts, record)
        ending = success_of(job, counts.succeeded, status.active, now)
        if ending is None and manages:
            status = self._with_suspension(job, status, now)
        return _SyncStep(status, ending, error)

    async def _manage(
        self, job: Job, status: JobStatus, counts: JobPodCounts, record: FailureRecord
    ) -> tuple[JobStatus, Exception | None]:
        plan = plan_pods(job, counts, record, self._clock.now())
        if plan.delete:
            removal = await self._job_pods.delete_uncounted(job, plan.delete)
            status = replace(
                status,
                active=status.active - removal.deleted,
                ready=counts.ready - removal.ready,
                terminating=counts.terminating + removal.deleted,
            )
            return status, removal.error
        if plan.wait_seconds > 0:
            self.queue.add_after(key_of(job), max(plan.wait_seconds, POD_BATCH_SECONDS))
        if not plan.create:
            return status, None
        to_replace = counts.indexes.to_replace if counts.indexes is not None else {}
        created, error = await self._job_pods.create(job, plan.create, to_replace)
        return replace(status, active=status.active + created), error

    def _with_suspension(self, job: Job, status: JobStatus, now: datetime) -> JobStatus:
        """Updates the Suspended condition; a change of it is recorded as an event."""
        word = "Suspended" if is_suspended(job) else "Resumed"
        value = "True" if is_suspended(job) else "False"
        wanted = new_condition(SUSPENDED, value, f"Job{word}", f"Job {word.lower()}", now)
        conditions = with_condition(status.conditions, wanted)
        if conditions is status.conditions:
            return status
        self._recorder.event(reference_to(job), NORMAL, word, wanted.message)
        # The active deadline starts again with each resumption.
        start = status.start_time if is_suspended(job) else format_time(now)
        return replace(status, conditions=conditions, start_time=start)

    async def _track(self, job: Job, counts: JobPodCounts, step: _SyncStep, record: FailureRecord) -> None:
        """Counts finished pods: records them in the status, removes their finalizers, then updates the counters."""
        plan = plan_tracking(job, step.status, counts, step.ending)
        status = replace(job.status, uncounted_terminated_pods=uncounted_of(job))
        if plan.status != status:
            job = await self._write(job, plan.status, "adding uncounted pods to status")
            status = replace(job.status, uncounted_terminated_pods=uncounted_of(job))
            self._job_pods.failures[key_of(job)] = record
        released, error = await self._job_pods.release(job, plan.release)
        counted = count_released_pods(status, plan.holders - released)
        final = None if error is not None or plan.is_full else self._final(counted, step)
        if final is not None:
            counted = replace(
                counted,
                conditions=with_condition(counted.conditions, final),
                completion_time=_completion_time(counted, final),
            )
        if counted != status:
            job = await self._write(job, counted, "removing uncounted pods from status")
        if error is not None:
            raise TrackingError(f"tracking status: {error}") from error
        if final is not None:
            self._finished[key_of(job)] = job.metadata.uid
            self._record_end(job, final)

    def _final(self, status: JobStatus, step: _SyncStep) -> JobCondition | None:
        """The terminal condition if no pod remains to be waited for."""
        noted = status.uncounted_terminated_pods
        if step.ending is None or step.status.terminating or (noted and (noted.succeeded or noted.failed)):
            return None
        return terminal_condition(step.ending, self._clock.now())

    def _record_end(self, job: Job, final: JobCondition) -> None:
        reference = reference_to(job)
        if final.type != COMPLETE:
            self._recorder.event(reference, WARNING, final.reason, final.message)
            return
        if job.spec.completions is not None and job.status.succeeded > job.spec.completions:
            message = "Too many succeeded pods running after completion count reached"
            self._recorder.event(reference, WARNING, "TooManySucceededPods", message)
        self._recorder.event(reference, NORMAL, "Completed", "Job completed")

    async def _write(self, job: Job, status: JobStatus, purpose: str) -> Job:
        try:
            return await patch_status(self._client, JOBS, job, explicit(status))
        except ApiError as error:
            raise TrackingError(f"tracking status: {purpose}: {error}") from error


class JobEventHandlers:
    """The event handlers of the Job controller: they count what was seen and enqueue keys."""

    def __init__(
        self, *, jobs: ObjectIndex[Job], job_pods: JobPodControl, orphans: OrphanPodReleaser, clock: Clock
    ) -> None:
        self._jobs, self._job_pods, self._orphans, self._clock = jobs, job_pods, orphans, clock
        self.queue = WorkQueue(_RETRY)

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(JOBS, added=self.job_added, updated=self.job_updated, deleted=self.job_deleted)
        informers.add_event_handler(PODS, added=self.pod_added, updated=self.pod_updated, deleted=self.pod_deleted)

    def job_added(self, job: Job) -> None:
        self.queue.add(key_of(job))

    def job_updated(self, old: Job, new: Job) -> None:
        """Enqueues the job; a different UID means that another job has taken its name."""
        if old.metadata.uid != new.metadata.uid:
            self.job_deleted(old)
            self._job_pods.forget(key_of(old))
        if is_finished(new):
            self._orphans.enqueue_all(new)
            return
        urgent = old.metadata.generation != new.metadata.generation
        self.queue.add_after(key_of(new), 0 if urgent else POD_BATCH_SECONDS)
        if old.spec.active_deadline_seconds != new.spec.active_deadline_seconds:
            left = deadline_seconds_left(new, self._clock.now())
            if left is not None:
                self.queue.add_after(key_of(new), left)

    def job_deleted(self, job: Job) -> None:
        """Drops the failures of a deleted job and checks its pods for leftover finalizers."""
        self._job_pods.failures.pop(key_of(job), None)
        self.queue.add(key_of(job))
        self._orphans.enqueue_all(job)

    def pod_added(self, pod: Pod) -> None:
        """Counts the creation and enqueues the pod's job. A pod already being deleted is not the creation awaited."""
        if pod.metadata.deletion_timestamp is not None:
            self._pod_terminating(pod, is_gone=False)
        elif controller_of(pod) is None:
            self._orphans.enqueue(pod)
            self._enqueue_selecting(pod)
        elif job := self._jobs.resolve(pod.metadata.namespace, controller_of(pod)):
            self._job_pods.expectations.creation_observed(key_of(job))
            self._enqueue(job)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Enqueues the jobs concerned: the pod's, its former one, or for an orphan those that select it."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        if new.metadata.deletion_timestamp is not None:
            self._pod_terminating(new, is_gone=False)
            return
        manager_changed = controller_of(old) != controller_of(new)
        if manager_changed and (former := self._jobs.resolve(old.metadata.namespace, controller_of(old))):
            self._observe_finalizer(former, new)
            self._enqueue(former)
        if controller_of(new) is None:
            self._orphans.enqueue(new)
            if manager_changed or old.metadata.labels != new.metadata.labels:
                self._enqueue_selecting(new)
        elif job := self._jobs.resolve(new.metadata.namespace, controller_of(new)):
            self._observe_finalizer(job, new)
            self._enqueue(job)

    def pod_deleted(self, pod: Pod) -> None:
        self._pod_terminating(pod, is_gone=True)

    def _pod_terminating(self, pod: Pod, *, is_gone: bool) -> None:
        job = self._jobs.resolve(pod.metadata.namespace, controller_of(pod))
        if job is None or is_finished(job):
            self._orphans.enqueue(pod)
            return
        self._job_pods.expectations.deletion_observed(key_of(job))
        if is_gone:
            self._job_pods.removals.observed(key_of(job), pod.metadata.uid)
        self._observe_finalizer(job, pod)
        self._enqueue(job)

    def _observe_finalizer(self, job: Job, pod: Pod) -> None:
        if not has_tracking_finalizer(pod):
            self._job_pods.removals.observed(key_of(job), pod.metadata.uid)

    def _enqueue(self, job: Job) -> None:
        self.queue.add_after(key_of(job), POD_BATCH_SECONDS)

    def _enqueue_selecting(self, pod: Pod) -> None:
        for job in self._jobs.selecting(pod, lambda one: one.spec.selector):
            self._enqueue(job)


def _completion_time(status: JobStatus, final: JobCondition) -> str | None:
    """When a job completed: not before its start, which the API rejects, even if the clock was set back since."""
    if final.type != COMPLETE:
        return status.completion_time
    return max(final.last_transition_time or "", status.start_time or "")


def _as_adopted(pod: Pod, job: Job) -> Pod:
    """A pod adopted in this sync, with the finalizer that the adoption added."""
    is_ours = any(reference.uid == job.metadata.uid for reference in pod.metadata.owner_references)
    if is_ours or has_tracking_finalizer(pod):
        return pod
    finalizers = (*pod.metadata.finalizers, TRACKING_FINALIZER)
    return replace(pod, metadata=replace(pod.metadata, finalizers=finalizers))
