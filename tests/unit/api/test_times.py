"""RFC 3339 times: the two formats of Kubernetes, and comparison of instants."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api import times

AT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_time_has_seconds_and_micro_time_six_digits() -> None:
    """API servers reject a MicroTime without six digits."""
    assert times.format_time(AT) == "2026-01-02T03:04:05Z"
    assert times.format_micro_time(AT.replace(microsecond=0)) == "2026-01-02T03:04:05.000000Z"
    assert times.format_time(AT.astimezone(timezone(timedelta(hours=8)))) == "2026-01-02T03:04:05Z"


@given(st.datetimes(min_value=datetime(1970, 1, 2), timezones=st.just(UTC)))
def test_micro_time_survives_a_round_trip(at: datetime) -> None:
    """nanoseconds() agrees with the parsed time."""
    text = times.format_micro_time(at)
    assert times.parse_time(text) == at
    assert times.nanoseconds(text) == (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def test_truncation_drops_only_the_fraction() -> None:
    """The zone stays, and a time without a fraction is unchanged."""
    assert times.truncate_to_seconds("2026-01-02T03:04:05.123456789+08:00") == "2026-01-02T03:04:05+08:00"
    assert times.truncate_to_seconds("2026-01-02T03:04:05Z") == "2026-01-02T03:04:05Z"
    assert times.truncate_to_seconds(None) is None


def test_same_instant_ignores_zone_and_trailing_zeros() -> None:
    """All nine digits of the fraction count."""
    assert times.same_instant("2026-01-02T03:04:05Z", "2026-01-02T11:04:05.000+08:00")
    assert not times.same_instant("2026-01-02T03:04:05.000000001Z", "2026-01-02T03:04:05Z")
    assert times.same_instant(None, None)
    assert not times.same_instant(None, "2026-01-02T03:04:05Z")


@pytest.mark.parametrize("text", ["", "now", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02T03:04:05.1234567890Z"])
def test_text_that_is_not_rfc3339_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not an RFC 3339 time"):
        times.parse_time(text)
    with pytest.raises(ValueError, match="not an RFC 3339 time"):
        times.nanoseconds(text)
