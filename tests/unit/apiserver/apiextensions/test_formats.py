"""Formats and patterns of strings."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.cel.formats import has_format, is_known_format
from pykubelet.api.regexp.regexp import GoPattern, go_pattern
from pykubelet.api.regexp.syntax import PatternError

GOOD_AND_BAD = {
    "date-time": (["2026-11-15T12:00:00Z", "2026-11-15T12:00:00.5+01:00"], ["2026-11-15", "2026-13-15T12:00:00Z"]),
    "date": (["2026-11-15"], ["20261115", "2026-02-30"]),
    "duration": (["1h30m", "-1.5s", "22 ns", "3 days"], ["", "x", "h"]),
    "uuid": (["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"], ["123e4567"]),
    "uuid4": (["123e4567-e89b-42d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-426614174000"]),
    "ipv4": (["1.2.3.4", "01.2.3.4"], ["1.2.3", "::1", "1.2.3.400"]),
    "ipv6": (["::1", "fe80::1"], ["1.2.3.4", "fe80::1%eth0"]),
    "cidr": (["10.0.0.0/8", "10.0.0.1/8", "::/0"], ["10.0.0.0", "10.0.0.0/33"]),
    "mac": (["00:11:22:33:44:55"], ["00:11"]),
    "uri": (["https://a/b", "/path", "urn:x"], ["", "a b", "path", "http://[x"]),
    "email": (["a@b", "A <a@b.c>"], ["a", "@b"]),
    "hostname": (["a.example.com", "a"], ["-a", "a..b", "a.example.c0m!"]),
    "byte": (["YQ==", "YWJj"], ["Y", "YQ="]),
    "hexcolor": (["#fff", "00FF00"], ["#ffff"]),
    "rgbcolor": (["rgb(1, 2,255)"], ["rgb(1,2)"]),
    "ssn": (["123-45-6789"], ["123"]),
    "isbn": (["0321751043", "978-0321751041"], ["0321751044"]),
    "creditcard": (["4111 1111 1111 1111"], ["4111 1111 1111 1112", "1"]),
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["507f"]),
    "password": (["anything"], []),
    "k8s-short-name": (["a-b"], ["a.b", "A"]),
    "k8s-long-name": (["a.b-c"], ["a..b", "a" * 254]),
}
_CASES = [
    pytest.param(format, text, good, id=f"{format}-{text[:20]}")
    for format, texts in GOOD_AND_BAD.items()
    for good, each in zip((True, False), texts, strict=True)
    for text in each
]


@pytest.mark.parametrize(("format", "text", "good"), _CASES)
def test_text_has_its_format_or_not(format: str, text: str, good: bool) -> None:
    """Formats are read as Go's libraries read them."""
    assert has_format(format, text) is good


@given(st.sampled_from(sorted(GOOD_AND_BAD)), st.text())
def test_any_text_has_a_format_or_not(format: str, text: str) -> None:
    """Checking a format never raises an error."""
    assert is_known_format(format)
    assert has_format(format, text) in (True, False)


@pytest.mark.parametrize("format", ["int32", "int64", "double", "", "colour"])
def test_other_formats_are_unknown(format: str) -> None:
    """These are formats of numbers, and names that no format has."""
    assert not is_known_format(format)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^a$", "a", "a\n"),
        (r"^a\z", "a", "a\n"),
        ("[[:alpha:]]+", "x", "1"),
        ("^[^[:space:]]$", "x", " "),
        ("^[]a]$", "]", "b"),
        ("^[$]$", "$", "a"),
        (r"^\$$", "$", "a"),
        (r"^\p{Lu}$", "A", "a"),
        (r"^[\p{L}-]+$", "a-é", "1"),
        (r"^\P{N}$", "a", "1"),
        ("(?i)^a$", "A", "b"),
        ("^[+--]$", ",", "a"),
        ("^[a||b&&]$", "|", "c"),
        ("^(?P<x>a)$", "a", "b"),
        ("^(?<x>a)$", "a", "b"),
        ("^(?:a|b)$", "b", "c"),
        (r"^\d$", "1", "٣"),
        (r"^[a\]b]+$", "a]b", "c"),
        (r"^\[a\]$", "[a]", "a"),
        (r"^\[a]$", "[a]", "a"),
    ],
)
def test_pattern_means_what_it_means_to_go(pattern: str, good: str, bad: str) -> None:
    """Examples: the end of a text, named character classes, Unicode classes."""
    assert go_pattern(pattern).matches(good)
    assert not go_pattern(pattern).matches(bad)


@pytest.mark.parametrize(
    "pattern", ["(", "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", r"(a)\1", "[[:nope:]]", r"\p{Nope}", "*", "[z-a]", "[["]
)
def test_pattern_that_go_does_not_support_is_refused(pattern: str) -> None:
    """These are lookarounds, backreferences, and patterns that are invalid everywhere."""
    with pytest.raises(PatternError, match="error parsing regexp"):
        go_pattern(pattern)


@given(st.text(alphabet="ab[]()^$\\.*+?{}-:|1dwpP", max_size=12))
def test_any_text_is_a_pattern_or_refused(pattern: str) -> None:
    """No other error occurs."""
    with contextlib.suppress(PatternError):
        assert isinstance(go_pattern(pattern), GoPattern)
