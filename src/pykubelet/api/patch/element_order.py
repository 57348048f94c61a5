"""The elements of a list: their type, what tells them apart, and their order.

In: lists as they stand in documents and patches. Out: the same items in the order Kubernetes gives them: those the patch
speaks of in the order of the patch, the others in the order they had, interleaved as well as that goes.

Upstream: apimachinery/pkg/util/strategicpatch/patch.go (sliceElementType, normalizeElementOrder, mergeSortedSlice).
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from pykubelet.api.patch.errors import PatchError, no_merge_key, wrong_type
from pykubelet.api.patch.json_values import go_text

Items = list[Any]
Keys = list[Hashable]


def element_type(*lists: Items) -> type:
    """The one type of all items; raises `PatchError` if there is none, more than one, or if it is a list."""
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
    """A key under which only equal scalars of the same type meet: not 1, 1.0 and True."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        # Go panics when it has to compare two of these.
        raise PatchError(f"a value to tell elements apart must be a scalar: {go_text(value)}")
    return (type(value), value)


def element_keys(items: Items, merge_key: str) -> Keys:
    """What tells the items apart: their merge key, or the items themselves where there is none."""
    if not merge_key:
        return [identity(item) for item in items]
    return [identity(merge_value(item, merge_key)) for item in items]


def merge_names(items: Items, merge_key: str) -> list[str]:
    """The merge keys of maps as text, by which two versions of a list are compared."""
    try:
        return [value if type(value := item[merge_key]) is str else go_text(value) for item in items]
    except KeyError:
        raise no_merge_key(next(item for item in items if merge_key not in item), merge_key) from None


def merge_value(item: Any, merge_key: str) -> Any:
    """The value of an item's merge key; raises `PatchError` if it is not a map or has none."""
    if type(item) is not dict:
        raise wrong_type(dict, item)
    if merge_key not in item:
        raise no_merge_key(item, merge_key)
    return item[merge_key]


def arrange(items: Items, keys: Keys, wanted: Keys, live: Keys) -> Items:
    """The items in order: those whose key is wanted as `wanted` has them, the rest as `live` has them, interleaved.

    An item of the rest goes before the first wanted one that stands behind it in `live`; where `live` does not know
    both, the wanted one goes first.
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
    """Where each key stands first."""
    positions: dict[Hashable, int] = {}
    for index, key in enumerate(keys):
        positions.setdefault(key, index)
    return positions


def sort_by_position(
    pairs: list[tuple[Hashable, Any]], positions: Mapping[Hashable, int]
) -> list[tuple[Hashable, Any]]:
    """The pairs (key, item) in the order of their keys' positions; items marked for deletion go last."""
    kept = [pair for pair in pairs if not is_deletion(pair[1])]
    deleted = [pair for pair in pairs if is_deletion(pair[1])] if len(kept) < len(pairs) else []
    if all(key in positions for key, _ in kept):
        kept.sort(key=lambda pair: positions[pair[0]])
    else:
        _sort_with_strangers(kept, positions)
    return kept + deleted


def is_deletion(item: Any) -> bool:
    """Whether the item is a map that says `$patch: delete`."""
    return type(item) is dict and item.get("$patch") == "delete"


def _sort_with_strangers(pairs: list[tuple[Hashable, Any]], positions: Mapping[Hashable, int]) -> None:
    """Upstream takes any pair with an unknown key for out of order, so such items wander forward, swap by swap."""

    def precedes(left: Hashable, right: Hashable) -> bool:
        return left not in positions or right not in positions or positions[left] < positions[right]

    for index in range(1, len(pairs)):
        place = index
        while place > 0 and precedes(pairs[place][0], pairs[place - 1][0]):
            pairs[place - 1], pairs[place] = pairs[place], pairs[place - 1]
            place -= 1


def without_repeats(items: Sequence[Any]) -> Items:
    """Each scalar once; the last item fills the place of a repeat, which is where upstream's order comes from."""
    result = list(items)
    if len(set(result)) == len(result):
        return result
    index = 0
    while index < len(result):
        other = index + 1
        while other < len(result):
            if result[index] == result[other]:
                last = result.pop()
                if other < len(result):
                    result[other] = last
            else:
                other += 1
        index += 1
    return result
