"""The CPU time of a write grows no faster than the object, whichever list of whichever kind is long.

Each list gets n and 4n items, then, if that looks suspicious, twice as many again, with the best time of five.
"""

import gc
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import widgets
from pykubelet.api.errors import ApiError
from pykubelet.api.patch.errors import PatchError
from pykubelet.api.patch.json_merge_patch import apply_merge
from pykubelet.api.patch.strategic_apply import apply_strategic
from pykubelet.api.schema import OBJECT_META
from pykubelet.api.serializer import encode
from pykubelet.apiserver.apiextensions import customresourcedefinition
from pykubelet.apiserver.apiextensions.controller import served_rows
from pykubelet.apiserver.apiextensions.status import with_accepted_names
from pykubelet.apiserver.errors import invalid_object
from pykubelet.apiserver.fieldmanager import fieldmanager
from pykubelet.apiserver.fieldmanager.typeconverter import MergeSchema, structural_schema
from pykubelet.apiserver.handlers.responsewriters import warning_headers
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.serializer.decoder import ExpectedKind, read_object
from pykubelet.apiserver.tables.table import as_table
from pykubelet.kinds import kind as kinds_kind
from pykubelet.kinds.kind import Kind
from pykubelet.testing.virtual_time import EPOCH
from schema_walk import SchemaField, document_with, fields_of, items_of, put

_FEW, _MANY = 250, 1000
# Twice the items: linear work takes twice the time; n log n, the caches of the CPU and noise add a little.
_WORST = 2.3
_NOW = "2026-01-01T00:00:00Z"
_STORED = {"uid": "u", "creationTimestamp": _NOW, "resourceVersion": "1", "namespace": "default"}


@pytest.fixture(autouse=True)
def _measuring(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Computes every result anew, without collections in between."""
    monkeypatch.setattr(kinds_kind, "MAX_SPEC_BYTES", -1)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _merge_schema(kind: Kind) -> str | MergeSchema:
    """What the field manager knows of the kind; `structural` is the schema of a custom resource."""
    return kind.definition if kind.structural is None else structural_schema(kind.structural, kind=kind.resource.kind)


def _write(kind: Kind, body: bytes) -> None:
    """What the server does with a new object, a rejected one, an update, a patch and an apply, without the store."""
    strategy, expected, schema = kind.strategy, ExpectedKind.of(kind), _merge_schema(kind)
    document, _ = read_object(body, "application/json", expected)
    unknown = strategy.unknown(document)
    document = strategy.default(document)
    document = fieldmanager.record(
        document,
        None,
        definition=schema,
        manager="tests",
        api_version=expected.api_version,
        subresource="",
        now=_NOW,
    )
    document = {**document, "metadata": {**document["metadata"], **_STORED}}
    warnings = unknown + strategy.warnings.received(document)
    stored = strategy.prepare_create(document)
    errors = strategy.validate_create(stored)
    warnings += strategy.warnings.create(stored)
    if errors:
        encode(invalid_object(kind.resource, "a", errors).to_status())
    as_table(stored, kind, include="Object", now=EPOCH)
    new = strategy.prepare_update(strategy.default({**stored}), stored)
    strategy.validate_update(new, stored)
    strategy.validate_status(strategy.prepare_status(new, stored), stored)
    warnings += strategy.warnings.update(new, stored) + strategy.warnings.status(new, stored)
    warning_headers(warnings)
    sent = json.loads(body)
    with suppress(PatchError):
        if kind.definition:
            apply_strategic(stored, sent, kind.definition)
        else:
            apply_merge(stored, sent)
    with suppress(ApiError):
        fieldmanager.apply(
            stored,
            sent,
            definition=schema,
            manager="others",
            api_version=expected.api_version,
            subresource="",
            now=_NOW,
            force=True,
        )


def _seconds(kind: Kind, document: dict[str, Any], *, tries: int = 1) -> float:
    body = json.dumps(document).encode()
    best = float("inf")
    for _ in range(tries):
        started = time.process_time()
        _write(kind, body)
        best = min(best, time.process_time() - started)
    return best


def _own_lists(kind: Kind, seen: set[tuple[str, str]]) -> Iterator[SchemaField]:
    """The lists and maps of a kind that no earlier kind has: pod templates and metadata are measured once."""
    for found in fields_of(kind.definition):
        key = (found.definition, found.path[-1])
        if found.field.type in {"array", "map"} and key not in seen and key != (OBJECT_META, "managedFields"):
            seen.add(key)
            yield found


def _cases() -> list[tuple[Kind, list[SchemaField]]]:
    seen: set[tuple[str, str]] = set()
    # The pod first, so that its lists are measured with all rules of pods.
    kinds = sorted((kind for kind in BUILT_IN_KINDS if kind.definition), key=lambda kind: kind.resource.kind != "Pod")
    return [(kind, list(_own_lists(kind, seen))) for kind in kinds]


_CASES = [pytest.param(kind, lists, id=kind.resource.group_resource) for kind, lists in _cases()]


@pytest.mark.parametrize(("kind", "lists"), _CASES)
def test_cpu_time_of_a_write_grows_linearly_with_each_list_of_its_kind(kind: Kind, lists: list[SchemaField]) -> None:
    """Items are all equal in one document and all different in the other."""
    slow = [
        f"{found.name} ({'equal' if equal else 'different'} items): {ratio:.1f} times"
        for found in lists
        for equal in (True, False)
        if (ratio := _growth(kind, found, equal=equal)) > _WORST
    ]
    assert slow == [], "time for twice the items"


def _growth(kind: Kind, found: SchemaField, *, equal: bool) -> float:
    """The time for twice the items, in times of that for all of them."""

    def seconds(count: int, tries: int) -> float:
        items = items_of(found.field, count, equal=equal)
        return _seconds(kind, document_with(kind, found.path, items), tries=tries)

    if seconds(_MANY, 1) < seconds(_FEW, 1) * _WORST**2:
        return 2.0
    return seconds(4 * _MANY, 5) / seconds(2 * _MANY, 5)


@pytest.mark.parametrize(("kind", "_lists"), _CASES)
def test_cpu_time_of_a_write_grows_linearly_when_all_lists_of_an_object_are_long(
    kind: Kind, _lists: list[SchemaField]
) -> None:
    """Rules that compare two lists with each other are no slower than those about one list."""

    def seconds(count: int, tries: int) -> float:
        document = document_with(kind, ("metadata", "name"), "a")
        for found in fields_of(kind.definition):
            if found.field.type in {"array", "map"} and "managedFields" not in found.path:
                put(document, kind.definition, found.path, items_of(found.field, count, equal=False))
        return _seconds(kind, document, tries=tries)

    few, many = 10, 40
    if seconds(many, 1) < seconds(few, 1) * _WORST**2:
        return
    assert seconds(4 * many, 3) / seconds(2 * many, 3) < _WORST


_ITEM = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 100, "pattern": "^a[0-9]*$"},
        "size": {"type": "integer", "default": 3, "x-kubernetes-validations": [{"rule": "self < 10"}]},
        "choice": {"anyOf": [{"enum": ["x", "y"]}, {"minLength": 3}], "type": "string"},
    },
    "x-kubernetes-validations": [{"rule": "self.name.startsWith('a') && self.size != 2"}],
}
_CUSTOM_FIELDS: dict[str, tuple[dict[str, Any], Callable[[int], Any]]] = {
    "list": ({"type": "array", "items": _ITEM}, lambda number: {"name": f"a{number}"}),
    "pruned": ({"type": "array", "items": _ITEM}, lambda number: {"name": f"a{number}", f"unknown{number}": 1}),
    "bad": ({"type": "array", "items": _ITEM}, lambda number: {"name": number, "size": "a", "choice": "z"}),
    "breaks rules": ({"type": "array", "items": _ITEM}, lambda number: {"name": f"a{number}", "size": 11}),
    "list map": (
        {
            "type": "array",
            "items": {**_ITEM, "required": ["name", "size"]},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "size"],
        },
        lambda number: {"name": f"a{number}", "size": 5},
    ),
    "set": (
        {"type": "array", "items": {"type": "string", "format": "date-time"}, "x-kubernetes-list-type": "set"},
        lambda number: f"a{number}",
    ),
    "numbers": (
        {
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "multipleOf": 2},
            "x-kubernetes-validations": [
                {"rule": "self.all(one, one >= 0)"},
                {"rule": "self == oldSelf || size(self) > 0"},
                {"rule": "size(self.filter(one, one > 5)) >= 0", "messageExpression": "'sum of ' + string(size(self))"},
            ],
        },
        lambda number: number,
    ),
    "int or string": ({"type": "array", "items": {"x-kubernetes-int-or-string": True}}, lambda number: f"{number}%"),
    "untyped": ({"x-kubernetes-preserve-unknown-fields": True}, lambda number: {f"a{number}": [number]}),
    "embedded": (
        {"type": "array", "items": {"type": "object", "x-kubernetes-embedded-resource": True}},
        lambda number: {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"A{number}"}},
    ),
}


def _widget_kind(schema: dict[str, Any]) -> Kind:
    """Custom resources with one field; it may be a list or, for any other type, have an entry for each item."""
    described = {"name": "v1", "served": True, "storage": True}
    described |= {
        "schema": {"openAPIV3Schema": widgets.schema(field=schema)},
        "additionalPrinterColumns": [{"name": "Names", "type": "string", "jsonPath": ".spec.field[*].name"}],
    }
    created = customresourcedefinition.KIND.strategy.default(widgets.definition(described))
    (served,) = served_rows(with_accepted_names(created, [], _NOW))
    return served


@pytest.mark.parametrize("name", _CUSTOM_FIELDS)
@pytest.mark.parametrize("equal", [True, False], ids=["equal items", "different items"])
def test_cpu_time_of_a_write_grows_linearly_with_a_custom_resource(name: str, equal: bool) -> None:
    """Pruning, defaults, validation, CEL rules, columns, patches and managed fields."""
    schema, item = _CUSTOM_FIELDS[name]
    kind = _widget_kind(schema)

    def seconds(count: int, tries: int) -> float:
        items = [item(0 if equal else number) for number in range(count)]
        return _seconds(kind, widgets.widget(field=items), tries=tries)

    if seconds(_MANY, 1) < seconds(_FEW, 1) * _WORST**2:
        return
    assert seconds(4 * _MANY, 5) / seconds(2 * _MANY, 5) < _WORST
