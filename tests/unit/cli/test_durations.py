"""Durations as command line arguments."""

import click
import pytest

from pykubelet.cli.client_command import whole_seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1m30s", 90), ("2h", 7200), ("1h1s", 3601), ("0", 0), ("0s", 0)]
)
def test_duration_is_read_in_hours_minutes_and_seconds(text: str, seconds: int) -> None:
    """The largest unit comes first; 0 needs no unit."""
    assert whole_seconds(None, None, text) == seconds


@pytest.mark.parametrize("text", ["", "30", "s", "-1s", "1s1m", "1.5s", "a"])
def test_invalid_duration_is_rejected(text: str) -> None:
    """The message shows an example."""
    with pytest.raises(click.BadParameter, match="such as 30s"):
        whole_seconds(None, None, text)
