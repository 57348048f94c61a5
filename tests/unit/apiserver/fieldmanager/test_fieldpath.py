"""Field sets: set operations, Go's order, and the FieldsV1 format."""

import json

import pytest
from hypothesis import given, settings
from unit.apiserver.fieldmanager.trees import flat, is_in_order, trees

from pykubelet.apiserver.fieldmanager.fieldpath import (
    LEAF,
    FieldsError,
    FieldTree,
    difference,
    has,
    in_order,
    intersection,
    only,
    paths,
    read_fields,
    tree_of,
    union,
    without,
)


@settings(max_examples=120)
@given(trees(), trees())
def test_operations_are_those_of_sets(left: FieldTree, right: FieldTree) -> None:
    """Union, difference and intersection of trees are those of their paths, in order."""
    for made, wanted in (
        (union(left, right), flat(left) | flat(right)),
        (difference(left, right), flat(left) - flat(right)),
        (intersection(left, right), flat(left) & flat(right)),
        (
            without(left, right),
            {path for path in flat(left) if not any(path[:end] in flat(right) for end in range(1, len(path) + 1))},
        ),
    ):
        assert flat(made) == wanted
        assert made == tree_of(*wanted)
        assert is_in_order(made)


@settings(max_examples=60)
@given(trees(), trees())
def test_difference_gives_the_same_tree_when_nothing_is_taken(left: FieldTree, right: FieldTree) -> None:
    """An owner that loses no field need not be rewritten."""
    rest = difference(left, right)
    assert (rest is left) == (not flat(left) & flat(right))


@settings(max_examples=60)
@given(trees())
def test_fields_read_back_from_their_text(tree: FieldTree) -> None:
    """The tree read equals the tree written, and has the same members."""
    assert read_fields(json.loads(json.dumps(tree))) == tree
    assert all(has(tree, path) for path in flat(tree))


def test_read_fields_normalizes_spelling() -> None:
    """A client may use another order, spaces and needless marks."""
    given_fields = {
        ".": {},
        "f:b": {".": {}},
        "f:a": {'k:{ "protocol":"TCP","port":80 }': {"f:name": None}, "z:future": {"f:x": {}}},
        "f:c": {"z:future": {}},
    }
    wanted: FieldTree = {"f:a": {'k:{"port":80,"protocol":"TCP"}': {"f:name": {}}}, "f:b": {}, "f:c": {}}
    assert json.dumps(read_fields(given_fields)) == json.dumps(wanted)


@pytest.mark.parametrize("broken", [[], 5, "f:a", {"f:a": 1}, {"fa": {}}, {"f:a": {"k:{": {}}}])
def test_read_fields_refuses_invalid_sets(broken: object) -> None:
    """On this error the caller can keep the owners it has."""
    with pytest.raises(FieldsError):
        read_fields(broken)


def test_read_fields_refuses_endless_nesting() -> None:
    """A tree as deep as a client likes is an error, not a crash."""
    deep: FieldTree = {}
    for _ in range(3000):
        deep = {"f:a": deep}
    with pytest.raises(FieldsError):
        read_fields(deep)


def test_only_keeps_what_a_pattern_leads_to() -> None:
    """Wildcards match any item; fields on the way to a match stay, others are dropped."""
    pattern = {"f:spec": {"f:containers": {"*": {"f:resources": LEAF}}}}
    item = 'k:{"name":"c"}'
    tree = tree_of(
        ("f:spec", "f:containers", item),
        ("f:spec", "f:containers", item, "f:image"),
        ("f:spec", "f:containers", item, "f:resources", "f:limits", "f:cpu"),
        ("f:spec", "f:nodeName"),
        ("f:metadata", "f:labels"),
    )
    assert only(tree, pattern) == tree_of(
        ("f:spec", "f:containers", item), ("f:spec", "f:containers", item, "f:resources", "f:limits", "f:cpu")
    )


def test_paths_come_level_by_level() -> None:
    """Fields of one level precede those of the next, as in the list of conflicts."""
    tree = tree_of(("f:a", "f:z"), ("f:b",), ("f:c", "f:d"), ("f:c",))
    assert list(paths(tree)) == [("f:b",), ("f:c",), ("f:a", "f:z"), ("f:c", "f:d")]


def test_in_order_keeps_names_before_keys() -> None:
    """A node may hold both after a schema change."""
    assert list(in_order({"v:9": {}, 'k:{"a":1}': {}, "f:z": {}, ".": {}, "v:10": {}})) == [
        ".",
        "f:z",
        'k:{"a":1}',
        "v:9",
        "v:10",
    ]
