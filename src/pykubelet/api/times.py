"""RFC 3339 times as Kubernetes writes and reads them.

Structs keep times as text: that loses nothing, costs nothing, and keeps `Time` (whole seconds) and `MicroTime`
(exactly six digits, or the API server refuses it) apart.
"""

import re
from datetime import UTC, datetime, timedelta, timezone

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
