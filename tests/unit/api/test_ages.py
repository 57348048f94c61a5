"""Ages of objects in kubectl's short form."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.times import ages_at, human_duration

_NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
_HOUR, _DAY = 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1.5, "0s"),
        (0, "0s"),
        (1, "1s"),
        (70, "70s"),
        (119.9, "119s"),
        (120, "2m"),
        (190, "3m10s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_700, "178m"),
        (3 * _HOUR, "3h"),
        (7 * _HOUR + 120, "7h2m"),
        (8 * _HOUR + 120, "8h"),
        (47 * _HOUR, "47h"),
        (48 * _HOUR, "2d"),
        (49 * _HOUR, "2d1h"),
        (8 * _DAY, "8d"),
        (700 * _DAY, "700d"),
        (730 * _DAY, "2y"),
        (770 * _DAY, "2y40d"),
        (8 * 365 * _DAY, "8y"),
        (3000 * _DAY, "8y"),
    ],
)
def test_duration_is_short(seconds: float, text: str) -> None:
    """Few minutes, hours, days or years are shown with a second unit, more of them with one unit only."""
    assert human_duration(seconds) == text


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (None, "<unknown>"),
        ("", "<unknown>"),
        ("2026-11-15T11:59:30Z", "30s"),
        ("2026-11-15T12:59:30+01:00", "30s"),
        ("2026-11-15T11:59:30.900000Z", "29s"),
        ("soon", "<invalid>"),
        ("2027-11-15T11:59:30Z", "<invalid>"),
    ],
)
def test_age_is_counted_from_the_time_of_the_object(time: str | None, text: str) -> None:
    """Missing, malformed and future times have their own texts."""
    assert ages_at(_NOW)(time) == text


@given(st.integers(0, 10**10), st.integers(0, 10**10))
def test_longer_durations_never_read_as_shorter(one: int, other: int) -> None:
    """Parsing the texts back preserves the order of the durations."""

    def read(text: str) -> timedelta:
        units = {"s": 1, "m": 60, "h": _HOUR, "d": _DAY, "y": 365 * _DAY}
        total, number = 0, ""
        for char in text:
            if char.isdigit():
                number += char
            else:
                total, number = total + int(number) * units[char], ""
        return timedelta(seconds=total)

    low, high = sorted((one, other))
    assert read(human_duration(low)) <= read(human_duration(high))
    assert read(human_duration(low)) <= timedelta(seconds=low)
