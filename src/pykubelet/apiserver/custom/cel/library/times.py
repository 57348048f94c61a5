"""The parts of moments and of lengths of time.

Upstream: common/stdlib/standard.go (with UTC as the zone of all that name none) of github.com/google/cel-go
"""

import re
import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

from pykubelet.api.time_zones import is_time_zone
from pykubelet.apiserver.custom.cel.faults import CelError
from pykubelet.apiserver.custom.cel.time_texts import as_datetime
from pykubelet.apiserver.custom.cel.values import NANOSECONDS, Duration, Timestamp

_OFFSET = re.compile(r"([+-]?)(\d{1,2}):(\d{1,2})", re.ASCII)
_DAY = timedelta(days=1)
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
        offset = timedelta(hours=int(match[2]), minutes=int(match[3])) if match else _DAY
        if match is None or offset >= _DAY:
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
