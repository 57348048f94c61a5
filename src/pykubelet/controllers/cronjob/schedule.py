"""The decisions of a CronJob: the start that is due, the jobs in its status, and the jobs to remove.

Upstream: pkg/controller/cronjob/utils.go, pkg/controller/cronjob/cronjob_controllerv2.go
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum, auto

from msgspec.structs import replace

from pykubelet.api.cron import Schedule, next_time
from pykubelet.api.generated.batch import CronJob, CronJobStatus, Job
from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.times import ZERO_TIME, parse_time, same_instant
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.controllers.job.status import COMPLETE, FAILED, finished_condition, is_finished, true_condition

MANY_MISSED = 100
"""The number of missed starts above which a warning is recorded."""
# Allows for clock skew between server and controller.
_PADDING_SECONDS = 0.1
# Three hundred years: the API accepts longer deadlines than datetime can represent.
_LONGEST_SECONDS = 10**10
SCHEDULED_TIMESTAMP = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class NeverDueError(ValueError):
    """The schedule is valid but never due, such as the 31st of February."""


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """The position of a CronJob in its schedule."""

    since: datetime
    """The time after which starts were searched."""
    start: datetime | None = None
    """The latest start that is due and has no job yet."""
    missed: int = 0
    """The estimated number of missed starts, without the latest one."""


@dataclass(frozen=True, slots=True)
class ActiveJobsReview:
    """The jobs of a CronJob compared with its status."""

    status: CronJobStatus
    """The status without finished jobs, and with the last success."""
    completed: tuple[Job, ...] = ()
    """Jobs that were active until now."""
    unexpected: tuple[Job, ...] = ()
    """Active jobs missing in the status: created by others, or by a controller that stopped before recording them."""
    missing: tuple[ObjectReference, ...] = ()
    """References in the status whose job is not in the cache."""


class StartDecision(Enum):
    """What to do about a start that is due."""

    NOW = auto()
    MADE = auto()
    """Its job exists already."""
    FORBIDDEN = auto()
    """Another job is still active."""


def schedule_state(cron: CronJob, schedule: Schedule, now: datetime, local: tzinfo = UTC) -> ScheduleState:
    """The start that is due; starts past their deadline are skipped. NeverDueError if the schedule has none."""
    since = _since(cron)
    if (deadline := cron.spec.starting_deadline_seconds) is not None:
        since = max(since, now - timedelta(seconds=min(deadline, _LONGEST_SECONDS)))
    return _due(since, schedule, now, local)


def seconds_to_next(cron: CronJob, schedule: Schedule, now: datetime, local: tzinfo = UTC) -> float:
    """Seconds until the next start; 0 if there is none."""
    try:
        found = _due(_since(cron), schedule, now, local)
    except NeverDueError:
        found = ScheduleState(now, now)
    last = found.start or (now if found.missed else found.since)
    following = next_time(schedule, last, local)
    return 0.0 if following is None else (following - now).total_seconds() + _PADDING_SECONDS


def _since(cron: CronJob) -> datetime:
    """The last start, or the creation of the CronJob."""
    last = cron.status.last_schedule_time or cron.metadata.creation_timestamp
    return parse_time(last) if last is not None else ZERO_TIME


def _due(since: datetime, schedule: Schedule, now: datetime, local: tzinfo) -> ScheduleState:
    first = next_time(schedule, since, local)
    if first is not None and now < first:
        return ScheduleState(since)
    second = next_time(schedule, first, local) if first is not None else None
    if first is not None and second is not None and now < second:
        return ScheduleState(since, first)
    if first is None or second is None:
        raise NeverDueError("time difference between two schedules is less than 1 second")
    # There may be years of starts, so this jumps close to now by the first interval and iterates from there. The
    # number of missed starts is therefore an estimate.
    interval = second - first
    missed = (now - first) // interval + 1
    start, candidate = None, next_time(schedule, first + (missed - 2) * interval, local)
    while candidate is not None and candidate <= now:
        start, candidate = candidate, next_time(schedule, candidate, local)
    return ScheduleState(since, start, missed)


def review_active_jobs(cron: CronJob, jobs: Sequence[Job]) -> ActiveJobsReview:
    listed = {one.uid for one in cron.status.active}
    ended = {job.metadata.uid for job in jobs if is_finished(job)}
    known = {job.metadata.uid for job in jobs}
    successes = [cron.status.last_successful_time, *(job.status.completion_time for job in jobs if _has_succeeded(job))]
    last_success = max(filter(None, successes), key=parse_time, default=None)
    return ActiveJobsReview(
        status=replace(without_active(cron.status, ended), last_successful_time=last_success),
        completed=tuple(job for job in jobs if job.metadata.uid in listed & ended),
        unexpected=tuple(job for job in jobs if job.metadata.uid not in listed | ended),
        missing=tuple(one for one in cron.status.active if one.uid not in known),
    )


def without_active(status: CronJobStatus, uids: Iterable[str]) -> CronJobStatus:
    gone = frozenset(uids)
    return replace(status, active=tuple(one for one in status.active if one.uid not in gone))


def decide_start(cron: CronJob, start: datetime) -> StartDecision:
    """Decides whether to create a job for a start that is due."""
    status = cron.status
    is_listed = any(one.name == job_name(cron, start) for one in status.active)
    if is_listed or same_instant(status.last_schedule_time, start.isoformat()):
        return StartDecision.MADE
    if cron.spec.concurrency_policy == "Forbid" and status.active:
        return StartDecision.FORBIDDEN
    return StartDecision.NOW


def job_name(cron: CronJob, start: datetime) -> str:
    """The name of the job of a start (minutes since 1970); deterministic, so that it cannot be created twice."""
    return f"{cron.metadata.name}-{int(start.timestamp()) // 60}"


def new_job(cron: CronJob, start: datetime, zone: tzinfo) -> Job:
    """The job of a start; `zone` formats the timestamp annotation."""
    template, at = cron.spec.job_template, start.astimezone(zone)
    timestamp = at.isoformat(timespec="seconds")
    if at.utcoffset() == timedelta():
        timestamp = f"{timestamp[:-6]}Z"
    metadata = ObjectMeta(
        name=job_name(cron, start),
        labels=template.metadata.labels,
        annotations={**template.metadata.annotations, SCHEDULED_TIMESTAMP: timestamp},
        owner_references=(new_controller_ref(cron),),
    )
    return Job(metadata=metadata, spec=template.spec)


def start_of_job(cron: CronJob, job: Job) -> datetime | None:
    """The start for which this CronJob created the job; None if it did not."""
    try:
        start = parse_time(job.metadata.annotations.get(SCHEDULED_TIMESTAMP, ""))
    except ValueError:
        return None
    return start if job_name(cron, start) == job.metadata.name else None


def jobs_to_remove(cron: CronJob, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """The oldest finished jobs above the history limits."""
    limits = ((COMPLETE, cron.spec.successful_jobs_history_limit), (FAILED, cron.spec.failed_jobs_history_limit))
    found: list[Job] = []
    for kind, limit in limits:
        ended = sorted((job for job in jobs if finished_type_of(job) == kind), key=_age)
        found += ended[: max(0, len(ended) - limit)] if limit is not None else ()
    return tuple(found)


def finished_type_of(job: Job) -> str | None:
    """The type of the terminal condition, if the job has finished."""
    condition = finished_condition(job)
    return None if condition is None else condition.type


def _has_succeeded(job: Job) -> bool:
    return true_condition(job.status.conditions, COMPLETE) is not None


def _age(job: Job) -> tuple[bool, datetime, str]:
    """Sorts oldest first; jobs that never started come last."""
    start = job.status.start_time
    return start is None, parse_time(start) if start is not None else ZERO_TIME, job.metadata.name
