"""What changed between two objects: fields that are new or differ, and fields that are gone.

In: two documents of one kind and its schema. Out: two trees of fields. One walk, and only through what differs.

Upstream: structured-merge-diff/typed/compare.go, and the metadata that nobody owns in managedfields' stripmeta.go
"""

from typing import Any, Final, NamedTuple

from pykubelet.api.families import Families
from pykubelet.api.wire import Document
from pykubelet.apiserver.fields.field_sets import LEAF, NOTHING, SELF, FieldTree, in_order, tree_of, union
from pykubelet.apiserver.fields.resets import NO_RESET, Reset
from pykubelet.apiserver.fields.schema_types import FieldType
from pykubelet.apiserver.fields.walk import element_of, whole, whole_items

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
UNOWNED: Final = tree_of(
    *((f"f:{name}",) for name in sorted(_UNOWNED)),
    ("f:metadata",),
    *(("f:metadata", f"f:{name}") for name in sorted(_UNOWNED_METADATA)),
)
"""What the server keeps for itself."""
_ABSENT: Final = object()


class Comparison(NamedTuple):
    """Fields that are new or have another value, and fields that are no more."""

    changed: FieldTree = NOTHING
    removed: FieldTree = NOTHING


class _Below(NamedTuple):
    """The same below a field, where None says that there is nothing, not even the field."""

    changed: FieldTree | None = None
    removed: FieldTree | None = None


_CHANGED: Final = _Below(LEAF)


_families = Families[_Below]()


def compare(
    live: Document, new: Document, type: FieldType, reset: Reset = NO_RESET, *, is_new: bool = False
) -> Comparison:
    """What a write changes, leaving out what it cannot change and what nobody owns.

    With `is_new`, the live object is the empty one of the kind.
    """
    put_back = {step[2:] for step, below in reset.fields.items() if not below} if not reset.others else ()
    left, right = _owned(live, put_back), _owned(new, put_back)
    changed, removed = _compare_new(left, right, type) if is_new else _compare_maps(left, right, type)
    if len(put_back) < len(reset.fields):
        return Comparison(reset.left_of(changed or NOTHING), reset.left_of(removed or NOTHING))
    return Comparison(changed or NOTHING, removed or NOTHING)


def _compare_new(empty: Document, new: Document, type: FieldType) -> _Below:
    """The empty object and a new one; both are taken apart. The fields of a spec are found once for its family."""
    before, after = ({"spec": side.pop("spec")} if "spec" in side else {} for side in (empty, new))
    rest = _compare_maps(empty, new, type)
    spec = _families.of(after, lambda: _compare_maps(before, after, type), also=type)
    changed = union(rest.changed or NOTHING, spec.changed or NOTHING)
    removed = union(rest.removed or NOTHING, spec.removed or NOTHING)
    return _Below(changed or None, removed or None)


def _owned(document: Document, put_back: Any) -> Document:
    owned = {name: value for name, value in document.items() if name not in _UNOWNED and name not in put_back}
    if "metadata" not in put_back:
        metadata = document.get("metadata") or {}
        owned["metadata"] = {name: value for name, value in metadata.items() if name not in _UNOWNED_METADATA}
    return owned


def equal(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON; 1 is not true, but it is 1.0."""
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
    """Two values that differ."""
    if type.is_leaf:
        return _CHANGED
    if type.kind == "any":
        return _compare_any(left, right, type)
    if not left and not right:
        # Null, empty list and empty map differ, and there is nothing below them.
        return _CHANGED
    expected = dict if type.kind == "map" else list
    if not all(value is None or isinstance(value, expected) for value in (left, right)):
        # Written under another schema of a custom resource.
        return _Below(whole(right, type), whole(left, type))
    if type.kind == "map":
        return _compare_maps(left or {}, right or {}, type)
    return _compare_lists(left or [], right or [], type)


def _compare_any(left: Any, right: Any, type: FieldType) -> _Below:
    assert type.as_map is not None
    below = _compare_maps(left if isinstance(left, dict) else {}, right if isinstance(right, dict) else {}, type.as_map)
    # A null takes the form of the other side; where both are empty, there is nothing below that could differ.
    if isinstance(left, dict | None) and isinstance(right, dict | None) and (left or right):
        return below
    # One of them is a value, so the field itself changed, besides what was or is below it.
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
            changed[step] = whole(value, inner)
        else:
            _add(changed, removed, step, _compare_values(old, value, inner))
    for name in left.keys() - right.keys():
        step, inner = type.child(name)
        removed[step] = whole(left[name], inner)
    return _Below(_sorted(changed), _sorted(removed))


def _compare_lists(left: list[Any], right: list[Any], type: FieldType) -> _Below:
    if not left:
        return _Below(whole_items(right, type))
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
            changed[element] = LEAF if len(items) > 1 else whole(items[0], inner)
        else:
            _add(changed, removed, element, _compare_items(known, items, inner))
    for element in olds.keys() - news.keys():
        items = olds[element]
        removed[element] = LEAF if len(items) > 1 else whole(items[0], inner)
    return _Below(_sorted(changed), _sorted(removed))


def _by_element(items: list[Any], type: FieldType) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(element_of(item, type), []).append(item)
    return found


def _compare_items(left: list[Any], right: list[Any], type: FieldType) -> _Below:
    """Items with one key; where there are several on a side, they are one field there."""
    match len(left) > 1, len(right) > 1:
        case False, False:
            return _compare_values(left[0], right[0], type)
        case True, True:
            return _CHANGED
        case True, False:
            return _Below(whole(right[0], type), LEAF)
        case _:
            return _Below(LEAF, whole(left[0], type))


def _add(changed: FieldTree, removed: FieldTree, step: str, below: _Below) -> None:
    if below.changed is not None:
        changed[step] = below.changed
    if below.removed is not None:
        removed[step] = below.removed


def _sorted(tree: FieldTree) -> FieldTree | None:
    return in_order(tree) or None


def all_of(comparison: Comparison) -> FieldTree:
    """Every field that is not as it was."""
    return union(comparison.changed, comparison.removed)
