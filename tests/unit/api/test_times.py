"""RFC 3339 times: the two forms Kubernetes writes, and instants compared."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api import times

AT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_time_has_seconds_and_micro_time_six_digits() -> None:
    """A MicroTime without its six digits is refused by API servers."""
    assert times.format_time(AT) == "2026-01-02T03:04:05Z"
    assert times.format_micro_time(AT.replace(microsecond=0)) == "2026-01-02T03:04:05.000000Z"
    assert times.format_time(AT.astimezone(timezone(timedelta(hours=8)))) == "2026-01-02T03:04:05Z"


@given(st.datetimes(min_value=datetime(1970, 1, 2), timezones=st.just(UTC)))
def test_micro_time_survives_a_round_trip(at: datetime) -> None:
    """What was written is read back, and nanoseconds agree with it."""
    text = times.format_micro_time(at)
    assert times.parse_time(text) == at
    assert times.nanoseconds(text) == (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def test_truncation_drops_only_the_fraction() -> None:
    """The zone stays, and what has no fraction is untouched."""
    assert times.truncate_to_seconds("2026-01-02T03:04:05.123456789+08:00") == "2026-01-02T03:04:05+08:00"
    assert times.truncate_to_seconds("2026-01-02T03:04:05Z") == "2026-01-02T03:04:05Z"
    assert times.truncate_to_seconds(None) is None


def test_same_instant_ignores_zone_and_trailing_zeros() -> None:
    """Instants are compared, not spellings; all nine digits count."""
    assert times.same_instant("2026-01-02T03:04:05Z", "2026-01-02T11:04:05.000+08:00")
    assert not times.same_instant("2026-01-02T03:04:05.000000001Z", "2026-01-02T03:04:05Z")
    assert times.same_instant(None, None)
    assert not times.same_instant(None, "2026-01-02T03:04:05Z")


@pytest.mark.parametrize("text", ["", "now", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02T03:04:05.1234567890Z"])
def test_other_text_is_refused(text: str) -> None:
    """No guessing."""
    with pytest.raises(ValueError, match="not an RFC 3339 time"):
        times.parse_time(text)
    with pytest.raises(ValueError, match="not an RFC 3339 time"):
        times.nanoseconds(text)
