"""Documents as CEL values: types from the schema, and lazy access.

Only fields in the schema are visible, and a null counts as absent. Fields are converted on first access.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go,
staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from pykubelet.api.cel import types
from pykubelet.api.cel.escaping import escape, unescape
from pykubelet.api.cel.library.times import read_date, read_loose_duration, read_timestamp
from pykubelet.api.cel.values import (
    MISSING,
    CelError,
    Duration,
    Frame,
    Timestamp,
    add_kind,
    equal,
    is_map,
    lookup,
    no_such_overload,
)
from pykubelet.api.field_errors import go_json
from pykubelet.apiserver.apiextensions.schema.structural import Structural

_TEXT = Structural(types=("string",))
_RESOURCE_FIELDS: dict[str, Structural] = {
    "kind": _TEXT,
    "apiVersion": _TEXT,
    "metadata": Structural(types=("object",), properties={"name": _TEXT, "generateName": _TEXT}),
}


# The classes of values of a type, and how errors describe the type.
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "object": ((dict,), "a map for the provided schema with type=object"),
    "array": ((list,), "an array for the provided schema with type=array"),
    "string": ((str,), "string"),
    "number": ((int, float), "float"),
    "integer": ((int,), "int"),
    "boolean": ((bool,), "bool"),
}


def resource_fields(schema: Structural) -> Mapping[str, Structural]:
    """Adds apiVersion, kind and metadata.name, which are always visible, to the fields of a resource."""
    metadata = schema.properties.get("metadata", _TEXT).properties
    named = [schema.properties.get("kind"), schema.properties.get("apiVersion")]
    named += [metadata.get("name"), metadata.get("generateName")]
    if all(each is not None and each.types == ("string",) for each in named):
        return schema.properties
    return {**schema.properties, **_RESOURCE_FIELDS}


def from_document(value: Any, schema: Structural, *, is_resource: bool = False) -> Any:
    """Converts a value of a document; raises CelError if it does not fit the schema, as an old value may not."""
    if value is None:
        if schema.nullable:
            return None
        raise CelError("invalid data, got null for schema with nullable=false")
    if len(schema.types) != 1:
        if schema.types and type(value) not in (int, str):
            raise CelError("invalid data, expected XIntOrString value to be either a string or integer")
        # A value without a schema can only be compared.
        return value
    kind = schema.types[0]
    classes, wanted = _TYPES[kind]
    if type(value) not in classes:
        raise CelError(f"invalid data, expected {wanted}")
    match kind:
        case "object":
            is_resource = is_resource or schema.embedded
            return ObjectValue(value, schema, resource_fields(schema) if is_resource else schema.properties)
        case "array":
            items = schema.items
            return ListValue([from_document(each, items) for each in value] if items else value, value, schema)
        case "string" if schema.values is not None and schema.values.format:
            return _formatted(value, schema.values.format)
        case "number":
            return float(value)
        case _:
            return value


def _formatted(text: str, format: str) -> str | bytes | Timestamp | Duration:
    try:
        match format:
            case "duration":
                return read_loose_duration(text)
            case "date":
                return read_date(text)
            case "date-time":
                return read_timestamp(text)
            case "byte":
                return base64.b64decode(text, validate=True)
            case _:
                return text
    except ValueError as error:
        named = "Invalid duration" if format == "duration" else f"Invalid {format} formatted string"
        raise CelError(f"{named} {text}: {error}") from None


class ObjectValue:
    """An object with fields, or a map with keys that the schema does not name."""

    __slots__ = ("_fields", "_found", "document", "schema")

    def __init__(self, document: dict[str, Any], schema: Structural, fields: Mapping[str, Structural]) -> None:
        self.document = document
        self.schema = schema
        self._fields = fields
        self._found: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.document)

    def _known(self, key: str) -> Structural | None:
        return self._fields.get(key) if self._fields else self.schema.additional_schema

    def find(self, key: Any) -> Any:
        """Returns the value of a field; MISSING if it is absent or not in the schema."""
        if type(key) is not str:
            raise no_such_overload()
        # Rules with loops access the same field repeatedly.
        if key not in self._found:
            self._found[key] = self._converted(key)
        return self._found[key]

    def _converted(self, key: str) -> Any:
        name = unescape(key) if self._fields else key
        if name is None or name not in self.document:
            return MISSING
        value = self.document[name]
        known = self._known(name)
        if known is None or (value is None and self._fields):
            return MISSING
        return from_document(value, known)

    def __iter__(self) -> Iterator[str]:
        """Yields the escaped names of the visible fields."""
        if not self._fields:
            return iter(self.document if self.schema.additional_schema else ())
        return (escape(key) or key for key in self.document if key in self._fields)

    def equals(self, other: Any, frame: Frame | None) -> bool:
        """Whether all visible fields are equal, and the invisible parts identical."""
        if isinstance(other, ObjectValue) and self.schema is other.schema and self.document == other.document:
            return True
        if len(self) != len(other):
            return False
        for key, value in self.document.items():
            if self._known(key) is None:
                theirs = other.document.get(key, value) if isinstance(other, ObjectValue) else MISSING
                if theirs != value:
                    return False
                continue
            name = (escape(key) or key) if self._fields else key
            mine, theirs = self.find(name), lookup(other, name)
            if (mine is MISSING) != (theirs is MISSING):
                return False
            if mine is not MISSING and not equal(mine, theirs, frame):
                return False
        return True


class ListValue(list[Any]):
    """A list of a document; sets and maps have their own equality and addition."""

    __slots__ = ("document", "schema")

    def __init__(self, items: list[Any], document: list[Any], schema: Structural) -> None:
        super().__init__(items)
        self.document = document
        self.schema = schema

    def equals(self, other: list[Any], frame: Frame | None) -> bool:
        """Whether two lists are equal; the order is ignored for sets and maps."""
        if isinstance(other, ListValue) and self.schema is other.schema and self.document == other.document:
            return True
        if len(self) != len(other):
            return False
        if self.schema.list_type not in {"set", "map"}:
            return all(equal(mine, theirs, frame) for mine, theirs in zip(self, other, strict=True))
        mine_by_key = dict(zip(map(self._key, self), self, strict=True))
        return all(
            (mine := mine_by_key.get(self._key(theirs), MISSING)) is not MISSING and equal(mine, theirs, frame)
            for theirs in other
        )

    def plus(self, other: list[Any]) -> list[Any]:
        """Concatenates; a set adds only new items, a map replaces items of the same key."""
        kind = self.schema.list_type
        if kind not in {"set", "map"}:
            return [*self, *other]
        joined = dict(zip(map(self._key, self), self, strict=True))
        for item in other:
            key = self._key(item)
            if kind == "map" or key not in joined:
                joined[key] = item
        items = list(joined.values())
        return ListValue(items, items, self.schema)

    def _key(self, item: Any) -> Any:
        if self.schema.list_type == "map" and is_map(item):
            return tuple(_plain(lookup(item, escape(key) or key)) for key in self.schema.map_keys)
        return _plain(item)


def _plain(value: Any) -> Any:
    """Returns a hashable form that distinguishes true from 1."""
    if isinstance(value, ObjectValue):
        return go_json(value.document)
    return type(value) is bool, repr(value) if isinstance(value, list | dict) else value


add_kind(ObjectValue, "map")
add_kind(ListValue, "list")


_SCALARS = {"string": types.STRING, "boolean": types.BOOL, "number": types.DOUBLE, "integer": types.INT}
_FORMATS = {"byte": types.BYTES, "duration": types.DURATION, "date": types.TIMESTAMP, "date-time": types.TIMESTAMP}


def schema_type(schema: Structural, *, is_resource: bool = False, name: str = "selfType") -> types.Type | None:
    """Returns the CEL type of a schema; None if expressions cannot access it."""
    if len(schema.types) != 1:
        # int-or-string is dynamic; a schema without a type is invisible.
        return types.DYN if schema.types else None
    kind = schema.types[0]
    if kind == "object":
        return _object(schema, name, is_resource=is_resource)
    if kind == "array":
        item = schema.items and schema_type(schema.items, is_resource=schema.items.embedded, name=f"{name}.@idx")
        return types.list_of(item) if item else None
    if kind == "string" and schema.values is not None:
        return _FORMATS.get(schema.values.format, types.STRING)
    return _SCALARS.get(kind)


def _object(schema: Structural, name: str, *, is_resource: bool) -> types.Type | None:
    additional = schema.additional_schema
    if additional is not None:
        value = schema_type(additional, is_resource=additional.embedded, name=f"{name}.@elem")
        return types.map_of(types.STRING, value) if value else None
    fields: dict[str, types.Type] = {}
    for key, each in (resource_fields(schema) if is_resource else schema.properties).items():
        field = escape(key)
        type_ = field and schema_type(each, is_resource=each.embedded, name=f"{name}.{field}")
        if field and type_:
            fields[field] = type_
    return types.object_type(name, fields)
