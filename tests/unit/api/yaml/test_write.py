"""Writing YAML and reading it back."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.yaml.read import read_yaml
from pykubelet.api.yaml.write import to_yaml

laws = settings(max_examples=200, deadline=None)

# Words and characters with a meaning in YAML, which random text rarely contains.
TRICKY = st.lists(
    st.sampled_from(
        [
            *"yYnN~.-+_:#?!&*|>'\"%@`{}[],=<\\ \t\n\r0189",
            "e3",
            "0x",
            "0o",
            "yes",
            "null",
            "---",
            "a",
            "é",
            "\x85",
            "\u2028",
        ]
    ),
    max_size=8,
).map("".join)
STRINGS = st.one_of(TRICKY, st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    STRINGS,
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=25,
)


@laws
@given(DOCUMENTS)
def test_any_document_survives_writing_and_reading(document: Any) -> None:
    """Every JSON value is read back equal; a whole float below 1e21 is read back as an int, as in Go."""
    assert same(read_yaml(to_yaml(document).encode(), strict=True), document)


def same(found: Any, written: Any) -> bool:
    if isinstance(written, dict):
        return list(found) == list(written) and all(same(found[key], written[key]) for key in written)
    if isinstance(written, list):
        return len(found) == len(written) and all(map(same, found, written))
    if isinstance(written, float) and isinstance(found, int):
        return written == found or repr(written) == repr(float(found))
    return bool(found == written) and type(found) is type(written)


@laws
@given(TRICKY)
def test_any_string_survives_as_key_and_value(text: str) -> None:
    """On its own, in a list, as a key and as a value."""
    assert read_yaml(to_yaml(text).encode()) == text
    assert read_yaml(to_yaml({text: [text, {text: text}]}).encode()) == {text: [text, {text: text}]}


@pytest.mark.parametrize(
    "text", ["y", "1e3", "089", "0o14", "12345e67", "1_000", "~", "", "true", ".inf", "<<", "0b1", "a: b", "-", " a"]
)
def test_string_that_would_be_misread_is_quoted(text: str) -> None:
    """Strings that go-yaml would read as another type, and strings with an indicator."""
    assert to_yaml({"a": text}) == f'a: "{text}"\n'


@pytest.mark.parametrize(
    "text",
    ["a", "1:30", "2001-01-01", "10Gi", "nginx:1.25", "/bin/sh", "-c", "--port=8080", "a b", "v1", "Y1", "a,b", "$(X)"],
)
def test_ordinary_string_is_plain(text: str) -> None:
    assert to_yaml({"a": text}) == f"a: {text}\n"


def test_layout_is_that_of_kubectl() -> None:
    """List items align with their key, and multi-line strings are literal blocks."""
    document = {
        "kind": "Pod",
        "spec": {"containers": [{"name": "a", "args": ["x", "y"], "env": []}], "nodeName": None},
        "data": {"script": "set -e\n\nrun\n", "tail": "one\ntwo", "odd": "one\n\n"},
        "matrix": [[1, [2]], {}],
    }
    assert to_yaml(document) == (
        'kind: Pod\nspec:\n  containers:\n  - name: a\n    args:\n    - x\n    - "y"\n    env: []\n  nodeName: null\n'
        'data:\n  script: |\n    set -e\n\n    run\n  tail: |-\n    one\n    two\n  odd: "one\\n\\n"\n'
        "matrix:\n- - 1\n  - - 2\n- {}\n"
    )  # fmt: skip


def test_long_key_stands_on_a_line_of_its_own() -> None:
    """A parser looks for the colon only in the first 1024 characters of a line."""
    document = {"k" * 2000: {"a": ["b"]}, "é" * 900: ["c"]}
    assert to_yaml(document).startswith("? kkk")
    assert read_yaml(to_yaml(document).encode()) == document


@pytest.mark.parametrize(
    "value", [math.inf, math.nan, 2**63, -(2**63) - 1, b"bytes", {1: 2}, "\ud800", object()], ids=repr
)
def test_value_that_json_cannot_hold_is_rejected(value: Any) -> None:
    """Otherwise the text would read back as a different value."""
    with pytest.raises(ValueError, match=r"cannot be represented|is not a string"):
        to_yaml({"a": value})
