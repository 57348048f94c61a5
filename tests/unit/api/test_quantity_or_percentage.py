"""Amounts given as a quantity or as a percentage of the capacity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.quantity import parse_quantity_or_percentage


@pytest.mark.parametrize(
    ("text", "capacity", "amount"),
    [
        ("100Mi", 5, "100Mi"),
        ("1G", 5, "1G"),
        ("10%", 1000, "100"),
        ("15%", 1000, "150"),
        ("12.5%", 1024, "128"),
        ("10%", 100 * 2**30, "10737418400"),
        ("0%", 1000, "0"),
    ],
)
def test_share_is_taken_of_the_capacity_with_upstreams_precision(text: str, capacity: int, amount: str) -> None:
    """Upstream computes in single precision: 10% of 100Gi is 160 bytes too large, and messages show it."""
    assert str(parse_quantity_or_percentage(text).of(capacity)) == amount


@pytest.mark.parametrize("text", ["", "x", "%", "ten%"])
def test_text_that_is_neither_quantity_nor_percentage_is_rejected(text: str) -> None:
    """The ValueError gives the reason."""
    with pytest.raises(ValueError, match=r"must match|could not convert"):
        parse_quantity_or_percentage(text)


@given(percent=st.integers(0, 100), capacity=st.integers(0, 2**45))
def test_share_is_close_to_the_exact_percentage(percent: int, capacity: int) -> None:
    """Single precision is exact to seven digits."""
    found = parse_quantity_or_percentage(f"{percent}%").of(capacity).value()
    assert abs(found - capacity * percent / 100) <= 1 + capacity * 1e-7
