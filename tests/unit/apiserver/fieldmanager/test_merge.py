"""Merging an applied object into the live one, and removing fields from it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.apiserver.fieldmanager.fieldpath import FieldTree, tree_of
from pykubelet.apiserver.fieldmanager.typeconverter import DEDUCED, schema_of, structural_schema
from pykubelet.apiserver.fieldmanager.typed import merged, reconciled_fields, removed, with_named_fields

POD = schema_of("core.v1.Pod").type
SET = structural_schema(
    {"properties": {"set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}}
).type


def merged_sets(live: str, applied: str) -> str:
    made = merged({"set": list(live)}, {"set": list(applied)}, SET)
    return "".join(made["set"])


@pytest.mark.parametrize(
    ("live", "applied", "result"),
    [
        ("ab", "xb", "axb"),
        ("abc", "ca", "bca"),
        ("amb", "max", "mbax"),
        ("abcd", "xcya", "bxcdya"),
        ("ddb", "dx", "dxb"),
        ("dds", "dxs", "dxs"),
        ("ab", "ba", "ba"),
        ("abc", "", "abc"),
        ("", "ab", "ab"),
    ],
)
def test_merged_list_has_upstreams_order(live: str, applied: str, result: str) -> None:
    """Applied items keep their order; a live item stays before the next item that both lists have."""
    assert merged_sets(live, applied) == result


@settings(max_examples=100)
@given(st.text("abcdef", max_size=6), st.lists(st.sampled_from("cdefgh"), unique=True, max_size=6))
def test_merged_list_holds_both_and_applying_again_changes_nothing(live: str, applied: list[str]) -> None:
    """No item is lost or doubled, the applied order holds, and the result is stable."""
    wanted = "".join(applied)
    made = merged_sets(live, wanted)
    assert set(made) == set(live) | set(wanted)
    assert [item for item in made if item in wanted] == applied
    assert [item for item in made if item not in wanted] == [item for item in live if item not in wanted]
    assert merged_sets(made, wanted) == made


@pytest.mark.parametrize(
    ("live", "applied", "result"),
    [
        ({"a": 1}, None, {"a": 1}),
        (5, {"a": 1}, {"a": 1}),
        ({"a": 1}, 5, 5),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ([1], [2], [2]),
        (5, None, None),
        ({}, None, None),
    ],
)
def test_merged_deduces_types_without_a_schema(live: Any, applied: Any, result: Any) -> None:
    """Maps merge, everything else is replaced; a null leaves a map as it is."""
    assert merged(live, applied, DEDUCED.type) == result


def test_merged_takes_atomic_fields_whole() -> None:
    """An atomic field has one owner, so it is replaced as a whole."""
    live = {"spec": {"nodeSelector": {"a": "1"}, "containers": [{"name": "c", "command": ["a", "b"], "image": "i"}]}}
    applied = {"spec": {"nodeSelector": {"b": "1"}, "containers": [{"name": "c", "command": ["c"]}]}}
    assert merged(live, applied, POD) == {
        "spec": {"nodeSelector": {"b": "1"}, "containers": [{"name": "c", "command": ["c"], "image": "i"}]}
    }


def test_merged_replaces_values_of_another_schema() -> None:
    """A list that was a string, or a map that was a list, is replaced; removing fields from it changes nothing."""
    assert merged({"set": "old"}, {"set": ["a"]}, SET) == {"set": ["a"]}
    assert merged({"spec": ["old"]}, {"spec": {"nodeName": "n"}}, POD) == {"spec": {"nodeName": "n"}}
    live = {"spec": {"containers": "old"}}
    assert removed(live, tree_of(("f:spec", "f:containers", 'k:{"name":"c"}')), POD) == live


def test_removed_takes_fields_and_items() -> None:
    """It removes items, fields of items and fields; a list or map that becomes empty turns into null."""
    item = ("f:spec", "f:containers", 'k:{"name":"c"}')
    document = {
        "metadata": {"labels": {"a": "1"}, "finalizers": ["x"]},
        "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d"}], "nodeName": "n"},
    }
    fields = tree_of((*item, "f:image"), ("f:spec", "f:nodeName"), ("f:metadata", "f:labels", "f:a"))
    assert removed(document, fields, POD) == {
        "metadata": {"labels": None, "finalizers": ["x"]},
        "spec": {"containers": [{"name": "c"}, {"name": "d"}]},
    }
    assert removed({"metadata": {"finalizers": ["x"]}}, tree_of(("f:metadata", "f:finalizers", 'v:"x"')), POD) == {
        "metadata": {"finalizers": None}
    }
    assert removed({"spec": {"tolerations": [1]}}, tree_of(("f:spec", "f:tolerations", "i:0")), POD) == {
        "spec": {"tolerations": None}
    }


def test_named_fields_are_declared_ones() -> None:
    """Declared fields are added; keys of a map and items of a list are not."""
    tree = tree_of(("f:metadata", "f:labels", "f:a"), ("f:spec", "f:containers", 'k:{"name":"c"}', "f:image"))
    assert with_named_fields(tree, POD) == {
        "f:metadata": {".": {}, "f:labels": {".": {}, "f:a": {}}},
        "f:spec": {".": {}, "f:containers": {".": {}, 'k:{"name":"c"}': {"f:image": {}}}},
    }


def test_reconciled_owns_a_newly_atomic_value_as_a_whole() -> None:
    """A list that became atomic has no items to own; fields that no schema declares stay."""
    schema = structural_schema(
        {
            "properties": {
                "list": {"type": "array", "items": {"type": "string"}},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "map": {"type": "object", "properties": {"a": {"type": "string"}}},
            }
        }
    ).type
    tree: FieldTree = {"f:any": {"f:x": {}}, "f:list": {'v:"a"': {}}, "f:map": {"f:a": {}}}
    assert reconciled_fields(tree, schema) == {"f:any": {"f:x": {}}, "f:list": {}, "f:map": {"f:a": {}}}
