"""The words of a strategic merge patch: keys that start with a dollar sign, and what they demand.

Everything here looks only at the patch; carrying it out is the business of `strategic_apply`.

Upstream: apimachinery/pkg/util/strategicpatch/patch.go (extractKey, removeDirectives, discardNullValuesFromPatch,
applyRetainKeysDirective, mergeSliceWithSpecialElements, validatePatchWithSetOrderList).
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

from pykubelet.api.patch.element_order import Items, element_keys, identity, is_deletion, merge_value
from pykubelet.api.patch.errors import MalformedPatchError, unknown_directive, wrong_type
from pykubelet.api.patch.json_values import ABSENT, go_text

Map = dict[str, Any]

PATCH: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_FROM_LIST: Final = "$deleteFromPrimitiveList"
SET_ELEMENT_ORDER: Final = "$setElementOrder"

_MALFORMED: Final = {
    DELETE_FROM_LIST: "invalid patch format of primitive list",
    SET_ELEMENT_ORDER: "invalid patch format of setElementOrder list",
}


@dataclass(frozen=True, slots=True)
class ListChanges:
    """What a patch asks of a list of maps: elements to merge, keys to delete, and whether to start from nothing."""

    elements: Items
    deleted: set[Hashable]
    replacing: bool


def list_name(directive: str, word: str) -> str:
    """The field that a directive such as `$setElementOrder/containers` speaks of; raises `MalformedPatchError`."""
    head, slash, name = directive.partition("/")
    if head != word or not slash:
        raise MalformedPatchError(_MALFORMED[word])
    return name


def kept_names(patch: Map) -> set[str]:
    """The keys that `$retainKeys` of the patch lets live; raises if the patch sets a key that is not among them."""
    listed = patch[RETAIN_KEYS]
    names = {name for name in listed if type(name) is str} if type(listed) is list else None
    for key, value in patch.items():
        exempt = value is None or key == RETAIN_KEYS or key.startswith((DELETE_FROM_LIST, SET_ELEMENT_ORDER))
        if names is None or not (exempt or key in names):
            raise MalformedPatchError("invalid patch format of retainKeys")
    return names or set()


def list_changes(patch: Items, merge_key: str) -> ListChanges:
    """Tells the elements to merge from those that say `$patch`; raises `PatchError` for a directive nobody knows."""
    elements, deleted, replacing = [], set(), False
    for item in patch:
        directive = item.get(PATCH, ABSENT)
        if directive is ABSENT:
            elements.append(item)
        elif directive == "delete":
            deleted.add(identity(merge_value(item, merge_key)))
        elif directive == "replace":
            replacing = True
        elif directive == "merge":
            raise MalformedPatchError("merging lists cannot yet be specified in the patch")
        else:
            raise unknown_directive(directive, item)
    return ListChanges(elements, deleted, replacing)


def without_directives(value: Any, *, drop_nulls: bool) -> Any:
    """The value without maps that say `$patch`, at any depth, and without null fields; ABSENT if nothing is left."""
    if type(value) is list:
        items = [without_directives(item, drop_nulls=drop_nulls) for item in value]
        return [item for item in items if item is not ABSENT]
    if type(value) is not dict:
        return value
    fields: Map = {}
    for key, item in value.items():
        if item is None and drop_nulls:
            continue
        if key == PATCH:
            return ABSENT
        kept = without_directives(item, drop_nulls=drop_nulls)
        if kept is not ABSENT:
            fields[key] = kept
    return fields


def check_element_order(patch: Items, order: Items, merge_key: str) -> None:
    """Raises `MalformedPatchError` unless the elements of the patch stand in the same order in `$setElementOrder`."""
    if not patch or not order:
        return
    for item in patch if merge_key else ():
        if type(item) is not dict:
            raise wrong_type(dict, item)
    waiting = [item for item in patch if not is_deletion(item)] if merge_key else patch
    met = 0
    for key in element_keys(order, merge_key):
        while met < len(waiting) and type(waiting[met]) is dict and PATCH in waiting[met]:
            met += 1
        if met < len(waiting) and element_keys(waiting[met : met + 1], merge_key) == [key]:
            met += 1
    if met < len(waiting):
        raise MalformedPatchError(
            f"The order in patch list:\n{go_text(patch)}\n doesn't match {SET_ELEMENT_ORDER} list:\n{go_text(order)}\n"
        )
