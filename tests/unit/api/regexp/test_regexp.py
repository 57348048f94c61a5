"""Go's regular expressions: they match as Python's do where both mean the same, and in bounded time."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.regexp.regexp import MAX_STEPS, GoPattern, compile_program, go_pattern
from pykubelet.api.regexp.syntax import PatternError, parse

_ATOMS = ["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\S", "(a|b)", "(?:ab|)", "(?i:A)", "(?s:.)", "(?m:^b$)"]
_COUNTS = ["", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?", "??", "{0,2}?"]
_PLACES = ["", "", "", "^", r"\b", r"\A", "|"]
_PIECES = st.tuples(*map(st.sampled_from, (_PLACES, _ATOMS, _COUNTS))).map("".join)
_PATTERNS = st.lists(_PIECES, min_size=1, max_size=5).map("".join)
_TEXTS = st.text("abA1 \n", max_size=10)


@given(_PATTERNS, _TEXTS)
@settings(max_examples=300)
def test_match_is_found_where_python_finds_it(pattern: str, text: str) -> None:
    """Both find the same text, also where a pattern can match in several ways."""
    found = re.compile(pattern, re.ASCII).search(text)
    assert go_pattern(pattern).matches(text) == (found is not None)
    assert go_pattern(pattern).find(text) == (found[0] if found else None)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        pytest.param("^(a+)+$", "a" * 100_000 + "!", id="nested"),
        pytest.param("^(a|a)*$", "a" * 100_000 + "!", id="ambiguous"),
        pytest.param("[a-z]+b", "a" * 100_000, id="starts-anywhere"),
        pytest.param("^.*a.*b.*c$", "ab" * 50_000, id="many-stars"),
        pytest.param("^(a?){30}a{30}$", "a" * 29, id="optional"),
        pytest.param("(a|b)*a(a|b){12}c", "abb" * 3_000, id="many-states"),
    ],
)
def test_no_pattern_takes_long_on_any_text(pattern: str, text: str) -> None:
    """Python's own matcher takes minutes to ages for each of these; this one does not backtrack."""
    assert not go_pattern(pattern).matches(text)


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ],
)
def test_invalid_pattern_is_refused_with_gos_message(pattern: str, complaint: str) -> None:
    """The message shows the wrong part in backquotes."""
    with pytest.raises(PatternError) as refused:
        go_pattern(pattern)
    assert str(refused.value) == f"error parsing regexp: {complaint}"


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a*", "baac", ["", "aa", ""]),
        ("a|ab", "abab", ["a", "a"]),
        (r"\bx", "x xx", ["x", "x"]),
        ("", "ab", ["", "", ""]),
        (r"\Qa.b\E+", "a.bb axb", ["a.bb"]),
        (r"[\x{41}-\x43]\101?", "AAC", ["AA", "C"]),
        ("x{,2}", "x{,2}", ["x{,2}"]),
        ("(?U)a+", "aa", ["a", "a"]),
    ],
)
def test_all_matches_are_those_of_go(pattern: str, text: str, found: list[str]) -> None:
    """Matches do not overlap, and no empty match directly follows another match."""
    assert go_pattern(pattern).find_all(text) == found
    assert go_pattern(pattern).find_all(text, 1) == found[:1]


@given(st.text("ab[]()^$\\.*+?{}-:|1dwpPQE<>imU,", max_size=16), _TEXTS)
def test_any_text_is_a_pattern_or_refused(pattern: str, text: str) -> None:
    """No other error occurs, and `matches` agrees with `find`."""
    try:
        found = go_pattern(pattern)
    except PatternError:
        return
    assert isinstance(found, GoPattern)
    assert found.matches(text) == (found.find(text) is not None)


@pytest.mark.parametrize("pattern", ["(" * 5_000 + ")" * 5_000, "(ab?c){900}" * 30], ids=["deep", "large"])
def test_pattern_that_would_take_too_much_is_refused(pattern: str) -> None:
    """Nesting depth and program size are limited."""
    with pytest.raises(PatternError, match=r"nests too deeply|too large"):
        go_pattern(pattern)


@given(_PATTERNS)
def test_program_has_one_match_step_and_starts_inside(pattern: str) -> None:
    program = compile_program(parse(pattern))
    assert len(program.steps) <= MAX_STEPS
    assert [step is None for step in program.steps].count(True) == 1
    assert program.first < len(program.steps)
