"""Next due times of cron schedules."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.cron import CalendarSchedule, IntervalSchedule, next_time, parse_schedule, schedule_problem
from pykubelet.api.times import time_zone


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


NEXT = [
    ("0/15 * * * *", "2012-07-09T14:45:00Z", "2012-07-09T15:00:00Z"),
    ("0/15 * * * *", "2012-07-09T14:59:59Z", "2012-07-09T15:00:00Z"),
    ("20-35/15 * * * *", "2012-07-09T15:45:00Z", "2012-07-09T16:20:00Z"),
    ("*/15 * * * *", "2012-12-31T23:59:45.5Z", "2013-01-01T00:00:00Z"),
    ("0 0 9 apr-oct ?", "2012-07-09T23:35:51Z", "2012-08-09T00:00:00Z"),
    ("0 0 */5 apr,aug,oct Mon", "2012-07-09T23:35:51Z", "2012-08-01T00:00:00Z"),
    ("0 0 */5 oct Mon", "2012-07-09T23:35:51Z", "2012-10-01T00:00:00Z"),
    ("0 0 * feb Mon", "2012-07-09T23:35:51Z", "2013-02-04T00:00:00Z"),
    ("0 0 * feb Mon/2", "2012-07-09T23:35:51Z", "2013-02-01T00:00:00Z"),
    ("0 0 1 * 1", "2024-02-01T12:00:00Z", "2024-02-05T00:00:00Z"),
    ("0 0 29 2 ?", "2012-07-09T23:35:00Z", "2016-02-29T00:00:00Z"),
    ("0 0 31 2 ?", "2012-07-09T23:35:00Z", None),
    (", * * * *", "2012-07-09T23:35:00Z", None),
    ("@hourly", "2012-11-04T01:00:00-05:00", "2012-11-04T02:00:00-05:00"),
    ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
    ("@every 90m", "2012-07-09T14:45:00.7Z", "2012-07-09T16:15:00Z"),
    ("@every 10ms", "2012-07-09T14:45:00Z", "2012-07-09T14:45:01Z"),
    # Clocks go forward in New York: a time in the skipped hour is not due that day.
    ("TZ=America/New_York 30 2 11 Mar ?", "2012-03-11T00:00:00-05:00", "2013-03-11T02:30:00-04:00"),
    ("TZ=America/New_York 0 * * * ?", "2012-03-11T01:00:00-05:00", "2012-03-11T03:00:00-04:00"),
    ("TZ=America/New_York 0 2 * * ?", "2012-03-11T00:00:00-05:00", "2012-03-12T02:00:00-04:00"),
    # Clocks go back: a time in the repeated hour is due twice.
    ("TZ=America/New_York 30 1 * * ?", "2012-11-04T01:30:00-04:00", "2012-11-04T01:30:00-05:00"),
    ("TZ=America/New_York 0 3 * * ?", "2012-11-04T01:30:00-05:00", "2012-11-04T03:00:00-05:00"),
    # Clocks go forward at midnight.
    ("TZ=America/Sao_Paulo 0 9 10 * ?", "2018-10-17T05:00:00-04:00", "2018-11-10T06:00:00-05:00"),
    ("CRON_TZ=Asia/Kolkata 0 0 * * *", "2026-01-01T00:00:00Z", "2026-01-01T18:30:00Z"),
]


@pytest.mark.parametrize(("schedule", "after", "expected"), NEXT)
def test_next_time_is_that_of_the_go_library(schedule: str, after: str, expected: str | None) -> None:
    """Across ends of hours, days, months and years, and across daylight saving changes."""
    assert next_time(parse_schedule(schedule), at(after)) == (None if expected is None else at(expected))


FIELDS = st.sampled_from(["* * * * *", "*/7 */5 * * *", "3 4 5 * *", "0 12 * 2,6 *", "30 6-16/4 * * 1-5", "0 0 13 * 5"])
ZONES = st.sampled_from(["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo"])


@settings(max_examples=60)
@given(text=FIELDS, zone=ZONES, minutes=st.integers(0, 3 * 366 * 1440), seconds=st.integers(0, 59))
def test_next_time_is_the_first_one_that_matches(text: str, zone: str, minutes: int, seconds: int) -> None:
    """The time is after the given one, matches every field, and no minute of the two hours before it matches."""
    schedule, place = parse_schedule(f"TZ={zone} {text}"), ZoneInfo(zone)
    after = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes, seconds=seconds)
    found = next_time(schedule, after)
    assert found is not None
    assert isinstance(schedule, CalendarSchedule)

    def is_due(moment: datetime) -> bool:
        shown = moment.astimezone(place)
        by_month, by_week = shown.day in schedule.days, shown.isoweekday() % 7 in schedule.weekdays
        day = (by_month and by_week) if schedule.needs_both_days else (by_month or by_week)
        return (
            day and shown.month in schedule.months and shown.hour in schedule.hours and shown.minute in schedule.minutes
        )

    assert found > after
    assert found.second == 0
    assert is_due(found)
    earlier = (found - timedelta(minutes=back) for back in range(1, 121))
    assert not any(is_due(moment) for moment in earlier if moment > after)


def test_schedule_without_a_zone_uses_the_local_zone() -> None:
    """A schedule with an unknown zone is never due."""
    schedule = parse_schedule("0 0 * * *")
    east = timezone(timedelta(hours=2))
    assert next_time(schedule, at("2026-01-01T00:00:00Z"), east) == at("2026-01-01T22:00:00Z")
    assert next_time(parse_schedule("TZ=Local 0 0 * * *"), at("2026-01-01T00:00:00Z"), east) == at(
        "2026-01-01T22:00:00Z"
    )
    assert isinstance(schedule, CalendarSchedule)
    unknown = replace(schedule, zone="Not/There")
    assert next_time(unknown, at("2026-01-01T00:00:00Z")) is None


def test_time_zones_are_found_by_name() -> None:
    """An empty name and UTC mean UTC; an unknown or malformed name yields None."""
    assert time_zone("") is time_zone("UTC") is UTC
    assert time_zone("Europe/Berlin") == ZoneInfo("Europe/Berlin")
    assert time_zone("Mars/Olympus") is time_zone("../etc") is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h30m", 5400), ("1.5s", 1), ("0", 1), ("-5m", 1), ("1500ms", 1), (".5h", 1800)]
)
def test_interval_has_whole_seconds(text: str, seconds: int) -> None:
    """@every is cut to whole seconds, with a minimum of one second."""
    assert parse_schedule(f"@every {text}") == IntervalSchedule(seconds)


def test_interval_longer_than_go_can_count_is_refused() -> None:
    problem = 'failed to parse duration @every 9999999h: time: invalid duration "9999999h"'
    assert schedule_problem("@every 9999999h") == problem
