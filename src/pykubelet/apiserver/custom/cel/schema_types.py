"""The type that expressions see of a schema.

In: a schema. Out: its type, or None if expressions cannot see it: without a type they know nothing of it.

Upstream: SchemaDeclType in staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go
"""

from pykubelet.apiserver.custom.cel.documents import resource_fields
from pykubelet.apiserver.custom.cel.escaping import escaped
from pykubelet.apiserver.custom.cel.types import (
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
from pykubelet.apiserver.custom.schema import Schema

_SCALARS = {"string": STRING, "boolean": BOOL, "number": DOUBLE, "integer": INT}
_FORMATS = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}


def schema_type(schema: Schema, *, is_resource: bool = False, name: str = "selfType") -> Type | None:
    """The type of the values of a schema."""
    if len(schema.types) != 1:
        # Either an int or a string, which are told apart when they are there; or nothing is said.
        return DYN if schema.types else None
    kind = schema.types[0]
    if kind == "object":
        return _object(schema, name, is_resource=is_resource)
    if kind == "array":
        item = schema.items and schema_type(schema.items, is_resource=schema.items.embedded, name=f"{name}.@idx")
        return list_of(item) if item else None
    if kind == "string" and schema.values is not None:
        return _FORMATS.get(schema.values.format, STRING)
    return _SCALARS.get(kind)


def _object(schema: Schema, name: str, *, is_resource: bool) -> Type | None:
    additional = schema.additional_schema
    if additional is not None:
        value = schema_type(additional, is_resource=additional.embedded, name=f"{name}.@elem")
        return map_of(STRING, value) if value else None
    fields: dict[str, Type] = {}
    for key, each in (resource_fields(schema) if is_resource else schema.properties).items():
        field = escaped(key)
        type_ = field and schema_type(each, is_resource=each.embedded, name=f"{name}.{field}")
        if field and type_:
            fields[field] = type_
    return object_type(name, fields)
