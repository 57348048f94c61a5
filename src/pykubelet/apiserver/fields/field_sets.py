"""Sets of fields as trees, in the very form of FieldsV1, and what can be done with them.

A tree maps each step to the tree below it. A step with nothing below it is a field of the set; one with something
below it is a field itself only if it holds `.`. So what is stored needs no reading to be asked, and the parts of two
sets that do not touch cost nothing. Trees are shared and never changed; their steps stand in Go's order, and the
functions here keep it.

Upstream: structured-merge-diff/fieldpath/set.go
"""

from collections.abc import Iterator
from typing import Any, Final

from pykubelet.apiserver.fields.elements import ANY_STEP, FieldsError, canonical, order

FieldTree = dict[str, Any]
SELF: Final = "."
LEAF: Final[FieldTree] = {}
"""Below a field that is a member and holds none; one value for all, so nobody may change it."""
NOTHING: Final[FieldTree] = {}
"""The empty set."""


def is_member(below: FieldTree) -> bool:
    """Whether a step belongs to the set itself, given what is below it."""
    return not below or SELF in below


def in_order(tree: FieldTree) -> FieldTree:
    """The same steps at the top of the tree, in Go's order."""
    if len(tree) < 2:
        return tree
    steps = sorted(tree)
    # "." and "f:" come first in any order of texts; keys and values have an order of their own.
    if steps[-1] >= "g":
        named = [step for step in steps if step < "g"]
        steps = named + sorted(steps[len(named) :], key=order)
    return {step: tree[step] for step in steps}


def read_fields(document: Any) -> FieldTree:
    """The set in somebody's `fieldsV1`, in canonical form; FieldsError if it is none."""
    try:
        tree = _read(document)
    except RecursionError as error:
        raise FieldsError("the fields are nested too deep") from error
    # Nobody owns the whole object.
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
    """The fields of either."""
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
    """The fields of the left that are not in the right; `left` itself if that is all of them."""
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
    # A leaf takes the field only, not what is below it.
    kept = difference(below, taken or {SELF: LEAF})
    return kept if kept is below else _tidy(kept) if kept else None


def without(left: FieldTree, right: FieldTree) -> FieldTree:
    """The left without the fields of the right and all that is below these."""
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
    """The fields of both."""
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
    """The fields that a pattern leads to: on the way to its ends, and whatever is below them."""
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
    """Whether the field at the end of a path is in the set."""
    below = tree
    for step in path:
        found = below.get(step)
        if found is None:
            return False
        below = found
    return is_member(below)


def tree_of(*paths: tuple[str, ...]) -> FieldTree:
    """The set of these fields."""
    tree: FieldTree = NOTHING
    for path in paths:
        branch: FieldTree = LEAF
        for step in reversed(path):
            branch = {step: branch}
        tree = union(tree, branch)
    return tree


def paths(tree: FieldTree, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Each field of the set, in upstream's order: those of one level before those below."""
    for step, below in tree.items():
        if step != SELF and is_member(below):
            yield (*before, step)
    for step, below in tree.items():
        if below:
            yield from paths(below, (*before, step))
