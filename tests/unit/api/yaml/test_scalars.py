"""Scalars with explicit tags, and the conversion of scalars to JSON."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.yaml.scalars import ScalarError, as_json, as_key, resolve, resolve_plain

TAG = "tag:yaml.org,2002:"


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [
        ("str", "12", "12"),
        ("str", "", ""),
        ("int", "12", 12),
        ("int", "0x10", 16),
        ("int", "18446744073709551615", 2**64 - 1),
        ("float", "1", 1.0),
        ("float", "1e3", 1000.0),
        ("float", ".inf", math.inf),
        ("bool", "off", False),
        ("null", "", None),
        ("null", "~", None),
        ("binary", "", ""),
        ("binary", "aGVs\nbG8=", "hello"),
        ("binary", "4oI=", "\ufffd\ufffd"),
        ("timestamp", "2001-01-01", "2001-01-01"),
        ("timestamp", "0000-02-29", "0000-02-29"),
        ("timestamp", "2001-1-1t1:2:3.5Z", "2001-1-1t1:2:3.5Z"),
        ("timestamp", "2001-1-1 1:2:3", "2001-1-1 1:2:3"),
        ("timestamp", "2001-01-01T00:00:00-07:30", "2001-01-01T00:00:00-07:30"),
        ("other", "12", "12"),
    ],
)
def test_tag_decides_the_type(tag: str, text: str, value: Any) -> None:
    """An explicit tag overrides the type that the text suggests."""
    found = resolve(TAG + tag, text, plain=False)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("tag", "text", "message"),
    [
        ("int", "1.5", "cannot decode !!float `1.5` as a !!int"),
        ("int", "", "cannot decode !!null `` as a !!int"),
        ("int", "yes", "cannot decode !!bool `yes` as a !!int"),
        ("int", "2001-01-01", "cannot decode !!str `2001-01-01` as a !!int"),
        ("float", "18446744073709551615", "cannot decode !!int `18446744073709551615` as a !!float"),
        ("float", "yes", "cannot decode !!bool `yes` as a !!float"),
        ("bool", "1", "cannot decode !!int `1` as a !!bool"),
        ("null", "x", "cannot decode !!str `x` as a !!null"),
        ("timestamp", "x", "cannot decode !!str `x` as a !!timestamp"),
        ("timestamp", "2001-02-30", "cannot decode !!str `2001-02-30` as a !!timestamp"),
        ("timestamp", "2001-01-01 24:00:00", "cannot decode !!str `2001-01-01 24:00:00` as a !!timestamp"),
        ("timestamp", "2001-01-01 00:00:60", "cannot decode !!str `2001-01-01 00:00:60` as a !!timestamp"),
        ("binary", "abc", "!!binary value contains invalid base64 data"),
        ("binary", "ab=c", "!!binary value contains invalid base64 data"),
        ("binary", "a===", "!!binary value contains invalid base64 data"),
    ],
)
def test_tag_that_does_not_fit_is_refused(tag: str, text: str, message: str) -> None:
    """The message is that of go-yaml."""
    with pytest.raises(ScalarError) as raised:
        resolve(TAG + tag, text, plain=True)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (True, "true"),
        (False, "false"),
        (12, "12"),
        (1000.0, "1000"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (1.1, "1.1"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (123456789.5, "1.2345679e+08"),
        (-0.0, "-0"),
        (1e39, ".inf"),
        (-1e39, "-.inf"),
        (math.nan, ".nan"),
        (3.4028234663852886e38, "3.4028235e+38"),
        (1e-45, "1e-45"),
        # The shortest text for this power of two rounds to the single below it, so that one more digit is needed.
        (2.0**-96, "1.2621775e-29"),
    ],
)
def test_key_is_written_as_go_writes_it(value: Any, key: str) -> None:
    """Floats are written in single precision."""
    assert as_key(value) == key


def test_value_that_json_cannot_hold_is_rejected() -> None:
    """As a key or as a value."""
    for convert, value in ((as_key, None), (as_key, 2**64 - 1), (as_json, math.inf), (as_json, math.nan)):
        with pytest.raises(ScalarError):
            convert(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".5", 0.5),
        (".5_0e1_0", 0.5e10),
        (".5_", ".5_"),
        (".5e400", ".5e400"),
        (".x", ".x"),
        ("-0x8000000000000001", "-0x8000000000000001"),
        ("0x10000000000000000", "0x10000000000000000"),
        ("07777777777777777777777", float("07777777777777777777777")),
        ("1e400", "1e400"),
        ("1e-400", 0.0),
        ("+", "+"),
        ("1\u0661", "1\u0661"),
    ],
)
def test_number_at_the_edge_is_read_as_go_reads_it(text: str, value: Any) -> None:
    """A number too large for an integer becomes a float if possible, otherwise a string."""
    assert resolve_plain(text) == value


@pytest.mark.parametrize("text", ["0b+1", "0b-1"])
def test_sign_behind_the_binary_prefix_counts(text: str) -> None:
    """go-yaml accepts such a sign, and so do we; out of range the text is a string."""
    assert resolve_plain(text) == int(text[2:])
    assert resolve_plain(text + "0" * 64) == text + "0" * 64


@given(st.integers(-(2**63), 2**63 - 1))
def test_integer_is_read_in_every_base(number: int) -> None:
    """Decimal, hexadecimal, both octal forms, binary, with and without underscores."""
    sign, size = ("-" if number < 0 else ""), abs(number)
    for text in (f"{size}", f"{size:#x}", f"{size:#o}", f"0{size:o}", f"{size:#b}", f"{size:_}", f"{size:#_X}"):
        assert resolve_plain(sign + text) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_float_comes_through_json_as_the_same_number(number: float) -> None:
    """A whole float becomes an int, as Go writes it."""
    found = as_json(number)
    assert isinstance(found, int | float)
    assert float(found) == number
    assert isinstance(found, int) == (number.is_integer() and abs(number) < 2.0**63)
