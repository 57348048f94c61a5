"""Durations as people type them."""

import click
import pytest

from pykubelet.cli.client_command import whole_seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1m30s", 90), ("2h", 7200), ("1h1s", 3601), ("0", 0), ("0s", 0)]
)
def test_duration_is_read_in_hours_minutes_and_seconds(text: str, seconds: int) -> None:
    """Largest unit first; nothing needs no unit."""
    assert whole_seconds(None, None, text) == seconds


@pytest.mark.parametrize("text", ["", "30", "s", "-1s", "1s1m", "1.5s", "a"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """With a word about how it should look."""
    with pytest.raises(click.BadParameter, match="such as 30s"):
        whole_seconds(None, None, text)
