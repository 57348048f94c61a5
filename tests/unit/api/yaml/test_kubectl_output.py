"""JSON and YAML output as kubectl prints it; `tests/real/cli` compares with kubectl itself."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.yaml.read import read_stream
from pykubelet.api.yaml.write import json_text, natural_order, yaml_text

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8"), max_size=100)
)
KEYS = st.text(st.characters(codec="ascii", min_codepoint=32), min_size=1, max_size=12)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_json_is_read_back_as_it_was(document: dict[str, Any]) -> None:
    assert json.loads(json_text(document)) == document


@given(st.dictionaries(KEYS, st.integers() | st.from_regex(r"[ -~\n]{0,200}", fullmatch=True), max_size=5))
def test_yaml_is_read_back_as_it_was(document: dict[str, Any]) -> None:
    """Whether strings are folded, quoted or written as a block."""
    document = {key: value for key, value in document.items() if not isinstance(value, int) or abs(value) < 2**63}
    (found,) = read_stream(yaml_text(document).encode()).documents
    assert found.value == document


def test_json_is_written_as_go_does() -> None:
    """Keys are sorted, the indent is four spaces, and HTML characters are escaped."""
    assert json_text({"b": [], "a": {"x": "<&>"}}) == (
        '{\n    "a": {\n        "x": "\\u003c\\u0026\\u003e"\n    },\n    "b": []\n}\n'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("web", "web"),
        ("", '""'),
        ("true", '"true"'),
        ("1e3", '"1e3"'),
        ("12:30", '"12:30"'),
        ("2026-01-02T03:04:05Z", '"2026-01-02T03:04:05Z"'),
        ("a: b", "'a: b'"),
        ("*", "'*'"),
        ("two\nlines\n", "|\n  two\n  lines"),
        ("a" * 80 + " b", "a" * 80 + "\n  b"),
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (1.5, "1.5"),
        ([], "[]"),
        ({}, "{}"),
        ([1, "x"], "\n- 1\n- x"),
        ({"b": 1, "a": [{"c": 2}]}, "\n  a:\n  - c: 2\n  b: 1"),
    ],
)
def test_yaml_is_written_as_go_does(value: Any, text: str) -> None:
    """Strings are plain where possible, otherwise single- or double-quoted."""
    gap = "" if text.startswith("\n") else " "
    assert yaml_text({"key": value}) == f"key:{gap}{text}\n"


def test_scalar_alone_has_no_end_mark() -> None:
    """kubectl itself never prints a lone scalar."""
    assert yaml_text("web") == "web\n"


@pytest.mark.parametrize(
    "keys",
    [
        ["a2", "a10"],
        ["a", "ab"],
        ["-", "a"],
        ["1", "a"],
        ["a1b", "a11"],
        ["a1", "a01"],
        ["a100", "a109"],
        ["a.b", "ab"],
        ["A", "a"],
        ["x-1", "x_1"],
    ],
)
def test_keys_are_in_natural_order(keys: list[str]) -> None:
    """Numbers sort by value, punctuation before letters, and letters right after digits."""
    first, second = map(natural_order, keys)
    assert first < second
    assert not second < first
    assert not first < first  # noqa: PLR0124  an order is never before itself
