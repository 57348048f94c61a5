"""Sets of a job's indexes as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kinds.job.validation import IndexesError, indexes_count, overlap


@pytest.mark.parametrize(("text", "count"), [("", 0), ("0", 1), ("0,2-4,9", 5), ("-1", None), ("1-2-3", None)])
def test_indexes_are_counted_when_they_are_valid(text: str, count: int | None) -> None:
    """A text that is not a list of indexes is an error."""
    if count is None:
        with pytest.raises(IndexesError):
            indexes_count(text, 10)
    else:
        assert indexes_count(text, 10) == count


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3,1", "non-increasing order, previous: 3, current: 1"),
        ("3-3", "non-increasing order, previous: 3, current: 3"),
        ("1,1", "non-increasing order, previous: 1, current: 1"),
        ("10", 'too large index: "10"'),
        ("1-10", 'too large index: "10"'),
        ("a", 'cannot convert string to integer for index: "a"'),
        ("1,,2", 'cannot convert string to integer for index: ""'),
        (
            "1-2-3",
            "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
        ),
    ],
)
def test_indexes_are_refused_in_the_words_of_the_api_server(text: str, message: str) -> None:
    """The message names the first wrong part."""
    with pytest.raises(IndexesError) as caught:
        indexes_count(text, 10)
    assert str(caught.value) == message


def _text(numbers: set[int]) -> str:
    """The set as text, with each run of consecutive numbers as one range."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_overlap_is_the_first_common_index(one: set[int], other: set[int]) -> None:
    """The result is that of Python's sets, for either order of the arguments."""
    common = one & other
    assert overlap(_text(one), _text(other), 31) == (min(common) if common else None)
    assert overlap(_text(other), _text(one), 31) == (min(common) if common else None)
    assert indexes_count(_text(one), 31) == len(one)


def test_overlap_passes_over_parts_that_are_no_indexes() -> None:
    """Such parts have errors of their own."""
    assert overlap("x,3", "2-4", 10) == 3
