"""A document as Kubernetes writes it back: no nulls, no empty fields but those it always writes.

In: a document whose fields have the right types, and its definition. Out: a new one, sharing what is unchanged.
Kubernetes reads a document into Go types and writes those. On the way fields that a kind does not have, nulls, and
plain fields that are false, zero or empty are lost, while a field behind a pointer keeps its zero, and some fields are
written whatever they hold. Times come out in UTC, quantities in canonical form. QuantityError if a quantity is none.
A list that is absent stays so, even where Go would write null for it: rules that follow need not expect nulls.

Upstream: the JSON tags of staging/src/k8s.io/api, read by encoding/json; SetDefaults_ResourceList in
pkg/apis/core/v1/defaults.go
"""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from pykubelet.api.schema import Field, canonical_quantity, canonical_resource_list, definitions
from pykubelet.api.serializer import Document
from pykubelet.api.times import MICRO_TIME_FIELDS, format_micro_time, format_time, parse_time

_Change = Callable[[Any], Any]

_EMPTY_SCALARS = {"string": "", "boolean": False, "integer": 0, "number": 0, "int-or-string": 0, "quantity": "0"}
# What becomes of a field: kept as it is, or left out where it is empty. Any other field has a change of its own.
_KEEP = object()
_PLAIN = object()


def normal_form(document: Document, definition: str) -> Document:
    """The document as the API server would write it."""
    return _form(definition).written(document)


class _Form:
    """The fields of one definition with what becomes of each, worked out at its first use."""

    __slots__ = ("_absent", "_fields")

    def __init__(self, fields: dict[str, Field]) -> None:
        self._fields = {name: _rule(name, field) for name, field in fields.items()}
        self._absent = tuple((name, _absent(field)) for name, field in fields.items() if _is_always_there(field))

    def written(self, document: Document) -> Document:
        """The object with these fields only, each in its written form, and with those that are always there."""
        result: Document = {}
        rules = self._fields
        for name, value in document.items():
            rule = rules.get(name)
            if rule is None or value is None:
                continue
            if rule is _PLAIN:
                if value:
                    result[name] = value
            elif rule is _KEEP:
                result[name] = value
            elif (changed := rule(value)) is not None:
                result[name] = changed
        for name, absent in self._absent:
            if name not in result:
                result[name] = absent()
        return result


@cache
def _form(definition: str) -> _Form:
    return _Form(definitions()[definition].fields)


def _rule(name: str, field: Field) -> Any:
    """What becomes of a field that is there; a change that gives None leaves it out."""
    change = _change(name, field)
    if field.type in {"array", "map"}:
        is_kept = field.shape == "always"
        if change is None:
            return _KEEP if is_kept else _PLAIN
        return change if is_kept else lambda value: change(value) if value else None
    if change is not None:
        return change
    return _PLAIN if not field.shape and field.type not in {"any", "ref"} else _KEEP


def _change(name: str, field: Field) -> _Change | None:
    """How a value of this type is rewritten; None if it never is."""
    match field.type:
        case "ref":
            # Definitions may hold themselves, so the inner form is looked up only when a value needs it.
            reference = field.ref
            return lambda value: _form(reference).written(value)
        case "time":
            return _micro_time if name in MICRO_TIME_FIELDS else _time
        case "quantity":
            return canonical_quantity
        case "array" | "map":
            assert field.items is not None
            inner = _change(name, field.items)
            if inner is None:
                return None
            if field.type == "array":
                return lambda value: [inner(item) for item in value]
            if field.items.type == "quantity":
                return canonical_resource_list
            return lambda value: {key: inner(item) for key, item in value.items()}
        case _:
            return None


def _is_always_there(field: Field) -> bool:
    return field.shape in {"value", "always"} and field.type not in {"array", "map", "any"}


def _absent(field: Field) -> Callable[[], Any]:
    """What is written for a field that is not there."""
    if field.type == "ref":
        reference = field.ref
        return lambda: _form(reference).written({})
    empty = _EMPTY_SCALARS.get(field.type)
    return lambda: empty


@lru_cache(maxsize=1024)
def _time(text: str) -> str:
    return format_time(parse_time(text))


@lru_cache(maxsize=1024)
def _micro_time(text: str) -> str:
    return format_micro_time(parse_time(text))
