"""The parts of moments and of lengths of time.

Upstream: common/stdlib/standard.go (with UTC as the zone of all that name none) of github.com/google/cel-go

Moments and lengths of time as text: RFC 3339, and durations as Go writes them.

In: text. Out: the value, or ValueError. And back.

Upstream: time.Parse and time.ParseDuration of Go's standard library,
vendor/k8s.io/kube-openapi/pkg/validation/strfmt/{duration,time}.go
"""

import re
import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, Final

from pykubelet.api.int64 import MAX_INT64
from pykubelet.api.times import is_time_zone
from pykubelet.apiserver.apiextensions.cel.values import NANOSECONDS, CelError, Duration, Timestamp

MIN_SECONDS: Final = -62_135_596_800
"""The beginning of the year 1, in seconds since 1970."""
MAX_SECONDS: Final = 253_402_300_799
"""The end of the year 9999."""
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": NANOSECONDS,
    "m": 60 * NANOSECONDS,
    "h": 3600 * NANOSECONDS,
}
_PIECE = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"([+-]?)(?:0|(?:{_PIECE})+)", re.ASCII)
_PIECES = re.compile(_PIECE, re.ASCII)
_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:[.,](\d+))?([Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_DAY = 24 * 3600 * NANOSECONDS
# How people write units, the last of each line also as the beginning of a word.
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
    """A moment before the year 1 or after the year 9999."""


def read_duration(text: str) -> Duration:
    """The duration that a text like `1h2m3.5s` stands for."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f'time: invalid duration "{text}"')
    total = sum(int(Decimal(number) * _UNITS[unit]) for number, unit in _PIECES.findall(text))
    # The most negative number has no positive twin.
    if total > MAX_INT64 + (match[1] == "-"):
        raise ValueError(f'time: invalid duration "{text}"')
    return Duration(-total if match[1] == "-" else total)


def read_loose_duration(text: str) -> Duration:
    """The same, and `2 days` and the like too."""
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
    """The duration in seconds, as CEL shows it: `3600s`, `0.5s`."""
    seconds = duration.nanoseconds / NANOSECONDS
    return f"{format(Decimal(repr(seconds)), 'f').removesuffix('.0')}s"


def read_timestamp(text: str) -> Timestamp:
    """The moment that a text of RFC 3339 stands for; digits beyond nine are cut."""
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
    """The moment at which a day begins."""
    return read_timestamp(f"{text}T00:00:00Z")


def as_datetime(timestamp: Timestamp, zone: tzinfo | None = None) -> datetime:
    """The moment in a zone, to the microsecond; in the one it was given in if none is named."""
    shown = zone or timezone(timedelta(seconds=timestamp.offset_seconds))
    try:
        return (_EPOCH + timedelta(microseconds=timestamp.nanoseconds // 1000)).astimezone(shown)
    except OverflowError:
        raise CelError("timestamp overflow") from None


def timestamp_text(timestamp: Timestamp) -> str:
    """The moment as RFC 3339 with as many digits as it needs."""
    at = as_datetime(timestamp)
    fraction = f"{timestamp.nanoseconds % NANOSECONDS:09d}".rstrip("0")
    zone = "Z" if not timestamp.offset_seconds else at.strftime("%z")
    zone = zone if zone == "Z" else f"{zone[:3]}:{zone[3:5]}"
    whole = at.replace(tzinfo=None, microsecond=0).isoformat()
    return f"{whole}.{fraction}{zone}" if fraction else f"{whole}{zone}"


_OFFSET = re.compile(r"([+-]?)(\d{1,2}):(\d{1,2})", re.ASCII)
_TIMES_DAY = timedelta(days=1)
_MILLISECOND = 1_000_000
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
_LENGTHS = {
    "getHours": 3600 * NANOSECONDS,
    "getMinutes": 60 * NANOSECONDS,
    "getSeconds": NANOSECONDS,
    "getMilliseconds": _MILLISECOND,
}


def _zone(name: str) -> tzinfo:
    """A zone by its name in the database, or by its distance from UTC."""
    if ":" in name:
        match = _OFFSET.fullmatch(name)
        offset = timedelta(hours=int(match[2]), minutes=int(match[3])) if match else _TIMES_DAY
        if match is None or offset >= _TIMES_DAY:
            raise CelError(f'strconv.Atoi: parsing "{name}": invalid syntax')
        return timezone(-offset if match[1] == "-" else offset)
    if name in {"", "UTC", "Local"}:
        return UTC
    if not is_time_zone(name):
        raise CelError(f"unknown time zone {name}")
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


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
    *((f"(duration).{name}() -> int", _length(unit)) for name, unit in _LENGTHS.items()),
)
