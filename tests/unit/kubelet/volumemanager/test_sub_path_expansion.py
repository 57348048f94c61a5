"""Expansion of commands and subpaths, and its properties."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kubelet.expansion import expand, expand_all, mapping_func_for
from pykubelet.kubelet.volumemanager.errors import ContainerConfigError
from pykubelet.kubelet.volumemanager.mounts import expand_sub_path

TEXTS = st.text(alphabet="$()A\u00e4 ", max_size=20)


def test_command_is_expanded_word_by_word() -> None:
    """A value with spaces stays one argument."""
    assert expand_all(("$(A)", "x $(B)"), mapping_func_for({"A": "a b"})) == ("a b", "x $(B)")


def test_sub_path_needs_a_value_for_every_variable() -> None:
    """A missing or empty value would mount the wrong path; the error names all of them, sorted."""
    assert expand_sub_path("logs/$(POD)", {"POD": "web"}) == "logs/web"
    with pytest.raises(ContainerConfigError, match=r"^missing value for A, B$"):
        expand_sub_path("$(B)/$(A)/$(C)", {"A": "", "C": "c"})


@settings(max_examples=200)
@given(TEXTS)
def test_text_without_dollars_and_doubled_dollars_survive(text: str) -> None:
    """Doubling every dollar protects any text from expansion."""
    assert expand(text.replace("$", "$$"), lambda _: "X") == text


@settings(max_examples=200)
@given(TEXTS, TEXTS)
def test_values_are_never_expanded_again(text: str, value: str) -> None:
    """References inside a value stay as they are."""
    marked = expand(text, mapping_func_for({"A": "\0"}))
    assert expand(text, mapping_func_for({"A": value})) == marked.replace("\0", value)
