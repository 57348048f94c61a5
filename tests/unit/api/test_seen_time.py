"""The annotation that records when a pod was first seen."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.times import ZERO_TIME, format_seen_time, parse_seen_time

zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=zones), st.integers(0, 999))
def test_seen_time_round_trips(at: datetime, nanoseconds: int) -> None:
    """Nothing is lost, and the fraction always has nine digits."""
    text = format_seen_time(at, nanoseconds)
    assert parse_seen_time(text) == (at, nanoseconds)
    assert format_seen_time(*parse_seen_time(text)) == text
    assert len(text.split(".")[1].rstrip("Z").split("+")[0].split("-")[0]) == 9


@given(st.text(max_size=40))
def test_malformed_time_gives_the_zero_time(text: str) -> None:
    """It never raises an error."""
    at, nanoseconds = parse_seen_time(text)
    assert (at, nanoseconds) == (ZERO_TIME, 0) or text[:4].isdigit()


def test_digits_beyond_nanoseconds_are_cut() -> None:
    """Like Go, the parser also accepts a comma as the decimal point and a one-digit hour."""
    assert parse_seen_time("2026-01-02T3:04:05,1234567899Z") == (datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC), 789)
