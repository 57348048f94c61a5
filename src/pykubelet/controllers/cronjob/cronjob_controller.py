"""The CronJob controller: creates a Job whenever a schedule is due.

Between two start times nothing runs: the queue delays the key until the next one. A start time is never used twice, and
with concurrency policy Forbid never overlaps another job, wherever the controller stops: jobs are named after their
start time, and an active job missing in the status is added before anything else happens.

Upstream: pkg/controller/cronjob/cronjob_controllerv2.go
"""

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from msgspec.structs import replace

from pykubelet.aio.clock import Clock
from pykubelet.api.cron import Schedule, ScheduleError, parse_schedule
from pykubelet.api.errors import AlreadyExists, ApiError, NotFound
from pykubelet.api.field_errors import go_quote
from pykubelet.api.generated.batch import CronJob, CronJobStatus, Job
from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.scheme import CRON_JOBS, JOBS
from pykubelet.api.times import format_time, parse_time, time_zone
from pykubelet.client.indexer import ObjectIndex, controller_of, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to
from pykubelet.controllers.cronjob.schedule import (
    MANY_MISSED,
    ActiveJobsReview,
    NeverDueError,
    StartDecision,
    decide_start,
    finished_type_of,
    job_name,
    jobs_to_remove,
    new_job,
    review_active_jobs,
    schedule_state,
    seconds_to_next,
    start_of_job,
    without_active,
)
from pykubelet.controllers.framework.ownership import explicit, patch_status
from pykubelet.controllers.framework.pod_control import NAMESPACE_TERMINATING
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue

_ZONE_ADVICE = "see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
_MANY_MISSED = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"


@dataclass(frozen=True, slots=True)
class _CronJobSync:
    """The result of a sync: the status to write, the seconds until the next start, and an error."""

    status: CronJobStatus
    wait_seconds: float | None = None
    error: Exception | None = None


class CronJobController(KeyedController):
    """Syncs CronJobs by key. Event handlers only enqueue; `sync` acts."""

    def __init__(
        self,
        *,
        client: Client,
        recorder: EventRecorder,
        crons: ObjectIndex[CronJob],
        jobs: ObjectIndex[Job],
        clock: Clock,
        local: tzinfo = UTC,
    ) -> None:
        """`local` is the time zone of schedules that name none."""
        self._client, self._recorder, self._clock, self._local = client, recorder, clock, local
        self._crons, self._jobs = crons, jobs
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(
            CRON_JOBS, added=self.cron_changed, updated=self.cron_updated, deleted=self.cron_changed
        )
        informers.add_event_handler(JOBS, added=self.job_changed, updated=self.job_updated, deleted=self.job_changed)

    def cron_changed(self, cron: CronJob) -> None:
        self.queue.add(key_of(cron))

    def cron_updated(self, old: CronJob, new: CronJob) -> None:
        """Enqueues a changed CronJob; with a new schedule only at its next start."""
        if (old.spec.schedule, old.spec.time_zone) == (new.spec.schedule, new.spec.time_zone):
            self.queue.add(key_of(new))
            return
        try:
            schedule = _schedule_of(new)
        except ScheduleError:
            message = f"unparseable schedule for cronjob: {new.spec.schedule}"
            self._record_event(new, WARNING, "UnParseableCronJobSchedule", message)
            return
        self.queue.add_after(key_of(new), seconds_to_next(new, schedule, self._clock.now(), self._local))

    def job_changed(self, job: Job) -> None:
        if cron := self._crons.resolve(job.metadata.namespace, controller_of(job)):
            self.queue.add(key_of(cron))

    def job_updated(self, old: Job, new: Job) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        if controller_of(old) != controller_of(new):
            self.job_changed(old)
        self.job_changed(new)

    async def sync(self, key: str) -> None:
        """Updates the status, creates the job that is due, and removes finished jobs above the limits."""
        cron = self._crons.get(key)
        if cron is None:
            return
        jobs = self._jobs.managed_by(cron.metadata.uid)
        found = review_active_jobs(cron, jobs)
        if found.unexpected:
            # The cached CronJob may be older than the jobs.
            fresh = await self._client.get(CRON_JOBS, cron.metadata.name, namespace=cron.metadata.namespace)
            if fresh.metadata.uid != cron.metadata.uid:
                return
            cron, found = fresh, review_active_jobs(fresh, jobs)
        status = await self._status_from_jobs(cron, found)
        result = await self._start(cron, status)
        if result.status != cron.status:
            cron = await patch_status(self._client, CRON_JOBS, cron, explicit(result.status))
        if result.error is not None:
            raise result.error
        if result.wait_seconds is not None:
            self.queue.add_after(key, result.wait_seconds)
        # Last, so that no job is deleted before its start is recorded in the status.
        for job in jobs_to_remove(cron, jobs):
            await self._delete(cron, job)

    async def _status_from_jobs(self, cron: CronJob, found: ActiveJobsReview) -> CronJobStatus:
        """The status updated from the jobs; findings are recorded as events."""
        status = found.status
        for job in found.unexpected:
            message = f"Saw a job that the controller did not create or forgot: {job.metadata.name}"
            self._record_event(cron, WARNING, "UnexpectedJob", message)
            if (start := start_of_job(cron, job)) is not None:
                status = _with_job(status, job, start)
        for job in found.completed:
            message = f"Saw completed job: {job.metadata.name}, condition: {finished_type_of(job)}"
            self._record_event(cron, NORMAL, "SawCompletedJob", message)
        for reference in found.missing:
            try:
                live = await self._client.get(JOBS, reference.name, namespace=reference.namespace)
            except NotFound:
                live = None
            if live is None or live.metadata.uid != reference.uid:
                self._record_event(cron, NORMAL, "MissingJob", f"Active job went missing: {reference.name}")
                status = without_active(status, [reference.uid])
        return status

    async def _start(self, cron: CronJob, status: CronJobStatus) -> _CronJobSync:
        """Creates the job that is due, unless the schedule or a policy prevents it."""
        schedule = None if cron.metadata.deletion_timestamp is not None else self._usable_schedule(cron)
        if schedule is None:
            return _CronJobSync(status)
        now, current = self._clock.now(), replace(cron, status=status)
        try:
            found = schedule_state(current, schedule, now, self._local)
        except NeverDueError as error:
            self._record_event(cron, WARNING, "InvalidSchedule", f"invalid schedule: {cron.spec.schedule} : {error}")
            return _CronJobSync(status)
        if found.start is not None:
            if found.missed > MANY_MISSED:
                self._record_event(cron, WARNING, "TooManyMissedTimes", _MANY_MISSED)
            result = await self._start_at(current, found.start)
            if result.error is not None:
                return result
            status = result.status
        wait = seconds_to_next(replace(cron, status=status), schedule, now, self._local)
        return _CronJobSync(status, wait)

    def _usable_schedule(self, cron: CronJob) -> Schedule | None:
        """The parsed schedule; None if the CronJob is suspended or invalid."""
        spec = cron.spec
        if spec.time_zone is not None and time_zone(spec.time_zone) is None:
            message = f"invalid timeZone: {go_quote(spec.time_zone)}: unknown time zone {spec.time_zone}"
            self._record_event(cron, WARNING, "UnknownTimeZone", message)
            return None
        if spec.suspend:
            return None
        if "TZ" in spec.schedule:
            used = f"CRON_TZ or TZ used in schedule {go_quote(spec.schedule)} is not officially supported"
            self._record_event(cron, WARNING, "UnsupportedSchedule", f"{used}, {_ZONE_ADVICE}")
        try:
            return _schedule_of(cron)
        except ScheduleError as error:
            message = f"unparseable schedule: {go_quote(spec.schedule)} : {error}"
            self._record_event(cron, WARNING, "UnparseableSchedule", message)
            return None

    async def _start_at(self, cron: CronJob, start: datetime) -> _CronJobSync:
        decision, status = decide_start(cron, start), cron.status
        if decision is StartDecision.FORBIDDEN:
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._record_event(cron, NORMAL, "JobAlreadyActive", message)
        if decision is not StartDecision.NOW:
            return _CronJobSync(status)
        if cron.spec.concurrency_policy == "Replace":
            for reference in cron.status.active:
                error = await self._replace(cron, reference.name, reference.namespace)
                if error is not None:
                    return _CronJobSync(status, error=error)
                status = without_active(status, [reference.uid])
        try:
            job = await self._create(cron, start)
        except ApiError as error:
            return _CronJobSync(status, error=error)
        return _CronJobSync(status if job is None else _with_job(status, job, start))

    async def _replace(self, cron: CronJob, name: str, namespace: str) -> Exception | None:
        try:
            job = await self._client.get(JOBS, name, namespace=namespace)
        except ApiError as error:
            self._record_event(cron, WARNING, "FailedGet", f"Get job: {error}")
            return error
        return await self._delete(cron, job)

    async def _create(self, cron: CronJob, start: datetime) -> Job | None:
        """The job of a start, created now or by an earlier attempt; None if another owner has it."""
        namespace = cron.metadata.namespace
        zone = time_zone(cron.spec.time_zone or "") or UTC
        try:
            job = await self._client.create(JOBS, new_job(cron, start, zone), namespace=namespace)
        except AlreadyExists:
            # Possibly created by an earlier attempt and not recorded.
            found = await self._client.get(JOBS, job_name(cron, start), namespace=namespace)
            manager = controller_of(found)
            return found if manager is not None and manager.uid == cron.metadata.uid else None
        except ApiError as error:
            if not error.has_cause(NAMESPACE_TERMINATING):
                self._record_event(cron, WARNING, "FailedCreate", f"Error creating job: {error}")
            raise
        self._record_event(cron, NORMAL, "SuccessfulCreate", f"Created job {job.metadata.name}")
        return job

    async def _delete(self, cron: CronJob, job: Job) -> Exception | None:
        """Deletes a job and, in the background, its pods."""
        meta = job.metadata
        options = DeleteOptions(propagation_policy="Background", preconditions=Preconditions(uid=meta.uid))
        try:
            await self._client.delete(JOBS, meta.name, namespace=meta.namespace, options=options)
        except ApiError as error:
            self._record_event(cron, WARNING, "FailedDelete", f"Deleted job: {error}")
            return error
        self._record_event(cron, NORMAL, "SuccessfulDelete", f"Deleted job {meta.name}")
        return None

    def _record_event(self, cron: CronJob, event_type: str, reason: str, message: str) -> None:
        self._recorder.event(reference_to(cron), event_type, reason, message)


def _schedule_of(cron: CronJob) -> Schedule:
    zone, text = cron.spec.time_zone, cron.spec.schedule
    known = zone is not None and "TZ" not in text and time_zone(zone) is not None
    return parse_schedule(f"TZ={zone} {text}" if known else text)


def _with_job(status: CronJobStatus, job: Job, start: datetime) -> CronJobStatus:
    """The status after this start."""
    last = status.last_schedule_time
    newest = start if last is None else max(start, parse_time(last))
    active = (*without_active(status, [job.metadata.uid]).active, reference_to(job))
    return replace(status, active=active, last_schedule_time=format_time(newest))
