"""Compares, merges and prunes documents by field, as structured-merge-diff's typed package does.

Comparison walks only through what differs. Results share unchanged parts with their inputs. Merged lists keep the
order of the applied list; items that only the live list has stay in place between them. A keyed list has an element
per item; items with the same key are one field.

Upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/typed/compare.go,
vendor/sigs.k8s.io/structured-merge-diff/v6/typed/merge.go, vendor/sigs.k8s.io/structured-merge-diff/v6/typed/remove.go,
vendor/sigs.k8s.io/structured-merge-diff/v6/typed/tofieldset.go,
vendor/sigs.k8s.io/structured-merge-diff/v6/typed/reconcile_schema.go,
staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/stripmeta.go
"""

from collections import deque
from typing import Any, Final, NamedTuple

from pykubelet.api.serializer import Document
from pykubelet.apiserver.fieldmanager import fieldpath
from pykubelet.apiserver.fieldmanager.fieldpath import LEAF, NOTHING, SELF, FieldsError, FieldTree
from pykubelet.apiserver.fieldmanager.typeconverter import NO_RESET, FieldType, ResetFields
from pykubelet.kinds.kind import SpecCache

# Objects of one kind have few shapes; the limit bounds the memory that made-up ones take.
_REMEMBERED_SHAPES = 256


class _Shape(NamedTuple):
    """The field tree of objects with the same fields, and the fields whose values matter."""

    tree: FieldTree
    deep: tuple[tuple[str, str, FieldType], ...]


def resolved(type: FieldType, value: Any) -> FieldType | None:
    """The type of a value of any type; None if the value is then atomic."""
    if type.is_leaf:
        return None
    if type.kind != "any":
        return type
    return type.as_map if isinstance(value, dict) else None


def element_of(item: Any, type: FieldType) -> str:
    """The element of a list item; FieldsError if it does not fit the list."""
    if not type.keys:
        if item is None or isinstance(item, dict | list):
            raise FieldsError(_not_in_a_set(item))
        return fieldpath.value_element(item)
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
    return fieldpath.key_element(keys)


def _not_in_a_set(item: Any) -> str:
    if isinstance(item, dict):
        return "associative list without keys has an element that's a map type"
    if isinstance(item, list):
        return "not supported: associative list with lists as elements"
    return "associative list without keys has an element that's an explicit null"


def all_fields(value: Any, type: FieldType) -> FieldTree:
    """All fields of a value, the value itself included."""
    if type.is_leaf or not value:
        return LEAF
    if isinstance(value, dict):
        if type.kind == "any" and type.as_map is not None:
            type = type.as_map
        return _whole_map(value, type) if type.kind == "map" else LEAF
    if type.kind != "list" or not isinstance(value, list):
        return LEAF
    return {SELF: LEAF, **all_item_fields(value, type)}


def all_item_fields(items: list[Any], type: FieldType) -> FieldTree:
    inner = type.items
    assert inner is not None
    if len(type.keys) == 1 and (named := _by_plain_name(items, type.keys[0])) is not None:
        before = f'k:{{"{type.keys[0]}":"'
        each = all_fields if inner.is_leaf or inner.kind != "map" else _whole_map
        return {f'{before}{name}"}}': each(named[name], inner) for name in sorted(named)}
    tree: FieldTree = {}
    for item in items:
        element = element_of(item, type)
        tree[element] = LEAF if element in tree else all_fields(item, inner)
    return fieldpath.in_order(tree)


def _by_plain_name(items: list[Any], key: str) -> dict[str, Any] | None:
    """The items by name if all have a plain one; a fast path, as most lists are like that."""
    try:
        named: dict[str, Any] = {item[key]: item for item in items}
        is_plain_text = fieldpath.is_plain("".join(named))
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
            tree[step] = all_fields(inner_value, inner)
    return tree


def _shape_of(names: tuple[str, ...], type: FieldType) -> _Shape:
    children = [(name, *type.child(name)) for name in sorted(names)]
    tree = {SELF: LEAF, **{step: LEAF for _, step, _ in children}}
    shape = _Shape(tree, tuple(child for child in children if not child[2].is_leaf))
    # The keys of a map are user data, so caching their shape is useless.
    if type.fields and len(type.shapes) < _REMEMBERED_SHAPES:
        type.shapes[names] = shape
    return shape


def applied_fields(value: Any, type: FieldType) -> FieldTree | None:
    """The fields that a configuration applies: leaves, list items, map entries; None if there are none."""
    found = resolved(type, value)
    if found is None or not value:
        return None if isinstance(value, list) and found is not None else LEAF
    if isinstance(value, dict):
        return _applied_map_fields(value, found) if found.kind == "map" else LEAF
    item_type = found.items
    if item_type is None or not isinstance(value, list):
        return LEAF
    tree: FieldTree = {}
    for item in value:
        element = element_of(item, found)
        tree[element] = LEAF if element in tree else _with_self(applied_fields(item, item_type))
    return fieldpath.in_order(tree)


def _applied_map_fields(value: dict[str, Any], type: FieldType) -> FieldTree | None:
    tree: FieldTree = {}
    for name, inner in value.items():
        step, inner_type = type.child(name)
        below = applied_fields(inner, inner_type)
        if name not in type.fields:
            below = _with_self(below)
        if below is not None:
            tree[step] = below
    return fieldpath.in_order(tree) or None


def _with_self(tree: FieldTree | None) -> FieldTree:
    return {SELF: LEAF, **tree} if tree else LEAF


_UNOWNED: Final = frozenset({"apiVersion", "kind"})
_UNOWNED_METADATA: Final = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)
UNOWNED: Final = fieldpath.tree_of(
    *((f"f:{name}",) for name in sorted(_UNOWNED)),
    ("f:metadata",),
    *(("f:metadata", f"f:{name}") for name in sorted(_UNOWNED_METADATA)),
)
"""The metadata fields that have no owner."""
_ABSENT: Final = object()


class Comparison(NamedTuple):
    """The fields that were added or changed, and those that were removed."""

    changed: FieldTree = NOTHING
    removed: FieldTree = NOTHING


class _Below(NamedTuple):
    """Like Comparison, below one field; None means that the field itself does not exist."""

    changed: FieldTree | None = None
    removed: FieldTree | None = None


_CHANGED: Final = _Below(LEAF)
_spec_fields = SpecCache[_Below]()


def compare(
    live: Document, new: Document, type: FieldType, reset: ResetFields = NO_RESET, *, is_new: bool = False
) -> Comparison:
    """Compares the fields that the write can change and own; with `is_new`, `live` is the kind's empty object."""
    reset_names = {step[2:] for step, below in reset.fields.items() if not below} if not reset.others else ()
    left, right = _owned(live, reset_names), _owned(new, reset_names)
    changed, removed = _compare_new(left, right, type) if is_new else _compare_maps(left, right, type)
    if len(reset_names) < len(reset.fields):
        return Comparison(reset.left_of(changed or NOTHING), reset.left_of(removed or NOTHING))
    return Comparison(changed or NOTHING, removed or NOTHING)


def _compare_new(empty: Document, new: Document, type: FieldType) -> _Below:
    """Compares the empty object with a new one. The fields of repeated specs are cached."""
    before, after = ({"spec": side.pop("spec")} if "spec" in side else {} for side in (empty, new))
    rest = _compare_maps(empty, new, type)
    spec = _spec_fields.of(after, lambda: _compare_maps(before, after, type), also=type)
    changed = fieldpath.union(rest.changed or NOTHING, spec.changed or NOTHING)
    removed = fieldpath.union(rest.removed or NOTHING, spec.removed or NOTHING)
    return _Below(changed or None, removed or None)


def _owned(document: Document, reset_names: Any) -> Document:
    owned = {name: value for name, value in document.items() if name not in _UNOWNED and name not in reset_names}
    if "metadata" not in reset_names:
        metadata = document.get("metadata") or {}
        owned["metadata"] = {name: value for name, value in metadata.items() if name not in _UNOWNED_METADATA}
    return owned


def equal(left: Any, right: Any) -> bool:
    """Whether two values are equal as JSON: 1 equals 1.0 but not true."""
    if left is right:
        return True
    kind = type(left)
    if kind is not type(right):
        return not isinstance(left, bool) and not isinstance(right, bool) and bool(left == right)
    if kind is dict:
        return len(left) == len(right) and all(name in right and equal(left[name], right[name]) for name in left)
    if kind is list:
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


def _compare_values(left: Any, right: Any, type: FieldType) -> _Below:
    """Compares two values that differ."""
    if type.is_leaf:
        return _CHANGED
    if type.kind == "any":
        return _compare_any(left, right, type)
    if not left and not right:
        # Null, empty list and empty map differ, but have no fields.
        return _CHANGED
    expected = dict if type.kind == "map" else list
    if not all(value is None or isinstance(value, expected) for value in (left, right)):
        # Stored under another schema of a custom resource.
        return _Below(all_fields(right, type), all_fields(left, type))
    if type.kind == "map":
        return _compare_maps(left or {}, right or {}, type)
    return _compare_lists(left or [], right or [], type)


def _compare_any(left: Any, right: Any, type: FieldType) -> _Below:
    assert type.as_map is not None
    below = _compare_maps(left if isinstance(left, dict) else {}, right if isinstance(right, dict) else {}, type.as_map)
    # A null counts as an empty map or list, like the other side; if both are empty, no field differs.
    if isinstance(left, dict | None) and isinstance(right, dict | None) and (left or right):
        return below
    # One of them is not a map or list, so the field itself changed, besides the fields below it.
    return _Below({SELF: LEAF, **below.changed} if below.changed else LEAF, below.removed)


def _compare_maps(left: dict[str, Any], right: dict[str, Any], type: FieldType) -> _Below:
    changed: FieldTree = {}
    removed: FieldTree = {}
    for name, value in right.items():
        old = left.get(name, _ABSENT)
        if old is value or (old == value and (type.is_exact or equal(old, value))):
            continue
        step, inner = type.child(name)
        if old is _ABSENT:
            changed[step] = all_fields(value, inner)
        else:
            _add(changed, removed, step, _compare_values(old, value, inner))
    for name in left.keys() - right.keys():
        step, inner = type.child(name)
        removed[step] = all_fields(left[name], inner)
    return _Below(_sorted(changed), _sorted(removed))


def _compare_lists(left: list[Any], right: list[Any], type: FieldType) -> _Below:
    if not left:
        return _Below(all_item_fields(right, type))
    inner = type.items
    assert inner is not None
    olds, news = _by_element(left, type), _by_element(right, type)
    changed: FieldTree = {}
    removed: FieldTree = {}
    for element, items in news.items():
        known = olds.get(element)
        if known == items and (inner.is_exact or equal(known, items)):
            continue
        if known is None:
            changed[element] = LEAF if len(items) > 1 else all_fields(items[0], inner)
        else:
            _add(changed, removed, element, _compare_items(known, items, inner))
    for element in olds.keys() - news.keys():
        items = olds[element]
        removed[element] = LEAF if len(items) > 1 else all_fields(items[0], inner)
    return _Below(_sorted(changed), _sorted(removed))


def _by_element(items: list[Any], type: FieldType) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(element_of(item, type), []).append(item)
    return found


def _compare_items(left: list[Any], right: list[Any], type: FieldType) -> _Below:
    """Compares items with the same key; several on one side count as one field."""
    match len(left) > 1, len(right) > 1:
        case False, False:
            return _compare_values(left[0], right[0], type)
        case True, True:
            return _CHANGED
        case True, False:
            return _Below(all_fields(right[0], type), LEAF)
        case _:
            return _Below(LEAF, all_fields(left[0], type))


def _add(changed: FieldTree, removed: FieldTree, step: str, below: _Below) -> None:
    if below.changed is not None:
        changed[step] = below.changed
    if below.removed is not None:
        removed[step] = below.removed


def _sorted(tree: FieldTree) -> FieldTree | None:
    return fieldpath.in_order(tree) or None


def all_below(comparison: Comparison) -> FieldTree:
    return fieldpath.union(comparison.changed, comparison.removed)


def merged(live: Any, applied: Any, type: FieldType) -> Any:
    """Merges the applied value into the live one."""
    # A null leaves the parts of a map or list alone; elsewhere it is a value.
    found = resolved(type, live if applied is None else applied)
    if found is None or (not live and not applied):
        return applied
    # The live value may have another form, from another schema.
    if found.kind == "map":
        return _merged_maps(live if isinstance(live, dict) else {}, applied or {}, found)
    return _merged_lists(live if isinstance(live, list) else [], applied or [], found)


def _merged_maps(live: dict[str, Any], applied: dict[str, Any], type: FieldType) -> dict[str, Any]:
    result = dict(live)
    for name, value in applied.items():
        known = live.get(name, _ABSENT)
        result[name] = value if known is _ABSENT else merged(known, value, type.child(name)[1])
    return result


def _merged_lists(live: list[Any], applied: list[Any], type: FieldType) -> list[Any]:
    inner = type.items
    assert inner is not None
    lives = [(element_of(item, type), item) for item in live]
    mine = {element_of(item, type): item for item in applied}
    known: dict[str, Any] = {}
    for element, item in lives:
        # Several live items with one key are ambiguous, so the applied item replaces all of them.
        known[element] = _ABSENT if element in known else item
    shared = deque(element for element in mine if element in known)
    result: list[Any] = []
    at = 0
    for element, item in mine.items():
        # Live items stay before the next common item; a new item is placed right before it.
        at = _take_live_items(result, lives, at, mine, shared[0] if shared else None)
        if shared and shared[0] == element:
            shared.popleft()
            at += 1
        old = known.get(element, _ABSENT)
        result.append(item if old is _ABSENT else merged(old, item, inner))
    return result + [item for element, item in lives[at:] if element not in mine]


def _take_live_items(
    result: list[Any], lives: list[tuple[str, Any]], at: int, mine: dict[str, Any], until: str | None
) -> int:
    """Takes over the live items up to the next common one, without those merged elsewhere."""
    while at < len(lives) and lives[at][0] != until:
        element, item = lives[at]
        at += 1
        if element not in mine:
            result.append(item)
        elif until is None:
            # The second of two items with one key: upstream continues with the applied list here.
            break
    return at


def removed(value: Any, fields: FieldTree, type: FieldType) -> Any:
    """Removes fields from a value; None if nothing is left."""
    found = resolved(type, value)
    if found is None:
        return None if isinstance(value, dict | list) else value
    if isinstance(value, dict):
        kept = {}
        for name, inner in value.items():
            step, inner_type = found.child(name)
            below = fields.get(step)
            if below is None:
                kept[name] = inner
            elif not fieldpath.is_member(below):
                kept[name] = removed(inner, below, inner_type)
        return kept or None
    if not isinstance(value, list) or found.kind != "list":
        return value
    items = []
    for item in value:
        below = fields.get(element_of(item, found))
        if below is None:
            items.append(item)
        elif not fieldpath.is_member(below):
            items.append(removed(item, below, found.below("k:")))
    return items or None


def with_named_fields(tree: FieldTree, type: FieldType) -> FieldTree:
    """Adds every declared field that has members below it to the set."""
    named = (type.as_map or type).fields
    result: FieldTree = {}
    for step, below in tree.items():
        inner = with_named_fields(below, type.below(step)) if below else below
        is_named = step[0] == "f" and step[2:] in named
        result[step] = {SELF: LEAF, **inner} if is_named and inner and SELF not in inner else inner
    return result


def reconciled_fields(tree: FieldTree, type: FieldType) -> FieldTree:
    """Removes the fields below lists and maps that the current schema makes atomic."""
    if type.kind == "any":
        return tree
    result: FieldTree = {}
    for step, below in tree.items():
        inner = type.below(step)
        result[step] = LEAF if inner.is_leaf and inner.kind != "scalar" else reconciled_fields(below, inner)
    return result
