"""Which start of a CronJob is due, how many were missed, when to look again.

Pure. Upstream: mostRecentScheduleTime, nextScheduleTime and nextScheduleTimeDuration in
pkg/controller/cronjob/utils.go.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from pykubelet.api.cron import Schedule
from pykubelet.api.cron_times import next_time
from pykubelet.api.generated.batch import CronJob
from pykubelet.api.times import ZERO_TIME, parse_time

MANY_MISSED = 100
"""More missed starts than this are worth a warning."""
# The clocks of server and controller differ a little.
_PADDING_SECONDS = 0.1
# Three hundred years: the API allows longer deadlines than a calendar has days.
_LONGEST_SECONDS = 10**10


class NeverDueError(ValueError):
    """The schedule makes sense to its grammar only: the 31st of February."""


@dataclass(frozen=True, slots=True)
class Due:
    """Where a CronJob stands in its schedule."""

    since: datetime
    """From here on starts were looked for."""
    start: datetime | None = None
    """The last start that has come and was not made."""
    missed: int = 0
    """About how many starts have gone by without a job; the one that came just now does not count."""


def due(cron: CronJob, schedule: Schedule, now: datetime, local: tzinfo = UTC) -> Due:
    """The start to make now; NeverDueError if the schedule has none.

    Starts whose deadline is over are not looked for: they are missed without a word, as upstream's are.
    """
    since = _since(cron)
    if (deadline := cron.spec.starting_deadline_seconds) is not None:
        since = max(since, now - timedelta(seconds=min(deadline, _LONGEST_SECONDS)))
    return _due(since, schedule, now, local)


def seconds_to_next(cron: CronJob, schedule: Schedule, now: datetime, local: tzinfo = UTC) -> float:
    """How long until the next start after those that have come; zero if there will be none."""
    try:
        found = _due(_since(cron), schedule, now, local)
    except NeverDueError:
        found = Due(now, now)
    last = found.start or (now if found.missed else found.since)
    following = next_time(schedule, last, local)
    return 0.0 if following is None else (following - now).total_seconds() + _PADDING_SECONDS


def _since(cron: CronJob) -> datetime:
    """The last start that was made, or the beginning."""
    last = cron.status.last_schedule_time or cron.metadata.creation_timestamp
    return parse_time(last) if last is not None else ZERO_TIME


def _due(since: datetime, schedule: Schedule, now: datetime, local: tzinfo) -> Due:
    first = next_time(schedule, since, local)
    if first is not None and now < first:
        return Due(since)
    second = next_time(schedule, first, local) if first is not None else None
    if first is not None and second is not None and now < second:
        return Due(since, first)
    if first is None or second is None:
        raise NeverDueError("time difference between two schedules is less than 1 second")
    # Not one start after the other, for there may be years of them: a jump close to now by the first interval, then on
    # from there. The number of missed starts is an estimate for the same reason.
    interval = second - first
    missed = (now - first) // interval + 1
    start, candidate = None, next_time(schedule, first + (missed - 2) * interval, local)
    while candidate is not None and candidate <= now:
        start, candidate = candidate, next_time(schedule, candidate, local)
    return Due(since, start, missed)
