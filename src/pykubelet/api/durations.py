"""Durations as Go prints them: `1m20s`, `1.234s`, `150ms`. Users know these from messages and events.

Upstream: Duration.String of Go's package time
"""

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
