"""Sets of completion indexes, stored as ranges because a job may have a hundred million.

Reads and writes the API's text form, `0,2-5`.

Upstream: pkg/controller/job/indexed_job_utils.go
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from pykubelet.api.quantity import parse_int64

Range = tuple[int, int]
"""First and last index, inclusive."""


@dataclass(frozen=True, slots=True)
class IndexSet:
    """A set of indexes as sorted, non-adjacent ranges."""

    ranges: tuple[Range, ...] = ()

    @property
    def total(self) -> int:
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
        """The first `count` indexes not in the set; costs O(ranges + count)."""
        return tuple(islice(self._gaps(below), count))

    def _gaps(self, below: int) -> Iterable[int]:
        candidate = 0
        for first, last in self.ranges:
            yield from range(candidate, min(first, below))
            candidate = max(candidate, last + 1)
        yield from range(candidate, below)


def index_set(indexes: Iterable[int]) -> IndexSet:
    return _joined(sorted((index, index) for index in indexes))


def parse_indexes(text: str, completions: int) -> IndexSet:
    """Parses the text form; skips malformed parts and cuts off at `completions`."""
    found: list[Range] = []
    for part in text.split(",") if text else ():
        first, *rest = (parse_int64(limit) for limit in part.split("-"))
        last = rest[0] if rest else first
        if first is not None and last is not None and first <= last and first < completions:
            found.append((first, min(last, completions - 1)))
    return _joined(sorted(found))


def _joined(ranges: Iterable[Range]) -> IndexSet:
    """Merges overlapping and adjacent ranges; they come sorted by first index."""
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
