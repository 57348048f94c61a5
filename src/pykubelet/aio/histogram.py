"""Counts how long things took, in buckets, for pages of metrics; cheap to record.

Pure. Upstream: github.com/prometheus/client_golang (histogram.go)
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

USUAL_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""What Prometheus takes unless it is told otherwise, in seconds."""


class Histogram:
    """One series."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = USUAL_BOUNDS) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """How many fell between a bound and the one before."""
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Something took so long."""
        self.sum += seconds
        self.counts[bisect_left(self._bounds, seconds)] += 1

    def add(self, other: "Histogram") -> None:
        """All that another one with the same bounds has counted."""
        self.sum += other.sum
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """How many took at most how long, as Prometheus wants to have it."""
        names = (*map(str, map(float, self._bounds)), "+Inf")
        return [*zip(names, map(float, accumulate(self.counts)), strict=True)]
