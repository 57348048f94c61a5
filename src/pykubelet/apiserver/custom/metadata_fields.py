"""The metadata of custom objects, field by field: what is not known and what is of the wrong type.

Upstream: GetObjectMetaWithOptions in
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/coerce.go
"""

from typing import Any

from pykubelet.api.schema import OBJECT_META, Field, definitions
from pykubelet.api.times import parse_time

_ANY = Field("ref", OBJECT_META)
_PLAIN = {"string": str, "integer": int, "boolean": bool, "array": list, "map": dict, "ref": dict, "time": str}
_GO = {
    "string": "string",
    "integer": "int64",
    "boolean": "bool",
    "array": "slice",
    "map": "map",
    "ref": "v1.ObjectMeta",
    "time": "time.Time",
}
_FOUND = {bool: "bool", str: "string", int: "number", float: "number", list: "array", dict: "object"}


def unknown_metadata_fields(metadata: Any, path: str = "metadata") -> list[str]:
    """The paths of fields that metadata does not have."""
    return _unknown(metadata, _ANY, path)


def metadata_mistake(metadata: Any) -> str:
    """What is of the wrong type, in the words of Go's JSON decoder; empty if nothing is."""
    return _mistake(metadata, _ANY, "")


def _unknown(value: Any, field: Field, path: str) -> list[str]:
    found: list[str] = []
    if field.type == "ref" and isinstance(value, dict):
        fields = definitions()[field.ref].fields
        for key, item in value.items():
            known = fields.get(key)
            found += [f"{path}.{key}"] if known is None else _unknown(item, known, f"{path}.{key}")
    elif field.type == "array" and field.items is not None and isinstance(value, list):
        for index, item in enumerate(value):
            found += _unknown(item, field.items, f"{path}[{index}]")
    return found


def _mistake(value: Any, field: Field, at: str) -> str:
    wanted: Any = _PLAIN.get(field.type)
    if value is None or wanted is None:
        return ""
    if type(value) is not wanted:
        where = f"Go struct field ObjectMeta.{at}" if at else "Go value"
        return f"json: cannot unmarshal {_FOUND[type(value)]} into {where} of type {_GO[field.type]}"
    if field.type == "time":
        return _time_mistake(value)
    return _inner_mistake(value, field, at)


def _inner_mistake(value: Any, field: Field, at: str) -> str:
    if field.type == "ref":
        fields = definitions()[field.ref].fields
        parts = [(item, fields[key], f"{at}.{key}" if at else key) for key, item in value.items() if key in fields]
    elif field.items is not None:
        parts = [(item, field.items, at) for item in (value.values() if isinstance(value, dict) else value)]
    else:
        parts = []
    return next((mistake for item, inner, where in parts if (mistake := _mistake(item, inner, where))), "")


def _time_mistake(text: str) -> str:
    try:
        parse_time(text)
    except ValueError:
        return f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
    return ""
