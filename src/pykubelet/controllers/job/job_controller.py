"""The Job controller: runs pods until enough have succeeded or too many failed.

In: keys of jobs to look at, from `JobEvents`. Out: pods created and deleted through PodControl, the status of the
job, events about it. Upstream: pkg/controller/job/job_controller.go.

What the Job controller makes of changes: expectations met, keys to sync.

In: changes of pods and jobs, told after the indexes have been brought up to date. Out: keys in `queue`; those of pod
changes a second late, so that many of them cost one sync; and pods that have lost their job, in `orphans`.
Upstream: pkg/controller/job/job_controller.go.
"""

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.batch import Job, JobCondition, JobStatus
from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import LabelSelector
from pykubelet.api.labels import selector_from_object
from pykubelet.api.scheme import JOBS, PODS
from pykubelet.api.times import format_time
from pykubelet.client.indexer import ObjectIndex, PodIndex, controller_of, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to
from pykubelet.controllers.framework.ownership import (
    PodControllerRefManager,
    explicit,
    may_adopt,
    patch_status,
)
from pykubelet.controllers.framework.pod_control import PodControlInterface
from pykubelet.controllers.framework.work_queue import WorkQueue
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


class JobEventHandlers:
    """The event handlers of the Job controller."""

    def __init__(
        self, *, jobs: ObjectIndex[Job], work: JobPodControl, orphans: OrphanPodReleaser, clock: Clock
    ) -> None:
        self._jobs, self._work, self._orphans, self._clock = jobs, work, orphans, clock
        self.queue = WorkQueue(_RETRY)

    def listen(self, informers: Informers) -> None:
        """Have all changes told that matter to jobs."""
        informers.add_event_handler(JOBS, added=self.job_added, updated=self.job_updated, deleted=self.job_deleted)
        informers.add_event_handler(PODS, added=self.pod_added, updated=self.pod_updated, deleted=self.pod_deleted)

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
            self._enqueue_selecting(pod)
        elif job := self._jobs.resolve(pod.metadata.namespace, controller_of(pod)):
            self._work.expectations.creation_observed(key_of(job))
            self._enqueue(job)

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
            self._enqueue(former)
        if controller_of(new) is None:
            self._orphans.note(new)
            if manager_changed or old.metadata.labels != new.metadata.labels:
                self._enqueue_selecting(new)
        elif job := self._jobs.resolve(new.metadata.namespace, controller_of(new)):
            self._see_finalizer(job, new)
            self._enqueue(job)

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
        self._enqueue(job)

    def _see_finalizer(self, job: Job, pod: Pod) -> None:
        if not has_tracking_finalizer(pod):
            self._work.removals.observed(key_of(job), pod.metadata.uid)

    def _enqueue(self, job: Job) -> None:
        self.queue.add_after(key_of(job), POD_BATCH_SECONDS)

    def _enqueue_selecting(self, pod: Pod) -> None:
        """An orphan may be adopted by any job that selects it."""
        for job in self._jobs.selecting(pod, _selector_of):
            self._enqueue(job)


def _selector_of(job: Job) -> LabelSelector | None:
    return job.spec.selector


_COMPLETION_MODES = (None, "NonIndexed", "Indexed")


class TrackingError(Exception):
    """The job's pods could not be counted to the end; the next sync goes on from what is written."""


@dataclass(frozen=True, slots=True)
class _SyncStep:
    """What a sync has done to the pods: the status it leads to, how the job ends, one of the errors."""

    status: JobStatus
    ending: JobCondition | None
    error: Exception | None


class JobController:
    """Syncs jobs by key. `events` is told what changed; `sync` acts; `orphans` has its own keys and `process_next`."""

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
        self._work = JobPodControl(pod_control=pod_control, clock=clock)
        self.orphans = OrphanPodReleaser(pod_control=pod_control, pods=pods, jobs=jobs)
        self.events = JobEventHandlers(jobs=jobs, work=self._work, orphans=self.orphans, clock=clock)
        self.queue = self.events.queue

    def listen(self, informers: Informers) -> None:
        """Have changes of jobs and pods told; the indexes given to the constructor are those of the informers."""
        self.events.listen(informers)

    async def process_next(self) -> None:
        """Sync the next key of the queue; a failure puts it back, later."""
        await self.queue.process_next(self.sync)

    async def sync(self, key: str) -> None:
        """Bring one job's pods closer to what it wants, count those that have finished, and end it when it is over.

        Raises what went wrong; the key is to be synced again then. Never twice at once for one key.
        """
        job = self._jobs.get(key)
        if job is None or is_finished(job):
            self._finished.pop(key, None)
            self._work.failures.pop(key, None)
            if job is None:
                self._work.forget(key)
            return
        if not is_ours(job) or self._finished.get(key) == job.metadata.uid:
            return
        if job.spec.completion_mode not in _COMPLETION_MODES:
            message = "Skipped Job sync because completion mode is unknown"
            self._recorder.event(reference_to(job), WARNING, "UnknownCompletionMode", message)
            return
        # Asked before the pods are listed: a pod that comes in between is then listed, and not created twice.
        may_act = self._work.expectations.satisfied(key, now_seconds=self._clock.monotonic())
        pods = await self._claim(job)
        now = self._clock.now()
        census = count_job_pods(job, pods, self._work.removals.awaited(key))
        record = next_record(self._work.failures.get(key, NO_FAILURES), census.newly_succeeded, census.newly_failed)
        started = job if job.status.start_time or is_suspended(job) else _started(job, now)
        ending = finished_condition_of(started, census, now)
        if ending is not None:
            step = await self._end(started, census, ending, may_act=may_act)
        else:
            if (left := deadline_seconds_left(started, now)) is not None:
                self.queue.add_after(key, left)
            step = await self._run(started, census, record, may_act=may_act)
        await self._track(job, census, step, record)
        if step.error is not None:
            raise step.error

    async def _claim(self, job: Job) -> tuple[Pod, ...]:
        ownership = PodControllerRefManager(
            pod_control=self._pod_control,
            owner=job,
            selector=selector_from_object(job.spec.selector),
            can_adopt=may_adopt(self._client, JOBS, job),
            finalizers=(TRACKING_FINALIZER,),
        )
        claimed = await ownership.claim_pods(self._pods.of_owner(job, with_orphans=True))
        if claimed.error is not None:
            raise claimed.error
        return tuple(_as_adopted(pod, job) for pod in claimed.pods)

    async def _end(self, job: Job, census: JobPodCounts, ending: JobCondition, *, may_act: bool) -> _SyncStep:
        """Delete what still runs. The job ends only with the last pod, and no pod may be unseen."""
        removal = await self._work.delete_counted(job, census.active)
        status = replace(
            job.status,
            active=len(census.active) - removal.deleted,
            ready=census.ready - removal.ready,
            terminating=census.terminating + removal.deleted,
        )
        is_last = removal.deleted == len(census.active) and may_act
        return _SyncStep(status, ending if is_last else None, removal.error)

    async def _run(self, job: Job, census: JobPodCounts, record: FailureRecord, *, may_act: bool) -> _SyncStep:
        """Create or delete pods as the job wants; perhaps it is complete."""
        error, now = None, self._clock.now()
        manages = may_act and job.metadata.deletion_timestamp is None
        status = replace(job.status, active=len(census.active), ready=census.ready, terminating=census.terminating)
        if manages:
            status, error = await self._manage(job, status, census, record)
        ending = success_of(job, census.succeeded, status.active, now)
        if ending is None and manages:
            status = self._with_suspension(job, status, now)
        return _SyncStep(status, ending, error)

    async def _manage(
        self, job: Job, status: JobStatus, census: JobPodCounts, record: FailureRecord
    ) -> tuple[JobStatus, Exception | None]:
        plan = plan_pods(job, census, record, self._clock.now())
        if plan.delete:
            removal = await self._work.delete_uncounted(job, plan.delete)
            status = replace(
                status,
                active=status.active - removal.deleted,
                ready=census.ready - removal.ready,
                terminating=census.terminating + removal.deleted,
            )
            return status, removal.error
        if plan.wait_seconds > 0:
            self.queue.add_after(key_of(job), max(plan.wait_seconds, POD_BATCH_SECONDS))
        if not plan.create:
            return status, None
        to_replace = census.indexes.to_replace if census.indexes is not None else {}
        created, error = await self._work.create(job, plan.create, to_replace)
        return replace(status, active=status.active + created), error

    def _with_suspension(self, job: Job, status: JobStatus, now: datetime) -> JobStatus:
        """The status that says whether the job is suspended; an event tells when that changes."""
        word = "Suspended" if is_suspended(job) else "Resumed"
        value = "True" if is_suspended(job) else "False"
        wanted = new_condition(SUSPENDED, value, f"Job{word}", f"Job {word.lower()}", now)
        conditions = with_condition(status.conditions, wanted)
        if conditions is status.conditions:
            return status
        self._recorder.event(reference_to(job), NORMAL, word, wanted.message)
        # The deadline's time starts anew with each resumption.
        start = status.start_time if is_suspended(job) else format_time(now)
        return replace(status, conditions=conditions, start_time=start)

    async def _track(self, job: Job, census: JobPodCounts, step: _SyncStep, record: FailureRecord) -> None:
        """Count finished pods: note them, take their finalizers, move them into the counters, perhaps end the job."""
        plan = plan_tracking(job, step.status, census, step.ending)
        status = replace(job.status, uncounted_terminated_pods=uncounted_of(job))
        if plan.status != status:
            job = await self._write(job, plan.status, "adding uncounted pods to status")
            status = replace(job.status, uncounted_terminated_pods=uncounted_of(job))
            self._work.failures[key_of(job)] = record
        released, error = await self._work.release(job, plan.release)
        settled = count_released_pods(status, plan.holders - released)
        final = None if error is not None or plan.is_full else self._final(settled, step)
        if final is not None:
            settled = replace(
                settled,
                conditions=with_condition(settled.conditions, final),
                completion_time=final.last_transition_time if final.type == COMPLETE else settled.completion_time,
            )
        if settled != status:
            job = await self._write(job, settled, "removing uncounted pods from status")
        if error is not None:
            raise TrackingError(f"tracking status: {error}") from error
        if final is not None:
            self._finished[key_of(job)] = job.metadata.uid
            self._tell_end(job, final)

    def _final(self, status: JobStatus, step: _SyncStep) -> JobCondition | None:
        """The terminal condition, if nothing of the job is left to wait for."""
        noted = status.uncounted_terminated_pods
        if step.ending is None or step.status.terminating or (noted and (noted.succeeded or noted.failed)):
            return None
        return terminal_condition(step.ending, self._clock.now())

    def _tell_end(self, job: Job, final: JobCondition) -> None:
        about = reference_to(job)
        if final.type != COMPLETE:
            self._recorder.event(about, WARNING, final.reason, final.message)
            return
        if job.spec.completions is not None and job.status.succeeded > job.spec.completions:
            message = "Too many succeeded pods running after completion count reached"
            self._recorder.event(about, WARNING, "TooManySucceededPods", message)
        self._recorder.event(about, NORMAL, "Completed", "Job completed")

    async def _write(self, job: Job, status: JobStatus, purpose: str) -> Job:
        try:
            return await patch_status(self._client, JOBS, job, explicit(status))
        except ApiError as error:
            raise TrackingError(f"tracking status: {purpose}: {error}") from error


def _started(job: Job, now: datetime) -> Job:
    return replace(job, status=replace(job.status, start_time=format_time(now)))


def _as_adopted(pod: Pod, job: Job) -> Pod:
    """A pod adopted just now, with the finalizer that came with the adoption."""
    is_ours = any(reference.uid == job.metadata.uid for reference in pod.metadata.owner_references)
    if is_ours or has_tracking_finalizer(pod):
        return pod
    finalizers = (*pod.metadata.finalizers, TRACKING_FINALIZER)
    return replace(pod, metadata=replace(pod.metadata, finalizers=finalizers))
