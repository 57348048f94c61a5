"""The fields of a value: all of them if it came as a whole, or those that somebody applies.

In: a value and its type. Out: trees of fields. Lists that are maps have an element per item, told apart by its key
fields; an item that occurs twice is one field, whatever is in it.

Upstream: structured-merge-diff/typed/tofieldset.go, and what compare.go says of a value that was not there before
"""

from typing import Any, NamedTuple

from pykubelet.apiserver.fields.elements import FieldsError, is_plain, key_element, value_element
from pykubelet.apiserver.fields.field_sets import LEAF, SELF, FieldTree, in_order
from pykubelet.apiserver.fields.schema_types import FieldType

# Objects of one kind have few shapes; a client that makes them up must not fill our memory.
_REMEMBERED_SHAPES = 256


class _Shape(NamedTuple):
    """The tree of objects with the same fields, and where their values matter."""

    tree: FieldTree
    deep: tuple[tuple[str, str, FieldType], ...]


def resolved(type: FieldType, value: Any) -> FieldType | None:
    """The type of a value that may be anything; None if it is then one value."""
    if type.is_leaf:
        return None
    if type.kind != "any":
        return type
    return type.as_map if isinstance(value, dict) else None


def element_of(item: Any, type: FieldType) -> str:
    """The element of a list's item; FieldsError if it has no place in such a list."""
    if not type.keys:
        if item is None or isinstance(item, dict | list):
            raise FieldsError(_not_in_a_set(item))
        return value_element(item)
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise FieldsError(f"associative list with keys may not have {what}")
    defaults = type.key_defaults
    keys = [(key, item[key] if key in item else defaults[key]) for key in type.keys if key in item or key in defaults]
    if not keys:
        names = " ".join(f'"{key}"' for key in type.keys)
        raise FieldsError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key_element(keys)


def _not_in_a_set(item: Any) -> str:
    if isinstance(item, dict):
        return "associative list without keys has an element that's a map type"
    if isinstance(item, list):
        return "not supported: associative list with lists as elements"
    return "associative list without keys has an element that's an explicit null"


def whole(value: Any, type: FieldType) -> FieldTree:
    """Every field of a value that came or went as a whole, the value itself among them."""
    if type.is_leaf or not value:
        return LEAF
    if isinstance(value, dict):
        if type.kind == "any" and type.as_map is not None:
            type = type.as_map
        return _whole_map(value, type) if type.kind == "map" else LEAF
    if type.kind != "list" or not isinstance(value, list):
        return LEAF
    return {SELF: LEAF, **whole_items(value, type)}


def whole_items(items: list[Any], type: FieldType) -> FieldTree:
    """The items of a list, each as a whole."""
    inner = type.items
    assert inner is not None
    if len(type.keys) == 1 and (named := _by_plain_name(items, type.keys[0])) is not None:
        before = f'k:{{"{type.keys[0]}":"'
        each = whole if inner.is_leaf or inner.kind != "map" else _whole_map
        return {f'{before}{name}"}}': each(named[name], inner) for name in sorted(named)}
    tree: FieldTree = {}
    for item in items:
        element = element_of(item, type)
        tree[element] = LEAF if element in tree else whole(item, inner)
    return in_order(tree)


def _by_plain_name(items: list[Any], key: str) -> dict[str, Any] | None:
    """The items by their name where all have one that is written as it is; for speed, as most lists are like that."""
    try:
        named: dict[str, Any] = {item[key]: item for item in items}
        is_plain_text = is_plain("".join(named))
    except (TypeError, KeyError):
        return None
    return named if is_plain_text and len(named) == len(items) else None


def _whole_map(value: dict[str, Any], type: FieldType) -> FieldTree:
    names = tuple(value)
    shape = type.shapes.get(names)
    if shape is None:
        if not type.fields and type.others is not None and type.others.is_leaf:
            return {SELF: LEAF, **dict.fromkeys([f"f:{name}" for name in sorted(names)], LEAF)}
        shape = _shape_of(names, type)
    if not shape.deep:
        return shape.tree
    tree = shape.tree.copy()
    for name, step, inner in shape.deep:
        if inner_value := value[name]:
            tree[step] = whole(inner_value, inner)
    return tree


def _shape_of(names: tuple[str, ...], type: FieldType) -> _Shape:
    children = [(name, *type.child(name)) for name in sorted(names)]
    tree = {SELF: LEAF, **{step: LEAF for _, step, _ in children}}
    shape = _Shape(tree, tuple(child for child in children if not child[2].is_leaf))
    # The names in a map are the user's own, so no shape comes twice.
    if type.fields and len(type.shapes) < _REMEMBERED_SHAPES:
        type.shapes[names] = shape
    return shape


def said(value: Any, type: FieldType) -> FieldTree | None:
    """The fields below a value that somebody says: ends, items of lists, entries of maps; None if it says nothing."""
    found = resolved(type, value)
    if found is None or not value:
        return None if isinstance(value, list) and found is not None else LEAF
    if isinstance(value, dict):
        return _said_map(value, found) if found.kind == "map" else LEAF
    item_type = found.items
    if item_type is None or not isinstance(value, list):
        return LEAF
    tree: FieldTree = {}
    for item in value:
        element = element_of(item, found)
        tree[element] = LEAF if element in tree else _with_self(said(item, item_type))
    return in_order(tree)


def _said_map(value: dict[str, Any], type: FieldType) -> FieldTree | None:
    tree: FieldTree = {}
    for name, inner in value.items():
        step, inner_type = type.child(name)
        below = said(inner, inner_type)
        if name not in type.fields:
            below = _with_self(below)
        if below is not None:
            tree[step] = below
    return in_order(tree) or None


def _with_self(tree: FieldTree | None) -> FieldTree:
    return {SELF: LEAF, **tree} if tree else LEAF
