"""When a schedule is due next.

A day that the clock skips an hour has no such hour: what was due in it is not. An hour that the clock shows twice is
due twice. Upstream: SpecSchedule.Next in github.com/robfig/cron/v3/spec.go, ConstantDelaySchedule in constantdelay.go.
"""

from datetime import UTC, date, datetime, time, timedelta, tzinfo

from pykubelet.api.cron import CalendarSchedule, IntervalSchedule, Schedule
from pykubelet.api.time_zones import time_zone

# After so many years without a day that matches there will be none: the 31st of February.
_YEARS = 5


def next_time(schedule: Schedule, after: datetime, local: tzinfo = UTC) -> datetime | None:
    """The first time later than `after`, in UTC; None if there is none, or nobody knows the schedule's time zone.

    `local` is the time zone of schedules that name none.
    """
    whole = after.astimezone(UTC).replace(microsecond=0)
    if isinstance(schedule, IntervalSchedule):
        return whole + timedelta(seconds=schedule.seconds)
    zone = local if schedule.zone in {None, "Local"} else time_zone(schedule.zone or "")
    return None if zone is None else _next_on_calendar(schedule, whole + timedelta(seconds=1), zone)


def _next_on_calendar(schedule: CalendarSchedule, at: datetime, zone: tzinfo) -> datetime | None:
    """The first time from `at` on. Fields are tried from the largest; one that does not match moves on to its next."""
    shown = at.astimezone(zone)
    last_year = min(shown.year + _YEARS, date.max.year - 1)
    while shown.year <= last_year:
        if shown.month not in schedule.months:
            following = date(shown.year + shown.month // 12, shown.month % 12 + 1, 1)
            at = datetime.combine(following, time(), zone).astimezone(UTC)
        elif not _is_day(schedule, shown):
            at = datetime.combine(shown.date() + timedelta(days=1), time(), zone).astimezone(UTC)
        elif shown.hour not in schedule.hours:
            at += timedelta(seconds=3600 - 60 * shown.minute - shown.second)
        elif shown.minute not in schedule.minutes or shown.second:
            at += timedelta(seconds=60 - shown.second)
        else:
            return at
        shown = at.astimezone(zone)
    return None


def _is_day(schedule: CalendarSchedule, shown: datetime) -> bool:
    by_month, by_week = shown.day in schedule.days, shown.isoweekday() % 7 in schedule.weekdays
    return (by_month and by_week) if schedule.needs_both_days else (by_month or by_week)
