"""Applies a strategic merge patch to a document, and defines its directives.

The result shares unchanged parts with the original; inputs are never changed. With `combining` the original is itself a
patch: nulls and directives of both are kept instead of carried out.

Directives are keys such as `$patch`, `$retainKeys` and `$setElementOrder`. List elements are ordered like upstream:
elements of the patch in patch order, the others in their live order, interleaved.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Final

from pykubelet.api.go_print import ABSENT, go_text, json_equal
from pykubelet.api.patch.errors import MalformedPatchError, PatchError, no_merge_key, unknown_directive, wrong_type
from pykubelet.api.patch.meta import Definition, PatchMeta, TypeSchema, type_schema

Items = list[Any]
Keys = list[Hashable]
# Before the first index of a list, and after the last.
_FRONT, _END = -1, -2


def element_type(*lists: Items) -> type:
    """Returns the common type of all items; raises `PatchError` if there is none, several, or a list."""
    kinds = {kind for items in lists for kind in set(map(type, items))}
    if not kinds:
        raise PatchError("no elements in any of the given slices")
    first = next(type(item) for items in lists for item in items)
    if first is list:
        raise PatchError("lists of lists are not supported")
    if len(kinds) > 1 or first is type(None):
        raise PatchError(f"list element types are not identical: {go_text(list(lists))}")
    return first


def identity(value: Any) -> Hashable:
    """Returns a key that distinguishes 1, 1.0 and True."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        # Go panics when it compares two of these.
        raise PatchError(f"list elements can only be compared by a scalar: {go_text(value)}")
    return (type(value), value)


def element_keys(items: Items, merge_key: str) -> Keys:
    """Returns the keys of the items: their merge key, or the items themselves if there is none."""
    if not merge_key:
        return [identity(item) for item in items]
    return [identity(merge_value(item, merge_key)) for item in items]


def merge_key_texts(items: Items, merge_key: str) -> list[str]:
    """Returns the merge keys of maps as text, for comparing two versions of a list."""
    try:
        return [value if type(value := item[merge_key]) is str else go_text(value) for item in items]
    except KeyError:
        raise no_merge_key(next(item for item in items if merge_key not in item), merge_key) from None


def merge_value(item: Any, merge_key: str) -> Any:
    """Returns the merge key of an item; raises `PatchError` if it is not a map or lacks the key."""
    if type(item) is not dict:
        raise wrong_type(dict, item)
    if merge_key not in item:
        raise no_merge_key(item, merge_key)
    return item[merge_key]


def arrange_elements(items: Items, keys: Keys, wanted: Keys, live: Keys) -> Items:
    """Orders the items: those with a wanted key like `wanted`, the rest like `live`, interleaved.

    An item of the rest precedes the first wanted one that follows it in `live`; if `live` lacks either, the wanted one
    is first.
    """
    wanted_at, live_at = first_positions(wanted), first_positions(live)
    pairs = list(zip(keys, items, strict=True))
    mine = sort_by_position([pair for pair in pairs if pair[0] in wanted_at], wanted_at)
    rest = sort_by_position([pair for pair in pairs if pair[0] not in wanted_at], live_at)
    result: Items = []
    taken = 0
    for key, item in mine:
        place = live_at.get(key, -1)
        while taken < len(rest) and -1 < live_at.get(rest[taken][0], -1) < place:
            result.append(rest[taken][1])
            taken += 1
        result.append(item)
    result.extend(item for _, item in rest[taken:])
    return result


def first_positions(keys: Iterable[Hashable]) -> dict[Hashable, int]:
    """Maps each key to its first index."""
    positions: dict[Hashable, int] = {}
    for index, key in enumerate(keys):
        positions.setdefault(key, index)
    return positions


def sort_by_position(
    pairs: list[tuple[Hashable, Any]], positions: Mapping[Hashable, int]
) -> list[tuple[Hashable, Any]]:
    """Sorts (key, item) pairs by the positions of their keys; items marked for deletion go last."""
    kept = [pair for pair in pairs if not is_deletion(pair[1])]
    deleted = [pair for pair in pairs if is_deletion(pair[1])] if len(kept) < len(pairs) else []
    if all(key in positions for key, _ in kept):
        kept.sort(key=lambda pair: positions[pair[0]])
    else:
        _sort_with_unknown_keys(kept, positions)
    return kept + deleted


def is_deletion(item: Any) -> bool:
    """Whether the item is a map with `$patch: delete`."""
    return type(item) is dict and item.get("$patch") == "delete"


def _sort_with_unknown_keys(pairs: list[tuple[Hashable, Any]], positions: Mapping[Hashable, int]) -> None:
    """Sorts like upstream, which treats a pair with an unknown key as out of order and moves it to the front.

    Its insertion sort moves a known pair in front of all unknown ones, up to the last known one that precedes it. This
    links each pair to the one that it follows, and keeps the known ones sorted to find that one.
    """
    follower: dict[int, int] = {_FRONT: _END}
    places: list[int] = []
    known: list[int] = []
    for index, (key, _) in enumerate(pairs):
        before = _FRONT
        if key in positions:
            at = bisect_right(places, positions[key])
            before = known[at - 1] if at else _FRONT
            places.insert(at, positions[key])
            known.insert(at, index)
        follower[index], follower[before] = follower[before], index
    result: list[tuple[Hashable, Any]] = []
    index = _FRONT
    while (index := follower[index]) != _END:
        result.append(pairs[index])
    pairs[:] = result


def without_repeats(items: Sequence[Any]) -> Items:
    """Removes repeated scalars; the last item takes the place of a repeat, which gives upstream's order."""
    result = list(items)
    places: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, item in enumerate(result):
        places[item].append(place)
    if len(places) == len(result):
        return result
    index = 0
    while index < len(result):
        item = result[index]
        mine = places[item]
        while mine:
            # A place behind the end, or with another item, is one that was given to another item meanwhile.
            place = heappop(mine)
            if index < place < len(result) and result[place] == item:
                last = result.pop()
                if place < len(result):
                    result[place] = last
                    heappush(places[last], place)
        index += 1
    return result


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
    """What a patch changes in a list of maps: elements to merge, keys to delete, and whether to replace the list."""

    elements: Items
    deleted: set[Hashable]
    replacing: bool


def directive_field(directive: str, word: str) -> str:
    """Returns the field of a directive such as `$setElementOrder/containers`; raises `MalformedPatchError`."""
    head, slash, name = directive.partition("/")
    if head != word or not slash:
        raise MalformedPatchError(_MALFORMED[word])
    return name


def retained_keys(patch: Map) -> set[str]:
    """Returns the keys that `$retainKeys` keeps; raises if the patch sets another key."""
    listed = patch[RETAIN_KEYS]
    names = {name for name in listed if type(name) is str} if type(listed) is list else None
    for key, value in patch.items():
        exempt = value is None or key == RETAIN_KEYS or key.startswith((DELETE_FROM_LIST, SET_ELEMENT_ORDER))
        if names is None or not (exempt or key in names):
            raise MalformedPatchError("invalid patch format of retainKeys")
    return names or set()


def list_changes(patch: Items, merge_key: str) -> ListChanges:
    """Separates elements to merge from those with `$patch`; raises `PatchError` for an unknown directive."""
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
    """Removes maps with `$patch`, at any depth, and null fields; ABSENT if nothing is left."""
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
    """Raises `MalformedPatchError` unless the patch's elements have the order of `$setElementOrder`."""
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


def apply_strategic(original: dict[str, Any], patch: dict[str, Any], definition: Definition) -> dict[str, Any]:
    """Applies a strategic merge patch.

    `definition` is the type: `"core.v1.Pod"` or `("v1", "Pod")`. The result has no defaults and is not validated;
    directives inside new list elements stay, as in upstream.
    """
    return apply_map(original, patch, type_schema(definition))


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
