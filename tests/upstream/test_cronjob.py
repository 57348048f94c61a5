"""Which start of a CronJob is due; the cases of Kubernetes' own tests."""

from datetime import UTC, datetime, timedelta

import pytest

from pykubelet.api.cron import parse_schedule
from pykubelet.api.generated.batch import CronJob, CronJobSpec, CronJobStatus
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.times import format_time
from pykubelet.controllers.cronjob.schedule import (
    MANY_MISSED,
    NeverDueError,
    ScheduleState,
    schedule_state,
    seconds_to_next,
)

TOP = datetime(2016, 5, 19, 10, tzinfo=UTC)
MINUTE, HOUR = 1.0, 60.0
DAY = 24 * HOUR


def later(minutes: float) -> datetime:
    """The time this many minutes after 10:00 on a Thursday."""
    return TOP + timedelta(minutes=minutes)


def cron(schedule: str, created: float = 0, last: float | None = None, deadline: int | None = None) -> CronJob:
    return CronJob(
        metadata=ObjectMeta(name="c", creation_timestamp=format_time(later(created))),
        spec=CronJobSpec(schedule=schedule, starting_deadline_seconds=deadline),
        status=CronJobStatus(last_schedule_time=None if last is None else format_time(later(last))),
    )


def found(one: CronJob, now: float) -> ScheduleState:
    return schedule_state(one, parse_schedule(one.spec.schedule), later(now))


HOURLY, DAYTIME = "0 * * * *", "30 6-16/4 * * 1-5"
STARTS = [
    ("before the next", cron(HOURLY), 0.5, 0, None, 0),
    ("just after the next", cron(HOURLY), 61, 0, 60, 0),
    ("missed five", cron(HOURLY, created=1 / 6), 301, 1 / 6, 300, 5),
    ("complex", cron(DAYTIME, last=30), DAY + 31, 30, DAY + 30, 5),
    ("nothing after the jump", cron("30 10,11,12 * * 1-5", last=30), 30 * HOUR + 30, 30, None, 30),
    ("longer gap", cron(DAYTIME, last=30), 4 * DAY + 31, 30, 4 * DAY + 30, 23),
    ("shorter gap", cron(DAYTIME), DAY + 31, 0, DAY + 30, 7),
    ("every hour", cron("@every 1h", created=-59, last=1), 7 * DAY, 1, 7 * DAY - 59, 167),
    ("created and last", cron(HOURLY, last=0), 0.5, 0, None, 0),
    ("since the last", cron("*/5 * * * *", last=30), 31, 30, None, 0),
    ("within the deadline", cron("*/5 * * * *", last=30, deadline=60), 31, 30, None, 0),
    ("outside the deadline", cron("*/5 * * * *", last=30, deadline=60), 32, 31, None, 0),
    ("at this moment", cron(HOURLY), 60, 0, 60, 0),
    ("the second at this moment", cron(HOURLY), 120, 0, 120, 2),
    ("missed four, the fifth at this moment", cron(HOURLY), 300, 0, 300, 5),
    ("deadline beyond all calendars", cron(HOURLY, deadline=2**62), 61, 0, 60, 0),
]


@pytest.mark.parametrize(
    ("one", "now", "since", "start", "missed"), [pytest.param(*row[1:], id=row[0]) for row in STARTS]
)
def test_start_that_is_due(one: CronJob, now: float, since: float, start: float | None, missed: int) -> None:
    """The latest due start is used; the number of missed starts is estimated from the first interval."""
    result = found(one, now)
    assert result.since == later(since)
    assert result.start == (None if start is None else later(start))
    assert (result.missed > 0, result.missed > MANY_MISSED) == (missed > 0, missed > MANY_MISSED)


def test_schedule_that_is_never_due_is_an_error() -> None:
    """The schedule is for 31 February: it parses, but that day never comes."""
    with pytest.raises(NeverDueError, match="time difference between two schedules is less than 1 second"):
        found(cron("59 23 31 2 *"), 60)
    assert seconds_to_next(cron("59 23 31 2 *"), parse_schedule("59 23 31 2 *"), later(60)) == 0


WAITS = [
    ("complex", cron(DAYTIME, last=30), DAY + 31, 3 * HOUR + 59),
    ("over the weekend", cron("30 10,11,12 * * 1-5", last=30), 30 * HOUR + 30, 66 * HOUR),
    ("weekly, two missed", cron("0 12 * * 4", last=120), 19 * DAY + 90, 48 * HOUR + 30),
    ("no run before", cron("0 12 * * 5"), 6 * HOUR, 20 * HOUR),
    ("deadline does not matter", cron(HOURLY, deadline=1), 90, 30),
]


@pytest.mark.parametrize(("one", "now", "minutes"), [pytest.param(*row[1:], id=row[0]) for row in WAITS])
def test_wait_for_the_next_start(one: CronJob, now: float, minutes: float) -> None:
    """A tenth of a second is added to allow for differences between clocks."""
    seconds = seconds_to_next(one, parse_schedule(one.spec.schedule), later(now))
    assert seconds == pytest.approx(60 * minutes + 0.1)
