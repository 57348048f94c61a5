"""Server-side apply: validates a configuration, merges it into the live object, and finds conflicts.

Upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/merge/update.go,
vendor/sigs.k8s.io/structured-merge-diff/v6/merge/conflict.go,
vendor/sigs.k8s.io/structured-merge-diff/v6/typed/validate.go
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pykubelet.api.errors import Conflict
from pykubelet.api.field_errors import go_quote
from pykubelet.api.go_print import go_text, go_type_name
from pykubelet.api.serializer import Document
from pykubelet.apiserver.fieldmanager import fieldpath, managedfields, typed
from pykubelet.apiserver.fieldmanager.fieldpath import NOTHING, FieldsError, FieldTree
from pykubelet.apiserver.fieldmanager.managedfields import UPDATE, ManagerFields, ManagerIdentifier, Owners
from pykubelet.apiserver.fieldmanager.typeconverter import FieldType, ResetFields
from pykubelet.apiserver.fieldmanager.typed import Comparison

Conflicts = dict[ManagerIdentifier, FieldTree]
"""The fields in conflict, by the manager that owns them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedConfiguration:
    """An apply request: the configuration, its manager, and the fields that it cannot change."""

    document: Document
    owner: ManagerIdentifier
    api_version: str
    type: FieldType
    reset: ResetFields
    force: bool


class ApplyResult(NamedTuple):
    """The new object (None if it is unchanged) and the owners; or the conflicts."""

    document: Document | None
    owners: Owners
    conflicts: Conflicts


def apply_configuration(live: Document, applied: AppliedConfiguration, owners: Owners) -> ApplyResult:
    """Merges the configuration into the live object and removes fields that its manager no longer applies.

    Conflicts with other managers are returned, not raised.
    """
    last = owners.get(applied.owner)
    applied_now = applied.reset.left_of(typed.applied_fields(applied.document, applied.type) or NOTHING)
    owners = {**owners, applied.owner: ManagerFields(applied_now, applied.api_version, last.time if last else None)}
    document: Document = typed.merged(live, applied.document, applied.type)
    if last is not None and last.fields:
        document = _without_dropped_fields(document, last.fields, owners, applied.type)
    others = {owner: owned for owner, owned in owners.items() if owner != applied.owner}
    comparison = typed.compare(live, document, applied.type, applied.reset) if others else Comparison()
    conflicts = {
        owner: fields
        for owner, owned in others.items()
        if (fields := fieldpath.intersection(owned.fields, comparison.changed))
    }
    if conflicts and not applied.force:
        return ApplyResult(None, owners, conflicts)
    left = managedfields.without_fields(others, typed.all_below(comparison))
    if mine := fieldpath.difference(applied_now, typed.UNOWNED):
        left[applied.owner] = owners[applied.owner]._replace(fields=mine)
    return ApplyResult(None if typed.equal(live, document) else document, left, {})


def conflict(conflicts: Conflicts) -> Conflict:
    """The Conflict error: a cause for each field, and one message for all."""
    by_owner = {
        owner: ["".join(map(fieldpath.shown, path)) for path in fieldpath.paths(conflicts[owner])]
        for owner in sorted(conflicts, key=lambda owner: owner.text)
    }
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_named(owner)}", "field": field}
        for owner, fields in by_owner.items()
        for field in fields
    ]
    return Conflict(_message(by_owner), details={"causes": causes})


def _message(by_owner: dict[ManagerIdentifier, list[str]]) -> str:
    count = sum(map(len, by_owner.values()))
    if count == 1:
        ((owner, (field,)),) = by_owner.items()
        return f"Apply failed with 1 conflict: conflict with {_named(owner)}: {field}"
    lines = [
        line
        for owner, fields in by_owner.items()
        for line in (f"conflicts with {_named(owner)}:", *(f"- {field}" for field in fields))
    ]
    return f"Apply failed with {count} conflicts: " + "\n".join(lines)


def _named(owner: ManagerIdentifier) -> str:
    name = go_quote(owner.manager)
    if owner.subresource:
        name += f" with subresource {go_quote(owner.subresource)}"
    return f"{name} using {owner.api_version}" if owner.operation == UPDATE else name


def _without_dropped_fields(document: Document, last: FieldTree, owners: Owners, type: FieldType) -> Document:
    """Removes the fields that the manager owned, no longer applies, and no other manager owns."""
    last_named = typed.with_named_fields(last, type)
    everything = typed.with_named_fields(typed.applied_fields(document, type) or NOTHING, type)
    owned: FieldTree = NOTHING
    for each in owners.values():
        owned = fieldpath.union(owned, each.fields)
    kept = fieldpath.union(_fields_left(document, last_named, type), typed.with_named_fields(owned, type))
    kept = _fields_left(document, fieldpath.difference(everything, kept), type)
    gone = fieldpath.intersection(fieldpath.difference(everything, kept), last_named)
    result: Document = typed.removed(document, gone, type) or {}
    return result


def _fields_left(document: Document, taken: FieldTree, type: FieldType) -> FieldTree:
    return typed.with_named_fields(
        typed.applied_fields(typed.removed(document, taken, type) or {}, type) or NOTHING, type
    )


class TypeMismatch(NamedTuple):
    """A value that does not fit its type, with a path such as `.spec.ports[name="http"]`."""

    path: str
    message: str


def type_mismatches(value: Any, type: FieldType, path: str = "") -> Iterator[TypeMismatch]:
    """Finds all values that do not fit their type: unknown fields, wrong types, duplicate keys."""
    if value is None:
        return
    match type.kind:
        case "map":
            yield from _map_mismatches(value, type, path)
        case "list":
            yield from _list_mismatches(value, type, path)
        case "scalar":
            if wrong := _scalar_mismatch(value, type):
                yield TypeMismatch(path, wrong)
        case _ if isinstance(value, dict) and type.as_map is not None:
            yield from _map_mismatches(value, type.as_map, path)


def _map_mismatches(value: Any, type: FieldType, path: str) -> Iterator[TypeMismatch]:
    if not isinstance(value, dict):
        yield TypeMismatch(path, f"expected map, got &{{{go_text(value)}}}")
        return
    for name in sorted(value):
        if name not in type.fields and type.others is None:
            yield TypeMismatch(f"{path}.{name}", "field not declared in schema")
            return
        yield from type_mismatches(value[name], type.child(name)[1], f"{path}.{name}")


def _list_mismatches(value: Any, type: FieldType, path: str) -> Iterator[TypeMismatch]:
    if not isinstance(value, list):
        yield TypeMismatch(path, f"expected list, got &{{{go_text(value)}}}")
        return
    assert type.items is not None
    seen: set[str] = set()
    for position, item in enumerate(value):
        place = f"[{position}]"
        if not type.is_leaf:
            try:
                element = typed.element_of(item, type)
            except FieldsError as error:
                yield TypeMismatch(path, f"element {position}: {error}")
                return
            place = fieldpath.shown(element)
            if element in seen:
                yield TypeMismatch(path, f"duplicate entries for key {place}")
            seen.add(element)
        yield from type_mismatches(item, type.items, path + place)


def _scalar_mismatch(value: Any, type: FieldType) -> str:
    match type.scalar:
        case "numeric" if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected numeric (int or float), got {go_type_name(value.__class__)}"
        case "string" if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{go_text(value)}}}"
        case "untyped" if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{go_text(value)}}}"
    return ""


def _go_syntax(value: Any) -> str:
    """The value as Go's %#v prints it."""
    match value:
        case dict():
            return (
                "map[string]interface {}{"
                + ", ".join(f"{go_quote(name)}:{_go_syntax(value[name])}" for name in sorted(value))
                + "}"
            )
        case list():
            return "[]interface {}{" + ", ".join(map(_go_syntax, value)) + "}"
        case str():
            return go_quote(value)
        case None:
            return "interface {}(nil)"
        case _:
            return fieldpath.json_text(value)


def mismatch_message(found: list[TypeMismatch]) -> str:
    lines = [f"{path}: {message}" if path else message for path, message in found]
    return lines[0] if len(lines) == 1 else "\n".join(["errors:", *(f"  {line}" for line in lines)])
