"""Cron schedules: parsing and the next time a schedule is due.

Accepts five fields of numbers, names, ranges and steps, or descriptors such as `@daily` and `@every 1h`; errors have
the messages of the Go library. In an hour that daylight saving skips nothing is due; in a repeated hour a schedule is
due twice.

Upstream: vendor/github.com/robfig/cron/v3/parser.go, vendor/github.com/robfig/cron/v3/spec.go,
vendor/github.com/robfig/cron/v3/constantdelay.go
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple, TypeAlias

from pykubelet.api.field_errors import go_quote
from pykubelet.api.quantity import MAX_INT64, int64_problem, parse_int64
from pykubelet.api.times import DURATION_UNITS, is_time_zone, time_zone

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# More hours, minutes or nanoseconds than a Go duration holds.
_MAX_DURATION_DIGITS = 20
_DURATION_PART = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)")


class _Bounds(NamedTuple):
    low: int
    high: int
    names: tuple[str, ...] = ()


_FIELDS = (_Bounds(0, 59), _Bounds(0, 23), _Bounds(1, 31), _Bounds(1, 12, _MONTHS), _Bounds(0, 6, _DAYS))


class ScheduleError(ValueError):
    """The text is not a schedule; the message is the Go library's."""


@dataclass(frozen=True, slots=True)
class CalendarSchedule:
    """Due when the wall clock shows a matching minute, hour, day and month."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Sunday is 0."""
    needs_both_days: bool
    """Whether day of month and day of week must both match; otherwise either suffices. True if one of them is `*`."""
    zone: str | None = None
    """The time zone; None is the machine's own."""


@dataclass(frozen=True, slots=True)
class IntervalSchedule:
    """Due a fixed time after the previous run."""

    seconds: int


Schedule: TypeAlias = CalendarSchedule | IntervalSchedule


def schedule_problem(text: str) -> str | None:
    """Returns the error message for an invalid schedule; None if valid."""
    try:
        parse_schedule(text)
    except ScheduleError as error:
        return str(error)
    return None


def parse_schedule(text: str) -> Schedule:
    """Parses a schedule; raises ScheduleError."""
    if not text:
        raise ScheduleError("empty spec string")
    zone = None
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, _, text = text.partition("=")[2].partition(" ")
        if not is_time_zone(zone):
            raise ScheduleError(f"provided bad location {zone}: unknown time zone {zone}")
        text = text.strip()
    if text.startswith(_EVERY):
        return _interval(text)
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    read = [_field(field, bounds) for field, bounds in zip(fields, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = (numbers for numbers, _ in read)
    return CalendarSchedule(minutes, hours, days, months, weekdays, read[2][1] or read[4][1], zone)


def _interval(text: str) -> IntervalSchedule:
    try:
        nanoseconds = _duration(text.removeprefix(_EVERY))
    except ScheduleError as error:
        raise ScheduleError(f"failed to parse duration {text}: {error}") from error
    return IntervalSchedule(max(1, nanoseconds // DURATION_UNITS["s"]))


def _field(text: str, bounds: _Bounds) -> tuple[frozenset[int], bool]:
    """Returns the numbers of a field, and whether it is a `*` without a step."""
    ranges = [_range(part, bounds) for part in filter(None, text.split(","))]
    return frozenset(number for numbers, _ in ranges for number in numbers), any(is_open for _, is_open in ranges)


def _range(part: str, bounds: _Bounds) -> tuple[range, bool]:
    span, *steps = part.split("/")
    limits = span.split("-")
    is_star = limits[0] in {"*", "?"}
    if is_star:
        start, end = bounds.low, bounds.high
    else:
        start = _number(limits[0], bounds)
        if len(limits) > 2:
            raise ScheduleError(f"too many hyphens: {part}")
        end = _number(limits[1], bounds) if len(limits) == 2 else start
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {part}")
    step = _plain_number(steps[0]) if steps else 1
    # A single number with a step means: from this number on.
    if steps and len(limits) == 1:
        end = bounds.high
    if start < bounds.low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({bounds.low}): {part}")
    if end > bounds.high:
        raise ScheduleError(f"end of range ({end}) above maximum ({bounds.high}): {part}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {part}")
    return range(start, end + 1, step), is_star and step == 1


def _number(text: str, bounds: _Bounds) -> int:
    lower = text.lower()
    if lower in bounds.names:
        return bounds.names.index(lower) + bounds.low
    return _plain_number(text)


def _plain_number(text: str) -> int:
    number = parse_int64(text)
    if number is None:
        problem = int64_problem(text).replace("strconv.ParseInt", "strconv.Atoi")
        raise ScheduleError(f"failed to parse int from {text}: {problem}")
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number


def _duration(text: str) -> int:
    """Parses a duration like Go's time.ParseDuration; raises ScheduleError with Go's message."""
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return 0
    wrong, total = f"time: invalid duration {go_quote(text)}", 0
    if not rest:
        raise ScheduleError(wrong)
    while rest:
        match = _DURATION_PART.match(rest)
        assert match is not None
        whole, fraction, unit = match.groups(default="")
        if not whole and fraction in {"", "."}:
            raise ScheduleError(wrong)
        if not unit:
            raise ScheduleError(f"time: missing unit in duration {go_quote(text)}")
        if unit not in DURATION_UNITS:
            raise ScheduleError(f"time: unknown unit {go_quote(unit)} in duration {go_quote(text)}")
        # Python refuses to convert thousands of digits; so many hours do not fit either, and such a fraction is nothing.
        whole, digits = whole.lstrip("0"), fraction[1:19]
        if len(whole) > _MAX_DURATION_DIGITS:
            raise ScheduleError(wrong)
        total += int(whole + digits or "0") * DURATION_UNITS[unit] // 10 ** len(digits)
        if total > MAX_INT64:
            raise ScheduleError(wrong)
        rest = rest[match.end() :]
    return -total if text.startswith("-") else total


# If no day matches for so many years, none ever will (31 February, for example).
_YEARS = 5


def next_time(schedule: Schedule, after: datetime, local: tzinfo = UTC) -> datetime | None:
    """Returns the first time after `after`, in UTC; None if there is none or the time zone is unknown.

    `local` is the time zone of schedules that name none.
    """
    whole = after.astimezone(UTC).replace(microsecond=0)
    if isinstance(schedule, IntervalSchedule):
        return whole + timedelta(seconds=schedule.seconds)
    zone = local if schedule.zone in {None, "Local"} else time_zone(schedule.zone or "")
    return None if zone is None else _next_on_calendar(schedule, whole + timedelta(seconds=1), zone)


def _next_on_calendar(schedule: CalendarSchedule, at: datetime, zone: tzinfo) -> datetime | None:
    """Returns the first match from `at` on; fields are advanced from the largest to the smallest."""
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
