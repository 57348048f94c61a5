"""IndexSet behaves like a set of numbers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.controllers.job.indexes import IndexSet, index_set, parse_indexes

NUMBERS = st.sets(st.integers(0, 40), max_size=25)


def numbers_of(found: IndexSet) -> set[int]:
    return {number for first, last in found.ranges for number in range(first, last + 1)}


@settings(max_examples=100)
@given(ours=NUMBERS, theirs=NUMBERS, completions=st.integers(0, 45), count=st.integers(0, 10))
def test_index_set_is_a_set(ours: set[int], theirs: set[int], completions: int, count: int) -> None:
    """The text form is parsed back to the same set, cut off at the completions."""
    one, other = index_set(ours), index_set(theirs)
    assert numbers_of(one) == ours
    assert one.total == len(ours)
    assert numbers_of(one | other) == ours | theirs
    assert one.common(other) == other.common(one) == len(ours & theirs)
    assert {number for number in range(45) if number in one} == ours
    assert "0" not in one
    gaps = [number for number in range(completions) if number not in ours][:count]
    assert list(one.missing(count, completions)) == gaps
    assert numbers_of(parse_indexes(str(one), completions)) == {number for number in ours if number < completions}


@given(st.text("0123456789-,x", max_size=20))
def test_any_text_gives_a_set_in_order(text: str) -> None:
    """Users can write this text, so invalid text must not fail."""
    found = parse_indexes(text, 100)
    ends = [end for span in found.ranges for end in span]
    assert ends == sorted(ends)
    assert all(first <= last < 100 for first, last in found.ranges)
    assert parse_indexes(str(found), 100) == found


def test_huge_ranges_cost_nothing() -> None:
    """A hundred million indexes are one range."""
    found = parse_indexes("0-99999999", 10**9)
    assert (found.total, found.missing(2, 10**9)) == (10**8, (10**8, 10**8 + 1))
