"""Many times as few numbers."""

import statistics
from collections.abc import Iterable


def spread(seconds: Iterable[float]) -> dict[str, float]:
    """What is usual and what is worst; with fewer than a hundred, p99 is the worst."""
    times = sorted(seconds)
    return {
        "p50": round(statistics.median(times), 4),
        "p99": round(times[int(len(times) * 0.99)], 4),
        "max": round(times[-1], 4),
        "n": len(times),
    }
