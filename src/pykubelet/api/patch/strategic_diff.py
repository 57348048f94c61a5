"""Makes the strategic merge patch that leads from one document to another.

In: both documents and their type. Out: the patch, with null for a field that goes, `$patch: delete` for an element that
goes, `$setElementOrder` beside a list that changes, `$retainKeys` where the field has that strategy. Parts of the
modified document are shared with the patch; neither input is changed.

Upstream: apimachinery/pkg/util/strategicpatch/patch.go (diffMaps and below).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from pykubelet.api.patch.element_order import (
    Items,
    element_keys,
    element_type,
    first_positions,
    merge_names,
    sort_by_position,
    without_repeats,
)
from pykubelet.api.patch.errors import MalformedPatchError, UnknownFieldError
from pykubelet.api.patch.json_values import ABSENT, go_text, same
from pykubelet.api.patch.schema import FieldSchema, TypeSchema
from pykubelet.api.patch.strategic_words import DELETE_FROM_LIST, PATCH, RETAIN_KEYS, SET_ELEMENT_ORDER

Map = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DiffScope:
    """Which differences a patch is to carry."""

    changes: bool = True
    deletions: bool = True
    element_order: bool = True


EVERYTHING: Final = DiffScope()


def diff_maps(
    original: Map, modified: Map, schema: TypeSchema, scope: DiffScope = EVERYTHING, *, retain_keys: bool = False
) -> Map:
    """The patch from one map to the other, empty if there is nothing to say; raises `PatchError`."""
    _check_directives(original, modified)
    patch: Map = {}
    for key, value in modified.items():
        before = original.get(key, ABSENT)
        kind = type(value)
        if type(before) is kind is dict:
            _diff_map_field(key, before, value, patch, schema, scope)
        elif type(before) is kind is list:
            _diff_list_field(key, before, value, patch, schema, scope)
        elif (type(before) is not kind or before != value) and (scope.changes or key == PATCH):
            patch[key] = value
    gone = [key for key in original if key not in modified]
    if scope.deletions:
        patch.update(dict.fromkeys(gone))
    if retain_keys and (patch or any(original[key] is not None for key in gone)):
        patch.update(_retained(modified))
    return patch


def _check_directives(original: Map, modified: Map) -> None:
    """Documents may hold `$patch` themselves, if it is a word."""
    if PATCH in original and PATCH in modified and not type(original[PATCH]) is type(modified[PATCH]) is str:
        raise MalformedPatchError(f"invalid value for special key: {PATCH}")


def _retained(modified: Map) -> Map:
    """The directive that names every field the modified map sets."""
    names = sorted(key for key, value in modified.items() if value is not None)
    return {RETAIN_KEYS: names} if names else {}


def _diff_map_field(key: str, before: Map, value: Map, patch: Map, schema: TypeSchema, scope: DiffScope) -> None:
    try:
        field = schema.field(key)
    except UnknownFieldError:
        if same(before, value):
            return
        raise
    if field.strategy == "replace":
        # Upstream sends the whole map without asking whether it changed.
        if scope.changes:
            patch[key] = value
        return
    inner = diff_maps(before, value, field.type, scope, retain_keys=field.retain_keys)
    if inner:
        patch[key] = inner


def _diff_list_field(key: str, before: Items, value: Items, patch: Map, schema: TypeSchema, scope: DiffScope) -> None:
    try:
        field = schema.list_field(key)
    except UnknownFieldError:
        if same(before, value):
            return
        raise
    if field.strategy != "merge":
        if scope.changes and not same(before, value):
            patch[key] = value
    elif not before:
        if value and scope.changes:
            patch[key] = value
    elif element_type(before, value) is dict:
        _diff_list_of_maps(key, before, value, patch, field, scope)
    else:
        _diff_list_of_scalars(key, before, value, patch, scope)


def _diff_list_of_scalars(key: str, before: Items, value: Items, patch: Map, scope: DiffScope) -> None:
    old = sorted(before, key=go_text)
    pairs = list(_pair_by_name(list(map(go_text, before)), before, list(map(go_text, value)), value))
    added = [new for known, new in pairs if known is ABSENT and scope.changes]
    deleted = [known for known, new in pairs if new is ABSENT and scope.deletions]
    if added:
        patch[key] = _in_order_of(value, added, "")
    if deleted:
        patch[f"{DELETE_FROM_LIST}/{key}"] = without_repeats(deleted)
    # Upstream compares with the original as it has just sorted it, so an unsorted list always brings its order along.
    if scope.element_order and value and (deleted or (scope.changes and not same(old, value))):
        patch[f"{SET_ELEMENT_ORDER}/{key}"] = value


def _diff_list_of_maps(key: str, before: Items, value: Items, patch: Map, field: FieldSchema, scope: DiffScope) -> None:
    merge_key = field.merge_key
    old_names, new_names = merge_names(before, merge_key), merge_names(value, merge_key)
    changed, deleted = [], []
    for known, new in _pair_by_name(old_names, before, new_names, value):
        if known is ABSENT:
            if scope.changes:
                changed.append(new)
        elif new is ABSENT:
            if scope.deletions:
                deleted.append({merge_key: known[merge_key], PATCH: "delete"})
        elif inner := diff_maps(known, new, field.element, scope, retain_keys=field.retain_keys):
            inner[merge_key] = new[merge_key]
            changed.append(inner)
    elements = _in_order_of(value, changed, merge_key) + deleted
    if elements:
        patch[key] = elements
    reordered = scope.changes and old_names != new_names
    if scope.element_order and value and (elements or reordered):
        patch[f"{SET_ELEMENT_ORDER}/{key}"] = [{merge_key: item[merge_key]} for item in value]


def _in_order_of(order: Items, items: Items, merge_key: str) -> Items:
    """The items as they stand in `order`."""
    if not items:
        return items
    places = first_positions(element_keys(order, merge_key))
    pairs = list(zip(element_keys(items, merge_key), items, strict=True))
    return [item for _, item in sort_by_position(pairs, places)]


def _pair_by_name(old_names: list[str], old: Items, new_names: list[str], new: Items) -> Iterator[tuple[Any, Any]]:
    """Pairs of what bears the same name, in the order of names; ABSENT where one side has no such item."""
    if old_names == new_names and len(set(old_names)) == len(old_names):
        yield from zip(old, new, strict=True)
        return
    lefts, rights = _sorted_by_name(old_names, old), _sorted_by_name(new_names, new)
    while lefts or rights:
        if lefts and rights and lefts[-1][0] == rights[-1][0]:
            yield lefts.pop()[1], rights.pop()[1]
        elif not lefts or (rights and lefts[-1][0] > rights[-1][0]):
            yield ABSENT, rights.pop()[1]
        else:
            yield lefts.pop()[1], ABSENT


def _sorted_by_name(names: list[str], items: Items) -> list[tuple[str, Any]]:
    """The first name last, to be popped. Popping turns equal names around, which is what upstream's sort does to them."""
    return sorted(zip(names, items, strict=True), key=itemgetter(0), reverse=True)
