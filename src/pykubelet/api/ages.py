"""How long ago something was, in few characters: 45s, 3m20s, 5h, 12d, 2y40d.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go
"""

from collections.abc import Callable
from datetime import datetime

from pykubelet.api.times import parse_time

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
