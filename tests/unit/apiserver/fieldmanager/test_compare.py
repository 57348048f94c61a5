"""Fields that changed between two objects, and the fields that a whole or an applied value claims."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.apiserver.fieldmanager.fieldpath import NOTHING, FieldsError, FieldTree, has, intersection, paths
from pykubelet.apiserver.fieldmanager.typeconverter import DEDUCED, schema_of, structural_schema
from pykubelet.apiserver.fieldmanager.typed import Comparison, all_fields, applied_fields, compare, element_of, equal

POD = schema_of("core.v1.Pod").type
SETS = structural_schema(
    {
        "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string"}}},
            },
        }
    }
).type
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def env(**values: str) -> dict[str, Any]:
    items = [{"name": name, "value": value} for name, value in values.items()]
    return {"spec": {"containers": [{"name": "c", "env": items}]}}


C = 'k:{"name":"c"}'


@pytest.mark.parametrize(
    ("live", "new", "changed", "removed"),
    [
        ({}, {"metadata": {"name": "x", "uid": "u", "generation": 2}, "kind": "Pod"}, {}, {}),
        (
            env(A="1"),
            env(A="2", B="1"),
            {
                "f:spec": {
                    "f:containers": {
                        C: {
                            "f:env": {
                                'k:{"name":"A"}': {"f:value": {}},
                                'k:{"name":"B"}': {".": {}, "f:name": {}, "f:value": {}},
                            }
                        }
                    }
                }
            },
            {},
        ),
        (
            env(A="1"),
            env(),
            {},
            {"f:spec": {"f:containers": {C: {"f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}}}}},
        ),
        ({"spec": {"containers": None}}, {"spec": {"containers": []}}, {"f:spec": {"f:containers": {}}}, {}),
        (
            {"spec": {"nodeSelector": {"a": "1"}}},
            {"spec": {"nodeSelector": {}}},
            {"f:spec": {"f:nodeSelector": {}}},
            {},
        ),
        (
            {"metadata": {"labels": {"a": "1"}}},
            {"metadata": {"labels": None}},
            {},
            {"f:metadata": {"f:labels": {"f:a": {}}}},
        ),
        (
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["b", "c"]}},
            {"f:metadata": {"f:finalizers": {'v:"c"': {}}}},
            {"f:metadata": {"f:finalizers": {'v:"a"': {}}}},
        ),
    ],
    ids=["kept by the server", "item", "emptied", "null", "atomic", "null map", "set"],
)
def test_compare_finds_the_fields(live: Any, new: Any, changed: Any, removed: Any) -> None:
    """It finds new, changed and removed fields, but none that the server maintains itself."""
    assert compare(live, new, POD) == Comparison(changed, removed)


ITEM: FieldTree = {".": {}, "f:k": {}, "f:v": {}}


@pytest.mark.parametrize(
    ("live", "new", "changed", "removed"),
    [
        ("12", "13", {}, None),
        ("12", "1", ITEM, {}),
        ("1", "12", {}, ITEM),
        ("", "12", {}, None),
        ("12", "", None, {}),
        ("12", "12", None, None),
    ],
    ids=["both", "once now", "twice now", "new", "gone", "same"],
)
def test_items_with_the_same_key_are_one_field(live: str, new: str, changed: Any, removed: Any) -> None:
    """An item that occurs twice is owned as a whole."""
    lives, news = ({"map": [{"k": "x", "v": value} for value in values] or None} for values in (live, new))
    found = compare(lives, news, SETS)
    assert [tree.get("f:map", {}).get('k:{"k":"x"}') for tree in found] == [changed, removed]


@pytest.mark.parametrize(
    ("live", "new", "changed", "removed"),
    [
        (5, {"x": 1}, {".": {}, "f:x": {}}, None),
        ({"x": 1}, 5, {}, {"f:x": {}}),
        (None, {"x": 1}, {"f:x": {}}, None),
        ({"x": 1}, None, None, {"f:x": {}}),
        (None, {}, {}, None),
        (None, 5, {}, None),
        ([1], [2], {}, None),
        (1, True, {}, None),
        (1, 1.0, None, None),
        ({"x": [1]}, {"x": [True]}, {"f:x": {}}, None),
    ],
)
def test_compare_deduces_types_without_a_schema(live: Any, new: Any, changed: Any, removed: Any) -> None:
    """A value may become a map and back; 1 and true differ."""
    found = compare({"a": live}, {"a": new}, DEDUCED.type)
    assert (found.changed.get("f:a"), found.removed.get("f:a")) == (changed, removed)


@pytest.mark.parametrize(
    ("live", "new", "changed", "removed"),
    [
        ("old", ["a"], {".": {}, 'v:"a"': {}}, {}),
        (["a"], "new", {}, {".": {}, 'v:"a"': {}}),
        ({"x": 1}, ["a"], {".": {}, 'v:"a"': {}}, {}),
    ],
)
def test_compare_takes_values_of_another_schema_as_a_whole(live: Any, new: Any, changed: Any, removed: Any) -> None:
    """A list that was a string before is entirely new."""
    found = compare({"set": live}, {"set": new}, SETS)
    assert (found.changed["f:set"], found.removed["f:set"]) == (changed, removed)
    assert applied_fields({"set": live}, SETS) == {"f:set": {'v:"a"': {}} if live == ["a"] else {}}


def test_items_without_plain_names_are_found_too() -> None:
    """Names are escaped, and an item without its key has the key's zero value."""
    containers = [{"name": 'a"b'}, {"image": "i"}]
    found = compare({}, {"spec": {"containers": containers}}, POD).changed["f:spec"]["f:containers"]
    assert list(found) == [".", 'k:{"name":""}', 'k:{"name":"a\\"b"}']


def test_write_through_a_subresource_may_keep_all_metadata() -> None:
    """For a custom resource definition, a status write does not claim labels."""
    schema = schema_of("apiextensions.v1.CustomResourceDefinition")
    new = {"metadata": {"labels": {"a": "1"}}, "spec": {"group": "g"}, "status": {"storedVersions": ["v1"]}}
    found = compare(schema.empty, new, schema.type, schema.resets["status"])
    assert found == Comparison(
        {"f:status": {"f:storedVersions": {}}},
        {"f:status": {"f:acceptedNames": {".": {}, "f:kind": {}, "f:plural": {}}, "f:conditions": {}}},
    )


def test_applied_fields_are_leaves_and_list_items() -> None:
    """An applied value does not claim the maps and lists that contain them."""
    value = {
        "metadata": {"labels": {"a": "1"}, "annotations": {}, "finalizers": []},
        "spec": {"containers": [{"name": "c", "env": [], "command": [], "resources": None}], "volumes": [{}]},
    }
    assert applied_fields(value, POD) == {
        "f:metadata": {"f:annotations": {}, "f:labels": {"f:a": {}}},
        "f:spec": {
            "f:containers": {C: {".": {}, "f:command": {}, "f:name": {}, "f:resources": {}}},
            "f:volumes": {'k:{"name":""}': {}},
        },
    }


@pytest.mark.parametrize("item", [None, {}, []])
def test_item_that_does_not_fit_its_list_is_refused(item: Any) -> None:
    """Sets hold scalars; keyed lists hold maps with at least one key."""
    for name in ("set", "map"):
        with pytest.raises(FieldsError):
            element_of(item, SETS.child(name)[1])


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from("abc"), JSON), st.dictionaries(st.sampled_from("abc"), JSON))
def test_compare_is_empty_only_for_equals_and_sides_do_not_overlap(live: Any, new: Any) -> None:
    """No difference means equal JSON; changed fields are in the new object and are not also removed."""
    found = compare(live, new, DEDUCED.type)
    assert (found == Comparison()) == equal(live, new)
    everything = all_fields(new, DEDUCED.type)
    assert all(has(everything, path) for path in paths(found.changed))
    assert intersection(found.changed, found.removed) == NOTHING
    assert compare(new, new, DEDUCED.type) == Comparison()


@settings(max_examples=60)
@given(JSON, JSON)
def test_equal_is_stricter_than_pythons_equality(left: Any, right: Any) -> None:
    """It is also reflexive and symmetric."""
    assert equal(left, left)
    assert equal(left, right) == equal(right, left)
    assert not equal(left, right) or left == right


@pytest.mark.parametrize(
    ("left", "right", "is_equal"),
    [
        ('"some text"', '"some text"', True),
        ('"some text"', '"another"', False),
        ("1000000", "1000000", True),
        ("1", "1.0", True),
        ("1.5", "1.5", True),
        ("true", "1", False),
        ("0", "false", False),
        ("true", "false", False),
        ('{"a": [1000000]}', '{"a": [1000000.0]}', True),
        ('{"a": [1]}', '{"a": [true]}', False),
        ('{"a": null}', "{}", False),
        ("[1, 2]", "[2, 1]", False),
    ],
)
def test_values_are_equal_as_json(left: str, right: str, *, is_equal: bool) -> None:
    """Values that were read apart are equal, too."""
    assert equal(json.loads(left), json.loads(right)) == is_equal
