"""A histogram of durations for Prometheus metrics; recording is cheap."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

USUAL_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Prometheus' default bucket bounds, in seconds."""


class Histogram:
    """One series: a count for each bucket, and the sum."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = USUAL_BOUNDS) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """The observations in each bucket; the last bucket has no upper bound."""
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.sum += seconds
        self.counts[bisect_left(self._bounds, seconds)] += 1

    def add(self, other: "Histogram") -> None:
        """Add the observations of another histogram with the same bounds."""
        self.sum += other.sum
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, in the form of prometheus_client."""
        names = (*map(str, map(float, self._bounds)), "+Inf")
        return [*zip(names, map(float, accumulate(self.counts)), strict=True)]
