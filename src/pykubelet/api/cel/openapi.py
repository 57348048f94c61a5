"""CEL types of published OpenAPI schemas, with which the expressions of a policy are checked.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go,
staging/src/k8s.io/apiserver/pkg/cel/openapi/adaptor.go,
staging/src/k8s.io/apiserver/pkg/cel/openapi/resolver/refs.go
"""

from collections.abc import Mapping
from typing import Any

from pykubelet.api.cel.escaping import escape
from pykubelet.api.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    object_type,
)

Schema = Mapping[str, Any]
_REFERENCE = "#/components/schemas/"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_FORMATS = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
_SCALARS = {"boolean": BOOL, "number": DOUBLE, "integer": INT}
_ROOT: Schema = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}},
}


def published_type(name: str, schemas: Mapping[str, Schema]) -> Type | None:
    """The type of a kind's schema in the `components` of an OpenAPI v3 document; None if expressions cannot access it."""
    schema = schemas[name]
    if schema.get("type") == "object":
        # Every object has these, even if its schema does not say so.
        schema = {**schema, "properties": {**_ROOT, **schema.get("properties", {})}}
    return _Reader(schemas).type_of(schema, name.rpartition(".")[2])


class _Reader:
    """Converts schemas; follows references, of which a recursive one ends in an object without fields."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._within: list[str] = []

    def type_of(self, schema: Schema, name: str) -> Type | None:
        target = _reference(schema)
        if not target:
            return self._plain(schema, name)
        if target in self._within:
            return object_type(name, {})
        self._within.append(target)
        try:
            return self.type_of(self._schemas.get(target, {}), name)
        finally:
            self._within.pop()

    def _plain(self, schema: Schema, name: str) -> Type | None:
        # Quantities are text or numbers, and have no type either.
        if (
            schema.get("format") == "int-or-string"
            or schema.get(_INT_OR_STRING)
            or ("oneOf" in schema and "type" not in schema)
        ):
            return DYN
        match schema.get("type"):
            case "array":
                item = self.type_of(schema.get("items", {}), f"{name}.@idx")
                return None if item is None else list_of(item)
            case "object":
                return self._object(schema, name)
            case "string":
                return _FORMATS.get(schema.get("format", ""), STRING)
            case kind:
                return _SCALARS.get(kind or "")

    def _object(self, schema: Schema, name: str) -> Type | None:
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping):
            value = self.type_of(values, f"{name}.@elem")
            return None if value is None else map_of(STRING, value)
        fields: dict[str, Type] = {}
        for key, each in schema.get("properties", {}).items():
            field = escape(key)
            found = self.type_of(each, f"{name}.{field}") if field else None
            if field and found is not None:
                fields[field] = found
        return object_type(name, fields)


def _reference(schema: Schema) -> str:
    """The schema that this one refers to, directly or as the only one of `allOf`, as fields with a default do."""
    if len(schema.get("allOf", ())) == 1:
        schema = schema["allOf"][0]
    return str(schema.get("$ref", "")).removeprefix(_REFERENCE)
