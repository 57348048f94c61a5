"""RFC 3339 times, time zones, Go durations and human-readable ages.

Structs keep times as text: no conversion cost, no lost digits, and `Time` (whole seconds) stays distinct from
`MicroTime` (exactly six digits, or the API server rejects it). Time zone names come from the machine's database, read
once per name; without a database every well-formed name counts as known.

Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/time.go,
staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/micro_time.go,
staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go
"""

import re
import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

# The fields of type MicroTime; the published schemas give both types the same format.
MICRO_TIME_FIELDS = frozenset({"eventTime", "lastObservedTime", "renewTime", "acquireTime"})
_MICRO = re.compile(r"[^.]*\.\d{6}[Zz+-].*")
_FRACTION = re.compile(r"\.\d+")
_PARTS = re.compile(r"(\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})")


def format_time(at: datetime) -> str:
    """Formats a `Time`: 2026-01-02T03:04:05Z, whole seconds."""
    return f"{at.astimezone(UTC).isoformat(timespec='seconds')[:-6]}Z"


def format_micro_time(at: datetime) -> str:
    """Formats a `MicroTime`: 2026-01-02T03:04:05.000006Z, always six digits."""
    return f"{at.astimezone(UTC).isoformat(timespec='microseconds')[:-6]}Z"


def has_micro_form(text: str) -> bool:
    """Whether the text has exactly six fractional digits, as a `MicroTime` must."""
    return _MICRO.fullmatch(text) is not None


def truncate_to_seconds(text: str | None) -> str | None:
    """Removes the fraction of a second, as the API server does when it stores a `Time`."""
    return _FRACTION.sub("", text) if text and "." in text else text


def parse_time(text: str) -> datetime:
    """Parses RFC 3339 into an aware datetime, truncated to microseconds; raises ValueError."""
    match = _PARTS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    whole, fraction, zone = match.groups()
    micros = (fraction or "0").ljust(6, "0")[:6]
    return datetime.fromisoformat(f"{whole.upper()}.{micros}{'+00:00' if zone in 'Zz' else zone}")


def nanoseconds(text: str) -> int:
    """Returns the nanoseconds since 1970 of an RFC 3339 time, with all nine digits."""
    match = _PARTS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    since = parse_time(text).replace(microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(seconds=1) * 1_000_000_000 + int((match[2] or "0").ljust(9, "0"))


def from_nanoseconds(since_1970: int) -> datetime:
    """Converts nanoseconds since 1970 to a time in UTC with microseconds."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since_1970 // 1000)


MAX_DURATION_SECONDS = (2**63 - 1) // 10**9
"""292 years, the longest `time.Duration` of Go. Longer periods, which Go lets overflow, count as this long."""
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def seconds_after(at: datetime, seconds: float) -> datetime:
    """The time some seconds after another, or before it if they are negative; any number of seconds is accepted."""
    try:
        return at + timedelta(seconds=min(max(seconds, -MAX_DURATION_SECONDS), MAX_DURATION_SECONDS))
    except OverflowError:
        return _FIRST if seconds < 0 else _LAST


def same_instant(left: str | None, right: str | None) -> bool:
    """Whether two times are the same instant in any zone and precision; None equals only None."""
    if left == right:
        return True
    return bool(left and right) and nanoseconds(left or "") == nanoseconds(right or "")


# Go's lenient parsing: one-digit hours, a comma for the decimal point, any number of fractional digits.
_SEEN = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d+))?(Z|([+-])(\d{2}):(\d{2}))", re.ASCII
)
ZERO_TIME = datetime(1, 1, 1, tzinfo=UTC)
"""Go's zero time: the time is unknown."""


def format_seen_time(at: datetime, extra_nanoseconds: int = 0) -> str:
    """Formats the annotation `kubernetes.io/config.seen`: nine digits and the zone, `Z` for UTC.

    A datetime ends at microseconds; `extra_nanoseconds` (0 to 999) are the last three digits.
    """
    zone = at.strftime("%z")
    shown = "Z" if at.utcoffset() == timedelta(0) else f"{zone[:3]}:{zone[3:5]}"
    return f"{at.replace(tzinfo=None).isoformat(timespec='microseconds')}{extra_nanoseconds:03d}{shown}"


def parse_seen_time(text: str) -> tuple[datetime, int]:
    """Parses what `format_seen_time` writes; fewer digits are accepted, and an invalid text gives the zero time."""
    match = _SEEN.fullmatch(text)
    if match is None:
        return ZERO_TIME, 0
    *date_and_time, fraction, zone, sign, hours, minutes = match.groups()
    digits = (fraction or "").ljust(9, "0")
    year, month, day, hour, minute, second = map(int, date_and_time)
    try:
        offset = timedelta(0) if zone == "Z" else timedelta(hours=int(hours), minutes=int(minutes))
        at_zone = UTC if not offset else timezone(-offset if sign == "-" else offset)
        at = datetime(year, month, day, hour, minute, second, int(digits[:6]), tzinfo=at_zone)
    except ValueError:
        return ZERO_TIME, 0
    return at, int(digits[6:9])


Age = Callable[[str | None], str]
"""Formats how long ago a time of an object was."""

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


def ages_at(now: datetime) -> Age:
    """Returns a function that formats the age of a time at `now`; a missing time is `<unknown>`."""

    def age(text: str | None) -> str:
        if not text:
            return UNKNOWN
        try:
            return human_duration((now - parse_time(text)).total_seconds())
        except (ValueError, TypeError):
            return INVALID

    return age


def human_duration(seconds: float) -> str:
    """Formats a duration like kubectl: 45s, 3m20s, 5h, 12d, 2y40d. Tolerates clock skew of about a second."""
    whole = int(seconds)
    if whole < -1:
        return INVALID
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(seconds: int, large: int, large_sign: str, small: int, small_sign: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{large_sign}" + (f"{rest}{small_sign}" if rest else "")


_NANOSECONDS = 1_000_000_000
DURATION_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": _NANOSECONDS} | {
    "m": 60 * _NANOSECONDS,
    "h": 3600 * _NANOSECONDS,
}
"""Nanoseconds per unit of a Go duration."""
_SMALL_UNITS = ((1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def format_duration(seconds: float) -> str:
    """Formats a duration as Go's `time.Duration` prints it: `1m20s`, `1.234s`, `150ms`."""
    total = round(abs(seconds) * _NANOSECONDS)
    sign = "-" if seconds < 0 and total else ""
    if total == 0:
        return "0s"
    if total < _NANOSECONDS:
        size, unit = next((size, unit) for size, unit in _SMALL_UNITS if total >= size)
        return f"{sign}{_decimal(total, size)}{unit}"
    minutes, rest = divmod(total, 60 * _NANOSECONDS)
    hours, minutes = divmod(minutes, 60)
    shown = f"{hours}h" if hours else ""
    shown += f"{minutes}m" if hours or minutes else ""
    return f"{sign}{shown}{_decimal(rest, _NANOSECONDS)}s"


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    digits = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)


_NAME = re.compile("[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}")
_ALWAYS_KNOWN = frozenset({"", "UTC", "Local"})


def is_time_zone_syntax(name: str) -> bool:
    """Whether each part between slashes has the form of a time zone name."""
    return all(part not in {".", ".."} and _NAME.fullmatch(part) for part in name.split("/"))


def is_time_zone(name: str) -> bool:
    """Whether Go's `time.LoadLocation` would find this time zone."""
    if name in _ALWAYS_KNOWN:
        return True
    return is_time_zone_syntax(name) and (_find(name) is not None or _find("Etc/UTC") is None)


def time_zone(name: str) -> tzinfo | None:
    """Returns the time zone, or None if the machine does not have it."""
    if name in {"", "UTC"}:
        return UTC
    return _find(name) if is_time_zone_syntax(name) else None


@lru_cache(maxsize=1024)
def _find(name: str) -> zoneinfo.ZoneInfo | None:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None
