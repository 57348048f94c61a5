"""JSON patches as kube-apiserver applies them."""

from typing import Any

import pytest

from pykubelet.api.patch.errors import MalformedPatchError, PatchError, TooManyOperationsError
from pykubelet.api.patch.json_patch import MAX_COPIED_BYTES, MAX_OPERATIONS, apply_json

NOTHING = object()


def op(kind: str, path: str, value: Any = NOTHING, source: str | None = None) -> dict[str, Any]:
    operation: dict[str, Any] = {"op": kind, "path": path}
    if value is not NOTHING:
        operation["value"] = value
    if source is not None:
        operation["from"] = source
    return operation


APPLIES: list[Any] = [
    pytest.param({}, [op("add", "/a", 1)], {"a": 1}, id="add a key"),
    pytest.param({"a": 1}, [op("add", "/a", {})], {"a": {}}, id="add over a key"),
    pytest.param({"a": [1, 2]}, [op("add", "/a/1", 9)], {"a": [1, 9, 2]}, id="insert"),
    pytest.param({"a": [{}]}, [op("add", "/a/0/b", 1)], {"a": [{"b": 1}]}, id="add inside an item"),
    pytest.param({"a": [1]}, [op("add", "/a/-", 2)], {"a": [1, 2]}, id="append"),
    pytest.param({"a": [1, 2]}, [op("add", "/a/-1", 3)], {"a": [1, 2, 3]}, id="add counted from the end"),
    pytest.param({}, [op("add", "/a")], {"a": None}, id="missing value is null"),
    pytest.param({"a~b": {"c/d": 1}}, [op("remove", "/a~0b/c~1d")], {"a~b": {}}, id="escapes"),
    pytest.param({"": {"": 1}}, [op("remove", "//")], {"": {}}, id="empty keys"),
    pytest.param({"a": [1, 2]}, [op("remove", "/a/-1")], {"a": [1]}, id="remove counted from the end"),
    pytest.param({"a": [1, 2]}, [op("remove", "/a/01")], {"a": [1]}, id="index with a leading zero"),
    pytest.param({"a": 1}, [op("remove", "junk/a")], {}, id="what stands before the first slash is ignored"),
    pytest.param({"a": 1}, [op("replace", "/a", 2)], {"a": 2}, id="replace"),
    pytest.param({}, [op("replace", "/a", 2)], {"a": 2}, id="replace a key that is not there"),
    pytest.param({"a": [1, 2]}, [op("replace", "/a/-2", 0)], {"a": [0, 2]}, id="replace counted from the end"),
    pytest.param({"a": 1}, [op("replace", "", {"b": 1})], {"b": 1}, id="replace the whole"),
    pytest.param({"a": 1}, [op("replace", "", 5)], {"a": 1}, id="replace the whole by a scalar does nothing"),
    pytest.param({"a": {"b": 1}}, [op("move", "/c", source="/a/b")], {"a": {}, "c": 1}, id="move"),
    pytest.param({"a": None}, [op("move", "/b", source="/a")], {"b": None}, id="move null"),
    pytest.param({"a": [1, 2, 3]}, [op("move", "/a/0", source="/a/2")], {"a": [3, 1, 2]}, id="move in a list"),
    pytest.param({"a": {"b": 1}}, [op("copy", "/c", source="/a")], {"a": {"b": 1}, "c": {"b": 1}}, id="copy"),
    pytest.param({}, [op("copy", "/b", source="/a")], {"b": None}, id="copy of what is not there is null"),
    pytest.param(
        {"a": {"b": 1}},
        [op("copy", "/c", source="/a"), op("add", "/c/b", 2), op("add", "/c/d", 3)],
        {"a": {"b": 1}, "c": {"b": 2, "d": 3}},
        id="a copy is a copy",
    ),
    pytest.param({"a": {"b": [1]}}, [op("test", "/a", {"b": [1]})], {"a": {"b": [1]}}, id="test"),
    pytest.param({"a": 1}, [op("test", "", {"a": 1})], {"a": 1}, id="test the whole"),
    pytest.param({}, [op("test", "/a", None)], {}, id="test for null of what is not there"),
    pytest.param([1], [op("add", "/0", 0)], [0, 1], id="list as a document"),
]


@pytest.mark.parametrize(("original", "patch", "expected"), APPLIES)
def test_json_patch_applies_as_upstream(original: Any, patch: Any, expected: Any) -> None:
    assert apply_json(original, patch) == expected


FAILS: list[Any] = [
    pytest.param({}, [op("bogus", "/a")], "Unexpected kind: bogus", id="unknown operation"),
    pytest.param({}, [{"path": "/a"}], "Unexpected kind: unknown", id="no operation"),
    pytest.param({}, [{"op": "add"}], "missing path", id="no path"),
    pytest.param({"a": 1}, [op("move", "/b")], "missing from", id="no from"),
    pytest.param({}, [op("add", "", {})], "missing path", id="add the whole"),
    pytest.param({}, [op("add", "a", 1)], "missing path", id="path without a slash"),
    pytest.param({}, [op("add", "/a/b", 1)], "missing path", id="no parent"),
    pytest.param({"a": 1}, [op("add", "/a/b", 1)], "missing path", id="parent is a scalar"),
    pytest.param({"a": []}, [op("add", "/a/1", 1)], "invalid index", id="index too large"),
    pytest.param({"a": []}, [op("add", "/a/-2", 1)], "invalid index", id="index too small"),
    pytest.param({"a": []}, [op("add", "/a/x", 1)], "does not apply", id="not an index"),
    pytest.param({"a": [{}]}, [op("add", "/a/x/y", 1)], "missing path", id="not an index on the way"),
    pytest.param({}, [op("remove", "/a")], "does not apply", id="remove what is not there"),
    pytest.param({"a": [1]}, [op("remove", "/a/1")], "invalid index", id="remove behind the end"),
    pytest.param({"a": [1]}, [op("replace", "/a/-", 1)], "does not apply", id="replace behind the end"),
    pytest.param({}, [op("move", "/b", source="/a")], "does not apply", id="move what is not there"),
    pytest.param({"a": {}}, [op("move", "/a/b", source="/a")], "missing path", id="move into itself"),
    pytest.param({"a": []}, [op("copy", "/b", source="/a/-")], "invalid index", id="copy behind the end"),
    pytest.param({"a": 1}, [op("test", "/a", 1.0)], "test failed", id="test of another type"),
    pytest.param({"a": 1}, [op("test", "/a")], "test failed", id="test without a value"),
    pytest.param({"a": [1]}, [op("test", "/a/x", None)], "test failed", id="test of no index"),
    pytest.param("x", [op("add", "/a", 1)], "missing path", id="scalar as a document"),
]


@pytest.mark.parametrize(("original", "patch", "message"), FAILS)
def test_operation_that_does_not_apply_is_refused(original: Any, patch: Any, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        apply_json(original, patch)


@pytest.mark.parametrize("patch", [{"op": "add"}, None, "x", [None], [[]]])
def test_patch_that_is_no_list_of_operations_is_malformed(patch: Any) -> None:
    with pytest.raises(MalformedPatchError):
        apply_json({}, patch)


def test_patch_may_have_ten_thousand_operations_and_no_more() -> None:
    """The limit protects the server."""
    patch = [op("test", "", {})] * MAX_OPERATIONS
    assert apply_json({}, patch) == {}
    with pytest.raises(TooManyOperationsError, match="maximum operations in a JSON patch is 10000, got 10001"):
        apply_json({}, [*patch, op("test", "", {})])


def test_copies_may_not_make_a_document_huge() -> None:
    """Each copy operation could double the document, so the copied bytes are limited."""
    document = {"a": ["x" * (MAX_COPIED_BYTES // 2)]}
    apply_json(document, [op("copy", "/b", source="/a")])
    with pytest.raises(PatchError, match="exceeding the limit 3145728"):
        apply_json(document, [op("copy", "/b", source="/a"), op("copy", "/c", source="/b")])


def test_result_shares_unchanged_parts_with_the_original() -> None:
    """Only containers on the path to a change are copied; a test operation copies nothing."""
    document: dict[str, Any] = {"a": {"b": {"c": 1}}, "d": {"e": []}}
    result = apply_json(document, [op("test", "/d/e", []), op("add", "/a/x", 1)])
    assert result == {"a": {"b": {"c": 1}, "x": 1}, "d": {"e": []}}
    assert result["d"] is document["d"]
    assert result["a"]["b"] is document["a"]["b"]
