"""Whether a text names a time zone, and which.

The names are those of the machine's time zone database, which is looked at once per name. Where a machine has none,
every name of the right form counts as known.

Upstream: validateTimeZone in pkg/apis/batch/validation/validation.go; the Go function time.LoadLocation
"""

import re
import zoneinfo
from datetime import UTC, tzinfo
from functools import lru_cache

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
