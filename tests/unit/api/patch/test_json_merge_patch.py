"""JSON merge patches: cases that the test vectors do not cover."""

from typing import Any

import pytest

from pykubelet.api.patch.errors import PatchError
from pykubelet.api.patch.json_merge_patch import apply_merge, apply_merge_text, diff_merge


@pytest.mark.parametrize(
    ("original", "patch", "expected"),
    [
        pytest.param(
            {"a": {"x": 1}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}, id="list for an object keeps its nulls"
        ),
        pytest.param({"a": "x"}, {"a": [{"b": None}]}, {"a": [{}]}, id="list for a scalar loses them"),
        pytest.param({"a": 1}, [None, {"b": None}], [None, {}], id="list replaces the whole"),
        pytest.param([1], {"a": None, "b": 1}, {"b": 1}, id="object replaces a list"),
        pytest.param({"a": 1}, {"b": None}, {"a": 1}, id="null for what is not there"),
    ],
)
def test_merge_patch_applies_as_upstream(original: Any, patch: Any, expected: Any) -> None:
    assert apply_merge(original, patch) == expected


@pytest.mark.parametrize(
    ("original", "patch", "message"),
    [
        ("{}", "{", "Invalid JSON Patch"),
        ("{}", "", "Invalid JSON Patch"),
        ("null", "{}", "Invalid JSON Document"),
        ("{} x", "{}", "Invalid JSON Document"),
        ("{}", "true", "Invalid JSON Patch"),
    ],
)
def test_merge_patch_rejects_invalid_documents_and_patches(original: str, patch: str, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        apply_merge_text(original, patch)


@pytest.mark.parametrize(
    ("original", "modified", "expected"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, {"b": None}, id="gone"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}, id="nested"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 1}}, {}, id="equal"),
        pytest.param({"a": 1}, {"a": 1.0}, {}, id="numbers are numbers"),
        pytest.param({"a": [{"b": 1}]}, {"a": [{"b": 1.0}]}, {}, id="numbers in lists too"),
        pytest.param({"a": 1}, {"a": True}, {"a": True}, id="a boolean is no number"),
        pytest.param({"a": [1, 2]}, {"a": [2, 1]}, {"a": [2, 1]}, id="lists are replaced"),
        pytest.param({"a": [{"b": 1}]}, {"a": [{"c": 1}]}, {"a": [{"c": 1}]}, id="other key in a list"),
        pytest.param(None, {"a": None}, {"a": None}, id="null counts as empty"),
        pytest.param([{"a": 1}, {}], [{}, {}], [{"a": None}, {}], id="lists of documents"),
    ],
)
def test_merge_diff_is_that_of_upstream(original: Any, modified: Any, expected: Any) -> None:
    assert diff_merge(original, modified) == expected


@pytest.mark.parametrize(
    ("original", "modified", "message"),
    [
        ([{}], [], "Invalid JSON Document"),
        ([1], [1], "Invalid JSON Document"),
        ("a", {}, "Invalid JSON Document"),
        ({}, 1, "Invalid JSON Document"),
        ([], {}, "Mismatched JSON Documents"),
        ({}, [], "Mismatched JSON Documents"),
    ],
)
def test_merge_diff_rejects_unsupported_documents(original: Any, modified: Any, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        diff_merge(original, modified)
