"""What somebody applies put into what is there, and fields taken out of it.

In: documents and their type. Out: new documents that share what is unchanged. Items of a list keep the order of the
applied list, and those that only the live one has stay where they stood between them.

Upstream: structured-merge-diff/typed/merge.go and remove.go, EnsureNamedFieldsAreMembers in fieldpath/set.go
"""

from collections import deque
from typing import Any, Final

from pykubelet.apiserver.fields.field_sets import LEAF, SELF, FieldTree, is_member
from pykubelet.apiserver.fields.schema_types import FieldType
from pykubelet.apiserver.fields.walk import element_of, resolved

_ABSENT: Final = object()


def merged(live: Any, applied: Any, type: FieldType) -> Any:
    """The live value with the applied one put into it."""
    # A null says nothing about the parts of a map or list; elsewhere it is a value like others.
    found = resolved(type, live if applied is None else applied)
    if found is None or (not live and not applied):
        return applied
    # What is live may be of another form, from another schema.
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
        # Of items with one key nobody knows which is meant, so the applied one takes the place of all.
        known[element] = _ABSENT if element in known else item
    shared = deque(element for element in mine if element in known)
    result: list[Any] = []
    at = 0
    for element, item in mine.items():
        # Live items stay before the next one that both have; a new item comes right before it.
        at = _pass_live(result, lives, at, mine, shared[0] if shared else None)
        if shared and shared[0] == element:
            shared.popleft()
            at += 1
        old = known.get(element, _ABSENT)
        result.append(item if old is _ABSENT else merged(old, item, inner))
    return result + [item for element, item in lives[at:] if element not in mine]


def _pass_live(
    result: list[Any], lives: list[tuple[str, Any]], at: int, mine: dict[str, Any], until: str | None
) -> int:
    """Takes over the live items up to one that both have, leaving out what is merged elsewhere."""
    while at < len(lives) and lives[at][0] != until:
        element, item = lives[at]
        at += 1
        if element not in mine:
            result.append(item)
        elif until is None:
            # The second of two items with one key: upstream goes on with the applied list here.
            break
    return at


def removed(value: Any, fields: FieldTree, type: FieldType) -> Any:
    """The value without these fields; None if nothing is left of it."""
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
            elif not is_member(below):
                kept[name] = removed(inner, below, inner_type)
        return kept or None
    if not isinstance(value, list) or found.kind != "list":
        return value
    items = []
    for item in value:
        below = fields.get(element_of(item, found))
        if below is None:
            items.append(item)
        elif not is_member(below):
            items.append(removed(item, below, found.below("k:")))
    return items or None


def with_named_fields(tree: FieldTree, type: FieldType) -> FieldTree:
    """The set with every declared field that has members below it as a member, too."""
    named = (type.as_map or type).fields
    result: FieldTree = {}
    for step, below in tree.items():
        inner = with_named_fields(below, type.below(step)) if below else below
        is_named = step[0] == "f" and step[2:] in named
        result[step] = {SELF: LEAF, **inner} if is_named and inner and SELF not in inner else inner
    return result
