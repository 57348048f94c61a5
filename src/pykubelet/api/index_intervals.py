"""Sets of a job's indexes as text: increasing numbers and ranges such as `1,3-5,7`.

In: the text and the number of completions, which every index must be below. Out: what they hold; IndexesError with
Kubernetes' own message if the text is something else.

Upstream: validateIndexesFormat, parseIndexInterval and validateFailedIndexesNotOverlapCompleted in
pkg/apis/batch/validation/validation.go
"""

from pykubelet.api.int64 import parse_int64
from pykubelet.api.validation.field_errors import go_quote

Interval = tuple[int, int]


class IndexesError(ValueError):
    """The text is no set of indexes; the message is Kubernetes' own."""


def indexes_count(text: str, completions: int) -> int:
    """How many indexes the text names; IndexesError if it is none, or not in order."""
    total, last = 0, -1
    for number, part in enumerate(text.split(",") if text else ()):
        first, end = _interval(part, completions)
        if number and last >= first:
            raise IndexesError(f"non-increasing order, previous: {last}, current: {first}")
        total += end - first + 1
        last = end
    return total


def overlap(one: str, other: str, completions: int) -> int | None:
    """The first index that both sets name; parts that are none are passed over."""
    ours, theirs = _good_intervals(one, completions), _good_intervals(other, completions)
    left, right = 0, 0
    while left < len(ours) and right < len(theirs):
        (first, end), (other_first, other_end) = ours[left], theirs[right]
        if first <= other_end and other_first <= end:
            return max(first, other_first)
        if first <= other_first:
            left += 1
        else:
            right += 1
    return None


def _good_intervals(text: str, completions: int) -> list[Interval]:
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        try:
            found.append(_interval(part, completions))
        except IndexesError:
            continue
    return found


def _interval(part: str, completions: int) -> Interval:
    limits = part.split("-")
    if len(limits) > 2:
        raise IndexesError(
            f"the fragment {go_quote(part)} violates the requirement that an index interval can have at most two parts separated by '-'"
        )
    first, *rest = (_index(limit, completions) for limit in limits)
    if not rest:
        return first, first
    if first >= rest[0]:
        raise IndexesError(f"non-increasing order, previous: {first}, current: {rest[0]}")
    return first, rest[0]


def _index(text: str, completions: int) -> int:
    number = parse_int64(text)
    if number is None:
        raise IndexesError(f"cannot convert string to integer for index: {go_quote(text)}")
    if number >= completions:
        raise IndexesError(f"too large index: {go_quote(text)}")
    return number
