"""Sets of completion indexes, kept as ranges: a job may have a hundred million.

Pure. In and out: the text form of the API, `0,2-5`. Upstream: orderedIntervals in
pkg/controller/job/indexed_job_utils.go.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from pykubelet.api.int64 import parse_int64

Range = tuple[int, int]
"""First and last index."""


@dataclass(frozen=True, slots=True)
class IndexSet:
    """Indexes; its ranges are in order and do not touch each other."""

    ranges: tuple[Range, ...] = ()

    @property
    def total(self) -> int:
        """How many indexes it has."""
        return sum(last - first + 1 for first, last in self.ranges)

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            return False
        at = bisect_left(self.ranges, index, key=lambda one: one[1])
        return at < len(self.ranges) and self.ranges[at][0] <= index

    def __or__(self, other: "IndexSet") -> "IndexSet":
        return _joined(sorted((*self.ranges, *other.ranges)))

    def __str__(self) -> str:
        return ",".join(_shown(first, last) for first, last in self.ranges)

    def common(self, other: "IndexSet") -> int:
        """How many indexes both have."""
        ours, theirs, total = 0, 0, 0
        while ours < len(self.ranges) and theirs < len(other.ranges):
            (first, last), (other_first, other_last) = self.ranges[ours], other.ranges[theirs]
            total += max(0, min(last, other_last) - max(first, other_first) + 1)
            if last <= other_last:
                ours += 1
            if other_last <= last:
                theirs += 1
        return total

    def missing(self, count: int, below: int) -> tuple[int, ...]:
        """The first so many indexes that it does not have; the cost grows with its ranges and the count only."""
        return tuple(islice(self._gaps(below), count))

    def _gaps(self, below: int) -> Iterable[int]:
        candidate = 0
        for first, last in self.ranges:
            yield from range(candidate, min(first, below))
            candidate = max(candidate, last + 1)
        yield from range(candidate, below)


def index_set(indexes: Iterable[int]) -> IndexSet:
    """The set of these indexes."""
    return _joined(sorted((index, index) for index in indexes))


def parse_indexes(text: str, completions: int) -> IndexSet:
    """Read the text form; what is no range is passed over, what is not below `completions` is cut off."""
    found: list[Range] = []
    for part in text.split(",") if text else ():
        first, *rest = (parse_int64(limit) for limit in part.split("-"))
        last = rest[0] if rest else first
        if first is not None and last is not None and first <= last and first < completions:
            found.append((first, min(last, completions - 1)))
    return _joined(sorted(found))


def _joined(ranges: Iterable[Range]) -> IndexSet:
    """Make one of ranges that overlap or touch; they come in order of their first index."""
    joined: list[Range] = []
    for first, last in ranges:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return IndexSet(tuple(joined))


def _shown(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
