"""Summarizes many times in a few numbers."""

import statistics
from collections.abc import Iterable


def spread(seconds: Iterable[float]) -> dict[str, float]:
    """Median, p99 and maximum; with fewer than a hundred times, p99 is the maximum."""
    times = sorted(seconds)
    return {
        "p50": round(statistics.median(times), 4),
        "p99": round(times[int(len(times) * 0.99)], 4),
        "max": round(times[-1], 4),
        "n": len(times),
    }
