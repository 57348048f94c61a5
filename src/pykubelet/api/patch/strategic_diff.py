"""Creates strategic merge patches: between two documents, and the three-way patch of `kubectl apply`.

A created patch has null for a removed field, `$patch: delete` for a removed element, `$setElementOrder` beside a
changed list and `$retainKeys` where the field has that strategy. All functions are pure: inputs are never changed, and
results share unchanged parts with them, so results must not be modified in place.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

import msgspec

from pykubelet.api.go_print import ABSENT, go_text, json_equal
from pykubelet.api.patch.errors import ConflictError, MalformedPatchError, UnknownFieldError
from pykubelet.api.patch.meta import Definition, PatchMeta, TypeSchema, type_schema
from pykubelet.api.patch.strategic_apply import (
    DELETE_FROM_LIST,
    PATCH,
    RETAIN_KEYS,
    SET_ELEMENT_ORDER,
    Items,
    apply_map,
    element_keys,
    element_type,
    first_positions,
    merge_key_texts,
    sort_by_position,
    without_repeats,
)

Map = dict[str, Any]


def diff_strategic(original: Map, modified: Map, definition: Definition) -> Map:
    """Creates the strategic merge patch between two documents; empty if they are equal.

    Applying it gives the modified document, unless that has nulls or repeats a merge key, which a patch cannot express.
    """
    return diff_maps(original, modified, type_schema(definition))


def diff_strategic_three_way(
    original: Map, modified: Map, current: Map, definition: Definition, *, overwrite: bool = True
) -> Map:
    """Creates the strategic merge patch that `kubectl apply` sends for the live document (`current`).

    It contains the changes in `modified`, and deletes what `original` (the last applied configuration) had and
    `modified` lacks. Without `overwrite`, raises `ConflictError` where the live document was changed differently.
    """
    schema = type_schema(definition)
    additions = diff_maps(current, modified, schema, DiffScope(deletions=False))
    deletions = diff_maps(original, modified, schema, DiffScope(changes=False))
    patch = apply_map(deletions, additions, schema, combining=True)
    if not overwrite:
        theirs = diff_maps(original, current, schema, DiffScope(element_order=False))
        if _maps_conflict(patch, theirs, schema):
            ours_text, theirs_text = (msgspec.json.encode(part).decode() for part in (patch, theirs))
            raise ConflictError(
                f"patch:\n{ours_text}\nconflicts with changes made from original to current:\n{theirs_text}\n"
            )
    return patch


@dataclass(frozen=True, slots=True)
class DiffScope:
    """Which differences a patch includes."""

    changes: bool = True
    deletions: bool = True
    element_order: bool = True


EVERYTHING: Final = DiffScope()


def diff_maps(
    original: Map, modified: Map, schema: TypeSchema, scope: DiffScope = EVERYTHING, *, retain_keys: bool = False
) -> Map:
    """Returns the patch between two maps, empty if they are equal; raises `PatchError`."""
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
    """Rejects `$patch` in the documents themselves, unless it is a string."""
    if PATCH in original and PATCH in modified and not type(original[PATCH]) is type(modified[PATCH]) is str:
        raise MalformedPatchError(f"invalid value for special key: {PATCH}")


def _retained(modified: Map) -> Map:
    """Returns the `$retainKeys` directive with every field of the modified map."""
    names = sorted(key for key, value in modified.items() if value is not None)
    return {RETAIN_KEYS: names} if names else {}


def _diff_map_field(key: str, before: Map, value: Map, patch: Map, schema: TypeSchema, scope: DiffScope) -> None:
    try:
        field = schema.field(key)
    except UnknownFieldError:
        if json_equal(before, value):
            return
        raise
    if field.strategy == "replace":
        # Upstream sends the whole map even if it did not change.
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
        if json_equal(before, value):
            return
        raise
    if field.strategy != "merge":
        if scope.changes and not json_equal(before, value):
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
    # Upstream compares with the original after sorting it, so an unsorted list always includes its order.
    if scope.element_order and value and (deleted or (scope.changes and not json_equal(old, value))):
        patch[f"{SET_ELEMENT_ORDER}/{key}"] = value


def _diff_list_of_maps(key: str, before: Items, value: Items, patch: Map, field: PatchMeta, scope: DiffScope) -> None:
    merge_key = field.merge_key
    old_names, new_names = merge_key_texts(before, merge_key), merge_key_texts(value, merge_key)
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
    """Sorts the items like `order`."""
    if not items:
        return items
    places = first_positions(element_keys(order, merge_key))
    pairs = list(zip(element_keys(items, merge_key), items, strict=True))
    return [item for _, item in sort_by_position(pairs, places)]


def _pair_by_name(old_names: list[str], old: Items, new_names: list[str], new: Items) -> Iterator[tuple[Any, Any]]:
    """Pairs items of the same name, sorted by name; ABSENT where one side lacks the name."""
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
    """Sorts in reverse for popping, which reverses equal names as upstream's sort does."""
    return sorted(zip(names, items, strict=True), key=itemgetter(0), reverse=True)


def _maps_conflict(left: Map, right: Map, schema: TypeSchema) -> bool:
    """Whether two patches set a field to different values; a directive applies to the whole map."""
    if not json_equal(left.get(PATCH, ""), right.get(PATCH, "")):
        return True
    return any(
        _fields_conflict(key, value, right[key], schema)
        for key, value in left.items()
        if key in right and key not in (PATCH, RETAIN_KEYS)
    )


def _fields_conflict(key: str, left: Any, right: Any, schema: TypeSchema) -> bool:
    if type(left) is dict:
        field = schema.field(key)
        if type(right) is not dict or not json_equal(left.get(PATCH, ""), right.get(PATCH, "")):
            return True
        return field.strategy != "replace" and _maps_conflict(left, right, field.type)
    if type(left) is list:
        field = schema.list_field(key)
        if type(right) is not list:
            return True
        if field.strategy == "merge":
            return _merged_lists_conflict(left, right, field.merge_key, field.element)
        return _lists_conflict(left, right, field.element)
    return not json_equal(left, right)


def _merged_lists_conflict(left: Items, right: Items, merge_key: str, element: TypeSchema) -> bool:
    """Whether elements of the same merge key conflict; two sets of scalars never do."""
    if element_type(left, right) is not dict:
        return False
    ours, theirs = (dict(zip(merge_key_texts(items, merge_key), items, strict=True)) for items in (left, right))
    return any(_maps_conflict(item, theirs[name], element) for name, item in ours.items() if name in theirs)


def _lists_conflict(left: Items, right: Items, element: TypeSchema) -> bool:
    """Whether two replaced lists differ; for scalars, order and repeats are ignored."""
    if element_type(left, right) is dict:
        return len(left) != len(right) or any(
            _maps_conflict(ours, theirs, element) for ours, theirs in zip(left, right, strict=True)
        )
    ours, theirs = (sorted(without_repeats(items), key=go_text) for items in (left, right))
    # Upstream compares only as many scalars as our list has.
    return len(left) != len(right) or not json_equal(ours, theirs[: len(ours)])
