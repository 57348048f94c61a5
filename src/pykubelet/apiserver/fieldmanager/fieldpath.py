"""Sets of fields as trees in the format of FieldsV1, and the elements of their paths.

A tree maps each path element to the tree below it. An element with an empty tree is a member of the set; one with
children is a member only if it holds `.`. Stored sets can therefore be used without conversion. Trees are shared and
never changed; their elements are in Go's order.

Upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/fieldpath/set.go,
vendor/sigs.k8s.io/structured-merge-diff/v6/fieldpath/element.go,
vendor/sigs.k8s.io/structured-merge-diff/v6/fieldpath/serialize-pe.go
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from pykubelet.api.field_errors import go_quote

ANY_STEP = "*"
"""Matches every element of a path in a pattern."""

# jsoniter escapes these in keys and values.
_SPECIAL = re.compile('[\x00-\x1f"\\\\<>&\u2028\u2029]')
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(32), *map(ord, "<>&\u2028\u2029"))} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}
# Go writes floats below this without an exponent, and whole numbers without a point.
_PLAIN_FLOATS = 1e21
_INDEX = re.compile(r"[+-]?\d+", re.ASCII)


class FieldsError(ValueError):
    """Invalid managed fields, or an object that does not fit them; the message is upstream's."""


def is_plain(text: str) -> bool:
    """Whether the text needs no JSON escapes."""
    return _SPECIAL.search(text) is None


def json_text(value: Any) -> str:
    """The value as Go's JSON encoder writes it into a key."""
    if isinstance(value, str):
        return f'"{value}"' if is_plain(value) else f'"{value.translate(_ESCAPES)}"'
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(name)}:{json_text(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < _PLAIN_FLOATS:
        return str(int(value))
    return msgspec.json.encode(value).decode()


def key_element(keys: Iterable[tuple[str, Any]]) -> str:
    """The element of a list item with these key fields, sorted by name."""
    return "k:{" + ",".join(f'"{name}":{json_text(value)}' for name, value in keys) + "}"


def value_element(value: Any) -> str:
    """The element of an item in a set."""
    return "v:" + json_text(value)


def parsed(element: str) -> Any:
    """Parses the JSON after the prefix of a key, value or index; FieldsError if it is invalid."""
    try:
        if element[0] == "i":
            if _INDEX.fullmatch(element, 2) is None:
                raise FieldsError(f'strconv.Atoi: parsing "{element[2:]}": invalid syntax')
            return int(element[2:])
        return msgspec.json.decode(element[2:])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise FieldsError(f"parsing key as path element: {error}") from error


def canonical(element: str) -> str | None:
    """The canonical spelling of an element; None for an unknown kind of element."""
    if len(element) < 2:
        raise FieldsError("key must be 2 characters long:")
    if element[1] != ":":
        raise FieldsError(f"missing colon: {element}")
    if element[0] == "f":
        return element
    if element[0] == "v":
        return value_element(parsed(element))
    if element[0] == "i":
        return f"i:{parsed(element)}"
    if element[0] != "k":
        return None
    keys = parsed(element)
    if not isinstance(keys, dict):
        raise FieldsError(f"parsing key as path element: expected an object: {element}")
    return key_element(sorted(keys.items()))


def order(element: str) -> tuple[Any, ...]:
    """The sort key in Go's order: names, then keys, values and indices; numbers by size and before texts."""
    match element[0]:
        case "f":
            return (0, element)
        case "k":
            return (1, tuple((name, _rank(value)) for name, value in parsed(element).items()))
        case "v":
            return (2, _rank(parsed(element)))
        case _:
            return (3, parsed(element))


def _rank(value: Any) -> tuple[int, Any]:
    match value:
        case bool():
            return (2, value)
        case int() | float():
            return (0, value)
        case str():
            return (1, value)
        case None:
            return (5, 0)
        case _:
            return (3 if isinstance(value, list) else 4, json_text(value))


def shown(element: str) -> str:
    """The element in messages: `.name`, `[name="c"]`, `[="x"]`, `[0]`."""
    match element[0]:
        case "f":
            return f".{element[2:]}"
        case "k":
            return "[" + ",".join(f"{name}={_shown_value(value)}" for name, value in parsed(element).items()) + "]"
        case "v":
            return f"[={_shown_value(parsed(element))}]"
        case _:
            return f"[{element[2:]}]"


def _shown_value(value: Any) -> str:
    return go_quote(value) if isinstance(value, str) else json_text(value)


FieldTree = dict[str, Any]
SELF: Final = "."
LEAF: Final[FieldTree] = {}
"""The tree below a member without children. Shared, so it must not be changed."""
NOTHING: Final[FieldTree] = {}


def is_member(below: FieldTree) -> bool:
    """Whether an element is a member, given the tree below it."""
    return not below or SELF in below


def in_order(tree: FieldTree) -> FieldTree:
    """Sorts the top elements of a tree in Go's order."""
    if len(tree) < 2:
        return tree
    steps = sorted(tree)
    # "." and "f:" sort before all others as text; keys and values have their own order.
    if steps[-1] >= "g":
        named = [step for step in steps if step < "g"]
        steps = named + sorted(steps[len(named) :], key=order)
    return {step: tree[step] for step in steps}


def read_fields(document: Any) -> FieldTree:
    """Parses a client's `fieldsV1` into canonical form; FieldsError if it is invalid."""
    try:
        tree = _read(document)
    except RecursionError as error:
        raise FieldsError("the fields are nested too deep") from error
    # The whole object has no owner.
    return {step: below for step, below in tree.items() if step != SELF}


def _read(document: Any) -> FieldTree:
    if document is None:
        return NOTHING
    if not isinstance(document, dict):
        raise FieldsError(f"ReadMapCB: expect {{ or n, but found {str(document)[:1]}")
    tree: FieldTree = {}
    for spelled, below in document.items():
        step = SELF if spelled == SELF else canonical(spelled)
        if step is not None:
            tree[step] = LEAF if step == SELF else _tidy(_read(below))
    return in_order(tree)


def _tidy(below: FieldTree) -> FieldTree:
    return LEAF if len(below) == 1 and SELF in below else below


def union(left: FieldTree, right: FieldTree) -> FieldTree:
    """The members of either set."""
    if not left or not right or left is right:
        return left or right
    joined = dict(left)
    for step, below in right.items():
        known = joined.get(step)
        joined[step] = below if known is None else known if known is below else _joined(known, below)
    return in_order(joined) if len(joined) > len(left) else joined


def _joined(left: FieldTree, right: FieldTree) -> FieldTree:
    if left and right:
        return union(left, right)
    larger = left or right
    return larger if not larger or SELF in larger else {SELF: LEAF, **larger}


def difference(left: FieldTree, right: FieldTree) -> FieldTree:
    """The members of `left` that are not in `right`; `left` itself if that is all of them."""
    if not right:
        return left
    rest: FieldTree = {}
    is_same = True
    for step, below in left.items():
        taken = right.get(step)
        if taken is None:
            rest[step] = below
            continue
        kept = _less(below, taken)
        is_same = is_same and kept is below
        if kept is not None:
            rest[step] = kept
    return left if is_same else rest


def _less(below: FieldTree, taken: FieldTree) -> FieldTree | None:
    if not below:
        return None if is_member(taken) else below
    # A leaf removes only the field itself, not the fields below it.
    kept = difference(below, taken or {SELF: LEAF})
    return kept if kept is below else _tidy(kept) if kept else None


def without(left: FieldTree, right: FieldTree) -> FieldTree:
    """Removes the members of `right` and everything below them."""
    if not right:
        return left
    rest: FieldTree = {}
    for step, below in left.items():
        taken = right.get(step)
        if taken is None or (not below and not is_member(taken)):
            rest[step] = below
        elif not is_member(taken) and (kept := without(below, taken)):
            rest[step] = _tidy(kept)
    return rest


def intersection(left: FieldTree, right: FieldTree) -> FieldTree:
    """The members of both sets."""
    both: FieldTree = {}
    for step, below in left.items():
        other = right.get(step)
        if other is None:
            continue
        if not below or not other:
            if is_member(below) and is_member(other):
                both[step] = LEAF
        elif shared := intersection(below, other):
            both[step] = _tidy(shared)
    return both


def only(tree: FieldTree, pattern: FieldTree) -> FieldTree:
    """The members that match a pattern: on the way to its ends, and below them."""
    kept: FieldTree = {}
    for step, below in tree.items():
        matched = pattern.get(ANY_STEP)
        matched = pattern.get(step) if matched is None else matched
        if step == SELF:
            kept[step] = LEAF
        elif matched is not None and (not matched or not below):
            kept[step] = below
        elif matched is not None and (inner := only(below, matched)):
            kept[step] = _tidy(inner)
    return kept


def has(tree: FieldTree, path: tuple[str, ...]) -> bool:
    below = tree
    for step in path:
        found = below.get(step)
        if found is None:
            return False
        below = found
    return is_member(below)


def tree_of(*paths: tuple[str, ...]) -> FieldTree:
    tree: FieldTree = NOTHING
    for path in paths:
        branch: FieldTree = LEAF
        for step in reversed(path):
            branch = {step: branch}
        tree = union(tree, branch)
    return tree


def paths(tree: FieldTree, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all members in upstream's order: one level before those below it."""
    for step, below in tree.items():
        if step != SELF and is_member(below):
            yield (*before, step)
    for step, below in tree.items():
        if below:
            yield from paths(below, (*before, step))
