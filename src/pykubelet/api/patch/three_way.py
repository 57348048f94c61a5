"""Makes the patch of `kubectl apply`: what the user changed or took away, nothing of others.

In: the configuration applied last, the one to apply now, and the live object. Out: a strategic merge patch for the live
object. Without `overwrite`, a field that both the user and somebody else changed is a conflict.

Upstream: apimachinery/pkg/util/strategicpatch/patch.go (CreateThreeWayMergePatch, MergingMapsHaveConflicts).
"""

from typing import Any

import msgspec

from pykubelet.api.patch.element_order import Items, element_type, merge_names, without_repeats
from pykubelet.api.patch.errors import ConflictError
from pykubelet.api.patch.json_values import go_text, same
from pykubelet.api.patch.schema import TypeSchema
from pykubelet.api.patch.strategic_apply import apply_map
from pykubelet.api.patch.strategic_diff import DiffScope, diff_maps
from pykubelet.api.patch.strategic_words import PATCH, RETAIN_KEYS

Map = dict[str, Any]


def diff_three_way(original: Map, modified: Map, current: Map, schema: TypeSchema, *, overwrite: bool) -> Map:
    """The patch for the current document; raises `ConflictError` and other `PatchError`s."""
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


def _maps_conflict(left: Map, right: Map, schema: TypeSchema) -> bool:
    """Whether two patches give some field different values; a directive speaks for the whole map."""
    if not same(left.get(PATCH, ""), right.get(PATCH, "")):
        return True
    return any(
        _fields_conflict(key, value, right[key], schema)
        for key, value in left.items()
        if key in right and key not in (PATCH, RETAIN_KEYS)
    )


def _fields_conflict(key: str, left: Any, right: Any, schema: TypeSchema) -> bool:
    if type(left) is dict:
        field = schema.field(key)
        if type(right) is not dict or not same(left.get(PATCH, ""), right.get(PATCH, "")):
            return True
        return field.strategy != "replace" and _maps_conflict(left, right, field.type)
    if type(left) is list:
        field = schema.list_field(key)
        if type(right) is not list:
            return True
        if field.strategy == "merge":
            return _merged_lists_conflict(left, right, field.merge_key, field.element)
        return _lists_conflict(left, right, field.element)
    return not same(left, right)


def _merged_lists_conflict(left: Items, right: Items, merge_key: str, element: TypeSchema) -> bool:
    """Elements conflict with those of the same key; two sets of scalars never do."""
    if element_type(left, right) is not dict:
        return False
    ours, theirs = (dict(zip(merge_names(items, merge_key), items, strict=True)) for items in (left, right))
    return any(_maps_conflict(item, theirs[name], element) for name, item in ours.items() if name in theirs)


def _lists_conflict(left: Items, right: Items, element: TypeSchema) -> bool:
    """Lists that are replaced conflict unless they say the same; of scalars neither order nor repeats count."""
    if element_type(left, right) is dict:
        return len(left) != len(right) or any(
            _maps_conflict(ours, theirs, element) for ours, theirs in zip(left, right, strict=True)
        )
    ours, theirs = (sorted(without_repeats(items), key=go_text) for items in (left, right))
    # Upstream looks only as far as our own scalars reach.
    return len(left) != len(right) or not same(ours, theirs[: len(ours)])
