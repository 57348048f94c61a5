"""Timestamps and durations: parsing, formatting and their parts.

RFC 3339 and Go's duration format. Timestamps without a zone are in UTC.

Upstream: vendor/github.com/google/cel-go/common/stdlib/standard.go,
vendor/k8s.io/kube-openapi/pkg/validation/strfmt/duration.go, vendor/k8s.io/kube-openapi/pkg/validation/strfmt/time.go
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, Final

from pykubelet.api.cel.values import NANOSECONDS, CelError, Duration, Timestamp
from pykubelet.api.quantity import MAX_INT64
from pykubelet.api.times import DURATION_UNITS, time_zone

MIN_SECONDS: Final = -62_135_596_800
"""The start of the year 1, in seconds since 1970."""
MAX_SECONDS: Final = 253_402_300_799
"""The end of the year 9999, in seconds since 1970."""
_PIECE = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"([+-]?)(?:0|(?:{_PIECE})+)", re.ASCII)
_PIECES = re.compile(_PIECE, re.ASCII)
_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:[.,](\d+))?([Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_DAY = 24 * 3600 * NANOSECONDS
# Unit words; the last of each line also matches as a prefix.
_WORDS = (
    (("ns", "nano"), 1),
    (("us", "µs", "micro"), 1_000),
    (("ms", "milli"), 1_000_000),
    (("s", "sec"), NANOSECONDS),
    (("m", "min"), 60 * NANOSECONDS),
    (("h", "hr", "hour"), 3600 * NANOSECONDS),
    (("d", "day"), _DAY),
    (("w", "wk", "week"), 7 * _DAY),
)
_IN_WORDS = re.compile(r"((\d+)\s*([A-Za-zµ]+))", re.ASCII)


class TimeRangeError(ValueError):
    """The timestamp is before the year 1 or after the year 9999."""


def read_duration(text: str) -> Duration:
    """Parses a duration such as `1h2m3.5s`; raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f'time: invalid duration "{text}"')
    total = sum(int(Decimal(number) * DURATION_UNITS[unit]) for number, unit in _PIECES.findall(text))
    # The most negative number has no positive counterpart.
    if total > MAX_INT64 + (match[1] == "-"):
        raise ValueError(f'time: invalid duration "{text}"')
    return Duration(-total if match[1] == "-" else total)


def read_loose_duration(text: str) -> Duration:
    """Parses a duration, also in words such as `2 days`; raises ValueError."""
    try:
        return read_duration(text)
    except ValueError:
        pass
    total, is_one = 0, False
    for _, number, word in _IN_WORDS.findall(text):
        unit = word.lower()
        for names, size in _WORDS:
            if unit in names or unit.startswith(names[-1]):
                total, is_one = total + int(number[:20]) * size, True
    if not is_one or total > MAX_INT64:
        raise ValueError(f"unable to parse {text} as duration")
    return Duration(total)


def duration_text(duration: Duration) -> str:
    """Formats a duration in seconds as CEL does: `3600s`, `0.5s`."""
    seconds = duration.nanoseconds / NANOSECONDS
    return f"{format(Decimal(repr(seconds)), 'f').removesuffix('.0')}s"


def read_timestamp(text: str) -> Timestamp:
    """Parses an RFC 3339 time, truncated to nanoseconds; raises ValueError."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse')
    offset = timedelta(0)
    if match[5]:
        offset = timedelta(hours=int(match[6]), minutes=int(match[7])) * (-1 if match[5] == "-" else 1)
    at = datetime.fromisoformat(f"{match[1]}T{match[2]}+00:00")
    seconds = (at - _EPOCH) // _SECOND - offset // _SECOND
    nanoseconds = int((match[3] or "0")[:9].ljust(9, "0"))
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise TimeRangeError("timestamp overflow")
    return Timestamp(seconds * NANOSECONDS + nanoseconds, offset // _SECOND)


def read_date(text: str) -> Timestamp:
    """Parses a date as the instant at which it begins."""
    return read_timestamp(f"{text}T00:00:00Z")


def as_datetime(timestamp: Timestamp, zone: tzinfo | None = None) -> datetime:
    """Converts to a datetime in a zone, truncated to microseconds; by default the zone it was given in."""
    shown = zone or timezone(timedelta(seconds=timestamp.offset_seconds))
    try:
        return (_EPOCH + timedelta(microseconds=timestamp.nanoseconds // 1000)).astimezone(shown)
    except OverflowError:
        raise CelError("timestamp overflow") from None


def timestamp_text(timestamp: Timestamp) -> str:
    """Formats as RFC 3339 with as many digits as needed."""
    at = as_datetime(timestamp)
    fraction = f"{timestamp.nanoseconds % NANOSECONDS:09d}".rstrip("0")
    zone = "Z" if not timestamp.offset_seconds else at.strftime("%z")
    zone = zone if zone == "Z" else f"{zone[:3]}:{zone[3:5]}"
    whole = at.replace(tzinfo=None, microsecond=0).isoformat()
    return f"{whole}.{fraction}{zone}" if fraction else f"{whole}{zone}"


_OFFSET = re.compile(r"([+-]?)(\d{1,2}):(\d{1,2})", re.ASCII)
_ONE_DAY = timedelta(days=1)
_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDate": lambda at: at.day,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
    "getMilliseconds": lambda at: at.microsecond // 1000,
}
_LENGTHS = {"getHours": "h", "getMinutes": "m", "getSeconds": "s", "getMilliseconds": "ms"}


def _zone(name: str) -> tzinfo:
    """Returns a time zone by database name or UTC offset."""
    if ":" in name:
        match = _OFFSET.fullmatch(name)
        offset = timedelta(hours=int(match[2]), minutes=int(match[3])) if match else _ONE_DAY
        if match is None or offset >= _ONE_DAY:
            raise CelError(f'strconv.Atoi: parsing "{name}": invalid syntax')
        return timezone(-offset if match[1] == "-" else offset)
    if name in {"", "UTC", "Local"}:
        return UTC
    zone = time_zone(name)
    if zone is None:
        raise CelError(f"unknown time zone {name}")
    return zone


def _part(read: Callable[[datetime], int]) -> Callable[..., int]:
    def part(at: Timestamp, zone: str = "UTC") -> int:
        return read(as_datetime(at, _zone(zone)))

    return part


def _length(unit: int) -> Callable[[Duration], int]:
    def length(duration: Duration) -> int:
        whole = abs(duration.nanoseconds) // unit
        return whole if duration.nanoseconds >= 0 else -whole

    return length


OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    *((f"(timestamp).{name}() -> int", _part(read)) for name, read in _PARTS.items()),
    *((f"(timestamp).{name}(string) -> int", _part(read)) for name, read in _PARTS.items()),
    *((f"(duration).{name}() -> int", _length(DURATION_UNITS[unit])) for name, unit in _LENGTHS.items()),
)
