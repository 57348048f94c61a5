"""The normal form of a document: what Kubernetes writes back after decoding it into Go types.

Unknown fields, nulls and empty plain fields are dropped; pointer fields keep their zero, and some fields are always
written. Times become UTC and quantities canonical (QuantityError if one is invalid). An absent list stays absent even
where Go writes null, so later rules see no nulls. The input must have correctly typed fields; the result shares its
unchanged parts.

Upstream: staging/src/k8s.io/api/core/v1/types.go, pkg/apis/core/v1/defaults.go
"""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from pykubelet.api.quantity import canonical_quantity, canonical_resource_list
from pykubelet.api.schema import Field, definitions
from pykubelet.api.serializer import Document
from pykubelet.api.times import MICRO_TIME_FIELDS, format_micro_time, format_time, parse_time

_Change = Callable[[Any], Any]

_EMPTY_SCALARS = {"string": "", "boolean": False, "integer": 0, "number": 0, "int-or-string": 0, "quantity": "0"}
# How a field is written: kept as it is, or omitted if empty. Other fields have a conversion function.
_KEEP = object()
_PLAIN = object()


def normal_form(document: Document, definition: str) -> Document:
    """Returns the document as the API server would write it."""
    return _form(definition).written(document)


def without_null_fields(document: Document, definition: str) -> Document:
    """Removes null fields, which count as absent. A null inside a value of any type, such as a default, stays."""
    fields = definitions()[definition].fields
    return {
        name: value if (field := fields.get(name)) is None else _without_nulls(value, field)
        for name, value in document.items()
        if value is not None or (name in fields and fields[name].type == "any")
    }


def _without_nulls(value: Any, field: Field) -> Any:
    if field.type == "ref":
        return without_null_fields(value, field.ref)
    if field.items is None or field.items.type in _EMPTY_SCALARS or field.items.type == "any":
        return value
    if isinstance(value, list):
        return [_without_nulls(item, field.items) for item in value]
    return {key: _without_nulls(item, field.items) for key, item in value.items()}


class _Form:
    """The conversion of each field of one definition, computed on first use."""

    __slots__ = ("_absent", "_fields")

    def __init__(self, fields: dict[str, Field]) -> None:
        self._fields = {name: _rule(name, field) for name, field in fields.items()}
        self._absent = tuple(
            (name, _absent(field))
            for name, field in fields.items()
            if field.shape in {"value", "always"} and field.type not in {"array", "map", "any"}
        )

    def written(self, document: Document) -> Document:
        """Converts the known fields of an object and adds those that are always written."""
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
    """Returns the conversion of a present field; a conversion that returns None omits the field."""
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
    """Returns the conversion of a value of this type; None if it never changes."""
    match field.type:
        case "ref":
            # Definitions may be recursive, so the inner form is resolved only when a value needs it.
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


def _absent(field: Field) -> Callable[[], Any]:
    """Returns what is written for an absent field."""
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
