"""Applies a strategic merge patch to a document.

The result shares unchanged parts with the original; inputs are never changed. With `combining` the original is itself a
patch: nulls and directives of both are kept instead of carried out.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go
"""

from dataclasses import dataclass
from typing import Any

from pykubelet.api.go_print import ABSENT, go_text, json_equal
from pykubelet.api.patch.directives import (
    DELETE_FROM_LIST,
    PATCH,
    RETAIN_KEYS,
    SET_ELEMENT_ORDER,
    Items,
    arrange_elements,
    check_element_order,
    directive_field,
    element_keys,
    element_type,
    first_positions,
    identity,
    list_changes,
    retained_keys,
    without_directives,
    without_repeats,
)
from pykubelet.api.patch.errors import MalformedPatchError, PatchError, unknown_directive, wrong_type
from pykubelet.api.patch.meta import PatchMeta, TypeSchema

Map = dict[str, Any]


def apply_map(original: Map, patch: Map, schema: TypeSchema, *, combining: bool = False) -> Map:
    """Applies the patch to a map; raises `PatchError`."""
    if PATCH in patch:
        return _carry_out(patch)
    if not patch:
        return original
    directives = [key for key in patch if key.startswith("$")]
    result = _start(original, patch, combining=combining) if RETAIN_KEYS in directives else dict(original)
    done = {RETAIN_KEYS}
    for key in directives:
        if key.startswith(SET_ELEMENT_ORDER):
            done |= {key, _merge_in_order(result, patch, key, schema, combining=combining)}
    # Upstream processes deletions and additions of one list in random order; here deletions come first.
    for key in directives:
        if key.startswith(DELETE_FROM_LIST):
            done.add(key)
            _delete_from_list(result, patch, key, schema, combining=combining)
    for key, value in patch.items():
        if key not in done:
            _merge_field(result, key, value, schema, combining=combining)
    return result


def _carry_out(patch: Map) -> Map:
    """Carries out the `$patch` directive of a map."""
    directive = patch[PATCH]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != PATCH}
    if directive == "delete":
        return {}
    raise unknown_directive(directive, patch)


def _start(original: Map, patch: Map, *, combining: bool) -> Map:
    """Copies the original, restricted by `$retainKeys`."""
    if not combining:
        names = retained_keys(patch)
        return {key: value for key, value in original.items() if key in names}
    wanted = patch[RETAIN_KEYS]
    present = original.get(RETAIN_KEYS, wanted)
    if not json_equal(present, wanted):
        raise MalformedPatchError(
            f"{go_text(present)} and {go_text(wanted)} are not deep equal: "
            "this may happen when calculating the 3-way diff patch"
        )
    return {**original, RETAIN_KEYS: wanted}


def _delete_from_list(result: Map, patch: Map, directive: str, schema: TypeSchema, *, combining: bool) -> None:
    if combining:
        result[directive] = patch[directive]
    else:
        name = directive_field(directive, DELETE_FROM_LIST) or directive
        _merge_field(result, name, patch[directive], schema, deleting=True)


def _merge_field(
    result: Map, key: str, value: Any, schema: TypeSchema, *, deleting: bool = False, combining: bool = False
) -> None:
    """Merges one field of the patch into the result; list deletions apply only to lists."""
    if value is None:
        result.pop(key, None)
        if not combining:
            return
    current = result.get(key, ABSENT)
    kind = type(value)
    if type(current) is not kind:
        kept = current if deleting else without_directives(value, drop_nulls=not combining)
        if kept is ABSENT:
            result.pop(key, None)
        else:
            result[key] = kept
    elif kind is dict:
        field = schema.field(key)
        replaces = field.strategy == "replace"
        result[key] = value if replaces else apply_map(current, value, field.type, combining=combining)
    elif kind is list:
        field = schema.list_field(key)
        result[key] = _merge_lists(current, value, field, deleting=deleting, combining=combining).items
    else:
        result[key] = value


@dataclass(frozen=True, slots=True)
class _Merged:
    """A merged list, and the live list that determines the order of elements absent from the patch."""

    items: Items
    live: Items


def _merge_in_order(result: Map, patch: Map, directive: str, schema: TypeSchema, *, combining: bool) -> str:
    """Merges the list named by a `$setElementOrder` directive in that order; returns its name."""
    order = patch[directive]
    if combining and not json_equal(result.setdefault(directive, order), order):
        raise MalformedPatchError("invalid patch format of setElementOrder list")
    if type(order) is not list:
        raise wrong_type(list, order)
    name = directive_field(directive, SET_ELEMENT_ORDER)
    original, changes = result.get(name, ABSENT), patch.get(name, ABSENT)
    for value in (original, changes):
        if value is not ABSENT and type(value) is not list:
            raise wrong_type(list, value)
    field = schema.list_field(name)
    check_element_order([] if changes is ABSENT else changes, order, field.merge_key)
    if original is ABSENT and changes is ABSENT:
        return name
    if changes is ABSENT:
        changes, merged = [], _Merged(original, original)
    elif original is ABSENT:
        original, merged = [], _Merged(without_directives(changes, drop_nulls=False), [])
    else:
        merged = _merge_lists(original, changes, field, deleting=False, combining=combining)
    keys, wanted, live = (element_keys(items, field.merge_key) for items in (merged.items, order, merged.live))
    element_type(original, changes)
    result[name] = arrange_elements(merged.items, keys, wanted, live)
    return name


def _merge_lists(original: Items, patch: Items, field: PatchMeta, *, deleting: bool, combining: bool) -> _Merged:
    """Merges a list by the field's patch strategy."""
    if field.strategy != "merge" and not deleting:
        return _Merged(patch, original)
    if not original and not patch:
        return _Merged(original, original)
    if element_type(original, patch) is not dict:
        return _without_scalars(original, patch) if deleting else _merge_scalars(original, patch, field.merge_key)
    if not field.merge_key:
        raise PatchError(f"cannot merge lists without merge key for {field.element.go_kind}")
    return _merge_maps(original, patch, field, combining=combining)


def _without_scalars(original: Items, patch: Items) -> _Merged:
    gone = set(patch)
    return _Merged([item for item in original if item not in gone], original)


def _merge_scalars(original: Items, patch: Items, merge_key: str) -> _Merged:
    both = without_repeats(original + patch)
    # Go grows a list by doubling and appends in place while there is room. Repeats removed from the merged list then
    # disappear from the live one too, and the order of the rest is derived from what is left.
    in_place = len(original) + len(patch) <= 1 << max(len(original) - 1, 0).bit_length()
    live = both[: len(original)] if in_place else original
    keys, wanted, known = (element_keys(items, merge_key) for items in (both, patch, live))
    return _Merged(arrange_elements(both, keys, wanted, known), live)


def _merge_maps(original: Items, patch: Items, field: PatchMeta, *, combining: bool) -> _Merged:
    merge_key = field.merge_key
    changes = list_changes(patch, merge_key)
    remaining = original
    if changes.deleted:
        remaining = [
            item for item in original if merge_key not in item or identity(item[merge_key]) not in changes.deleted
        ]
    wanted = element_keys(changes.elements, merge_key)
    if changes.replacing:
        return _Merged(arrange_elements(changes.elements, wanted, [], wanted), remaining)
    items, live = list(remaining), element_keys(remaining, merge_key)
    place = first_positions(live)
    for key, change in zip(wanted, changes.elements, strict=True):
        if key in place:
            items[place[key]] = apply_map(items[place[key]], change, field.element, combining=combining)
        else:
            place[key] = len(items)
            items.append(change)
    keys = element_keys(items, merge_key)
    # Go appends in place: new elements overwrite the room of deleted ones in the live list, and count as its end.
    return _Merged(arrange_elements(items, keys, wanted, live), items[: len(original)])
