"""Durations in the format of Go."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.times import format_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (10, "10s"),
        (80, "1m20s"),
        (300, "5m0s"),
        (3600, "1h0m0s"),
        (90061.5, "25h1m1.5s"),
        (1.234, "1.234s"),
        (0.15, "150ms"),
        (0.0015, "1.5ms"),
        (0.000002, "2µs"),
        (0.000000003, "3ns"),
        (-80, "-1m20s"),
        (1e-12, "0s"),
    ],
)
def test_duration_reads_as_in_go(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 10**7))
def test_duration_adds_up(seconds: int) -> None:
    parts = re.fullmatch("(?:([0-9]+)h)?(?:([0-9]+)m)?([0-9]+)s", format_duration(seconds))
    assert parts is not None
    hours, minutes, rest = (int(part or 0) for part in parts.groups())
    assert hours * 3600 + minutes * 60 + rest == seconds
