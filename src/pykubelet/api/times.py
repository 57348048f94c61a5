"""RFC 3339 times as Kubernetes writes and reads them.

Structs keep times as text: that loses nothing, costs nothing, and keeps `Time` (whole seconds) and `MicroTime`
(exactly six digits, or the API server refuses it) apart.

Whether a text names a time zone, and which.

The names are those of the machine's time zone database, which is looked at once per name. Where a machine has none,
every name of the right form counts as known.

Upstream: validateTimeZone in pkg/apis/batch/validation/validation.go; the Go function time.LoadLocation

Durations as Go prints them: `1m20s`, `1.234s`, `150ms`. Users know these from messages and events.

Upstream: Duration.String of Go's package time

How long ago something was, in few characters: 45s, 3m20s, 5h, 12d, 2y40d.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go
"""

import re
import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

# The few times that keep microseconds; the published schemas do not tell both kinds apart in a field.
MICRO_TIME_FIELDS = frozenset({"eventTime", "lastObservedTime", "renewTime", "acquireTime"})
_MICRO = re.compile(r"[^.]*\.\d{6}[Zz+-].*")
_FRACTION = re.compile(r"\.\d+")
_PARTS = re.compile(r"(\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})")


def format_time(at: datetime) -> str:
    """2026-01-02T03:04:05Z: the form of `Time`, whole seconds."""
    return f"{at.astimezone(UTC).isoformat(timespec='seconds')[:-6]}Z"


def format_micro_time(at: datetime) -> str:
    """2026-01-02T03:04:05.000006Z: the form of `MicroTime`, always six digits."""
    return f"{at.astimezone(UTC).isoformat(timespec='microseconds')[:-6]}Z"


def has_micro_form(text: str) -> bool:
    """Whether a time has the six digits behind its seconds that a `MicroTime` must have."""
    return _MICRO.fullmatch(text) is not None


def truncate_to_seconds(text: str | None) -> str | None:
    """The same instant without its fraction; what the API server would store."""
    return _FRACTION.sub("", text) if text and "." in text else text


def parse_time(text: str) -> datetime:
    """An aware datetime; digits beyond microseconds are cut. ValueError if it is not RFC 3339."""
    match = _PARTS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    whole, fraction, zone = match.groups()
    micros = (fraction or "0").ljust(6, "0")[:6]
    return datetime.fromisoformat(f"{whole.upper()}.{micros}{'+00:00' if zone in 'Zz' else zone}")


def nanoseconds(text: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 time, all nine digits counted."""
    match = _PARTS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    since = parse_time(text).replace(microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(seconds=1) * 1_000_000_000 + int((match[2] or "0").ljust(9, "0"))


def same_instant(left: str | None, right: str | None) -> bool:
    """Whether two times name the same moment, whatever their zone or digits; None equals only None."""
    if left == right:
        return True
    return bool(left and right) and nanoseconds(left or "") == nanoseconds(right or "")


# Go's lenient reading: hours of one digit, a comma for the point, any number of digits behind it.
_SEEN = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d+))?(Z|([+-])(\d{2}):(\d{2}))", re.ASCII
)
ZERO_TIME = datetime(1, 1, 1, tzinfo=UTC)
"""Go's zero time: stands for a time nobody knows."""


def format_seen_time(at: datetime, extra_nanoseconds: int = 0) -> str:
    """The form of `kubernetes.io/config.seen`: nine digits and the zone, `Z` for UTC.

    A datetime ends at microseconds; `extra_nanoseconds` (0 to 999) are the last three digits.
    """
    zone = at.strftime("%z")
    shown = "Z" if at.utcoffset() == timedelta(0) else f"{zone[:3]}:{zone[3:5]}"
    return f"{at.replace(tzinfo=None).isoformat(timespec='microseconds')}{extra_nanoseconds:03d}{shown}"


def parse_seen_time(text: str) -> tuple[datetime, int]:
    """What `format_seen_time` takes; fewer digits are fine, and text that is no time gives the zero time, no error."""
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
"""Says how long ago a time was that stands in an object."""

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


def ages_at(now: datetime) -> Age:
    """How long before `now` a time was; times that nobody knows are unknown."""

    def age(text: str | None) -> str:
        if not text:
            return UNKNOWN
        try:
            return human_duration((now - parse_time(text)).total_seconds())
        except (ValueError, TypeError):
            return INVALID

    return age


def human_duration(seconds: float) -> str:
    """The two largest units while they are few, then one. Clocks may differ by a second or so."""
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
_SMALL_UNITS = ((1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def format_duration(seconds: float) -> str:
    """The duration in hours, minutes and seconds; below a second in the largest unit that fits."""
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
    """Whether each part between slashes has the form of a name in the database."""
    return all(part not in {".", ".."} and _NAME.fullmatch(part) for part in name.split("/"))


def is_time_zone(name: str) -> bool:
    """Whether Go would find a time zone of this name."""
    if name in _ALWAYS_KNOWN:
        return True
    return is_time_zone_syntax(name) and (_is_known(name) or not _is_known("Etc/UTC"))


def time_zone(name: str) -> tzinfo | None:
    """The time zone of this name, if the machine knows it."""
    if name in {"", "UTC"}:
        return UTC
    return _find(name) if is_time_zone_syntax(name) else None


def _is_known(name: str) -> bool:
    return _find(name) is not None


@lru_cache(maxsize=1024)
def _find(name: str) -> zoneinfo.ZoneInfo | None:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None
