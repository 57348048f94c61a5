"""Path elements: how they are written, ordered, parsed and shown."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.apiserver.fieldmanager.fieldpath import (
    FieldsError,
    canonical,
    key_element,
    order,
    parsed,
    shown,
    value_element,
)

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=6)


@pytest.mark.parametrize(
    ("element", "text"),
    [
        (key_element([("name", "c")]), 'k:{"name":"c"}'),
        (key_element([("containerPort", 80), ("protocol", "TCP")]), 'k:{"containerPort":80,"protocol":"TCP"}'),
        (value_element("a<b>&c"), 'v:"a\\u003cb\\u003e\\u0026c"'),
        (value_element('q"\\\n\x01\u2028é'), 'v:"q\\"\\\\\\n\\u0001\\u2028é"'),
        (value_element(True), "v:true"),
        (value_element(2.0), "v:2"),
        (value_element(1.5), "v:1.5"),
        (key_element([("key", {"b": 1, "a": [None]})]), 'k:{"key":{"a":[null],"b":1}}'),
    ],
)
def test_element_is_written_as_go_writes_it(element: str, text: str) -> None:
    """The text is the element's identity, so it must be the same to the byte."""
    assert element == text


@pytest.mark.parametrize(
    ("spelled", "known"),
    [
        ('k:{"protocol":"TCP", "containerPort":80}', 'k:{"containerPort":80,"protocol":"TCP"}'),
        ('v: "\\u0061"', 'v:"a"'),
        ("f:any thing", "f:any thing"),
        ("i:007", "i:7"),
        ("x:later", None),
    ],
)
def test_canonical_gives_one_spelling(spelled: str, known: str | None) -> None:
    """A client may use another order and spaces; elements of an unknown kind are dropped."""
    assert canonical(spelled) == known


@pytest.mark.parametrize("spelled", ["", "f", "fname", "v:", "v:{", "k:[]", "k:nothing", "i:x", 'v:"\ud800"'])
def test_canonical_refuses_invalid_elements(spelled: str) -> None:
    with pytest.raises(FieldsError):
        canonical(spelled)


def test_order_sorts_as_go_does() -> None:
    """Names come first, then keys, values and indices; numbers sort by size and before texts."""
    sorted_steps = [
        "f:a",
        "f:b",
        'k:{"port":80,"protocol":"TCP"}',
        'k:{"port":80,"protocol":"UDP"}',
        'k:{"port":443,"protocol":"TCP"}',
        "v:2",
        "v:10",
        'v:"a"',
        'v:"a!"',
        "v:true",
        "v:[1]",
        'v:{"a":1}',
        "v:null",
        "i:2",
        "i:10",
    ]
    shuffled = sorted(sorted_steps, key=lambda step: step[::-1])
    assert sorted(shuffled, key=order) == sorted_steps


@pytest.mark.parametrize(
    ("element", "text"),
    [
        ("f:data", ".data"),
        ('k:{"containerPort":80,"protocol":"TCP"}', '[containerPort=80,protocol="TCP"]'),
        ('v:"x"', '[="x"]'),
        ("v:true", "[=true]"),
        ("i:3", "[3]"),
    ],
)
def test_shown_gives_the_form_of_messages(element: str, text: str) -> None:
    """Conflicts and errors use this form."""
    assert shown(element) == text


@settings(max_examples=60)
@given(st.dictionaries(st.text("ab<&é", min_size=1, max_size=4), SCALARS, min_size=1, max_size=3))
def test_key_element_reads_back(keys: dict[str, Any]) -> None:
    """The element holds all values and is its own canonical form."""
    element = key_element(sorted(keys.items()))
    assert parsed(element) == keys
    assert canonical(element) == element


@settings(max_examples=60)
@given(SCALARS)
def test_value_element_is_json(value: Any) -> None:
    """The text after the colon is JSON."""
    assert json.loads(value_element(value)[2:]) == value
