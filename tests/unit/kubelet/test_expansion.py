"""Expansion of variable references in a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.expansion import expand, mapping_func_for

VALUES = mapping_func_for({"A": "a", "REF": "$(A)", "EMPTY": ""}, {"A": "hidden", "B": "b"})


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)-$(B)", "a-b"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$(REF)$(EMPTY)", "$(A)"),
        ("$(NONE) $(A", "$(NONE) $(A"),
        ("$(A$(B))", "$(A$(B))"),
        ("${A} $A $", "${A} $A $"),
    ],
)
def test_references_are_replaced_once_from_left_to_right(text: str, expanded: str) -> None:
    """The first map with the name is used; invalid references stay unchanged."""
    assert expand(text, VALUES) == expanded


@given(st.text(), st.text())
def test_text_without_dollars_stays_and_a_doubled_dollar_escapes(before: str, after: str) -> None:
    """Doubling the dollars of any text and expanding it returns the text."""
    text = f"{before}$(A){after}"
    assert expand(text.replace("$", "$$"), VALUES) == text
