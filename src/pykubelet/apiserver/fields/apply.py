"""Server-side apply as a decision: the object it makes, its owners, and what others own already.

In: the live object, what is applied, the owners so far. Out: an `Outcome`. What the applier said the last time and does
not say any more goes away, unless somebody else owns it.

Upstream: structured-merge-diff/merge/update.go
"""

from dataclasses import dataclass
from typing import NamedTuple

from pykubelet.api.wire import Document
from pykubelet.apiserver.fields.compare import UNOWNED, Comparison, all_of, compare, equal
from pykubelet.apiserver.fields.conflicts import Contested
from pykubelet.apiserver.fields.field_sets import NOTHING, FieldTree, difference, intersection, union
from pykubelet.apiserver.fields.merge import merged, removed, with_named_fields
from pykubelet.apiserver.fields.owners import Owned, OwnerId, Owners
from pykubelet.apiserver.fields.resets import Reset
from pykubelet.apiserver.fields.schema_types import FieldType
from pykubelet.apiserver.fields.walk import said


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What somebody applies, and through what."""

    document: Document
    owner: OwnerId
    api_version: str
    type: FieldType
    reset: Reset
    force: bool


class Outcome(NamedTuple):
    """The object (None if it stays as it is) and its owners; or what stands against it."""

    document: Document | None
    owners: Owners
    contested: Contested


def outcome(live: Document, applied: Applied, owners: Owners) -> Outcome:
    """What applying does to the live object; an empty one if there is none."""
    last = owners.get(applied.owner)
    said_now = applied.reset.left_of(said(applied.document, applied.type) or NOTHING)
    owners = {**owners, applied.owner: Owned(said_now, applied.api_version, last.time if last else None)}
    document: Document = merged(live, applied.document, applied.type)
    if last is not None and last.fields:
        document = _without_unsaid(document, last.fields, owners, applied.type)
    others = {owner: owned for owner, owned in owners.items() if owner != applied.owner}
    comparison = compare(live, document, applied.type, applied.reset) if others else Comparison()
    contested = {
        owner: fields for owner, owned in others.items() if (fields := intersection(owned.fields, comparison.changed))
    }
    if contested and not applied.force:
        return Outcome(None, owners, contested)
    left = without_fields(others, all_of(comparison))
    if mine := difference(said_now, UNOWNED):
        left[applied.owner] = owners[applied.owner]._replace(fields=mine)
    return Outcome(None if equal(live, document) else document, left, {})


def without_fields(owners: Owners, taken: FieldTree) -> Owners:
    """The owners that still own something once these fields are not theirs any more."""
    left: Owners = {}
    for owner, owned in owners.items():
        fields = difference(owned.fields, taken)
        if fields:
            left[owner] = owned if fields is owned.fields else owned._replace(fields=fields)
    return left


def _without_unsaid(document: Document, last: FieldTree, owners: Owners, type: FieldType) -> Document:
    """The document without what the applier owned, does not say now, and nobody else owns."""
    last_named = with_named_fields(last, type)
    everything = with_named_fields(said(document, type) or NOTHING, type)
    owned: FieldTree = NOTHING
    for each in owners.values():
        owned = union(owned, each.fields)
    kept = union(_fields_left(document, last_named, type), with_named_fields(owned, type))
    kept = _fields_left(document, difference(everything, kept), type)
    gone = intersection(difference(everything, kept), last_named)
    result: Document = removed(document, gone, type) or {}
    return result


def _fields_left(document: Document, taken: FieldTree, type: FieldType) -> FieldTree:
    return with_named_fields(said(removed(document, taken, type) or {}, type) or NOTHING, type)
