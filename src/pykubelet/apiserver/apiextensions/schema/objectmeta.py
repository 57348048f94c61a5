"""Metadata of custom objects and embedded resources: unknown fields, wrong types, validation.

Embedded resources (x-kubernetes-embedded-resource) need apiVersion, kind and valid metadata.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/algorithm.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/coerce.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError, invalid, required
from pykubelet.api.names import dns1035_label_errors, path_segment_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import OBJECT_META, Field, definitions
from pykubelet.api.serializer import Document, copied
from pykubelet.api.strict import check_object
from pykubelet.api.times import parse_time
from pykubelet.apiserver.apiextensions.schema.structural import Structural, inner_values
from pykubelet.kinds.metadata import generic_metadata_errors

_METADATA = Field("ref", OBJECT_META)
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


def metadata_type_error(metadata: Any) -> str:
    """Describes the first wrong type like Go's JSON decoder; empty if there is none."""
    return _mistake(metadata, _METADATA, "")


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


def embedded_errors(value: Any, schema: Structural | None, path: str = "") -> list[FieldError]:
    """Validates type and metadata of embedded resources."""
    if schema is None or not schema.has_embedded:
        return []
    errors = _resource_errors(value, path) if schema.embedded and isinstance(value, dict) else []
    for item, known, at in inner_values(value, schema, path):
        errors += embedded_errors(item, known, at)
    return errors


def with_plain_metadata(value: Any, schema: Structural | None) -> Any:
    """Drops unknown fields from the metadata of embedded resources."""
    if schema is None or not schema.has_embedded:
        return value
    if isinstance(value, list):
        return [with_plain_metadata(item, schema.items) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {key: with_plain_metadata(item, schema.field(key)) for key, item in value.items()}
    if schema.embedded and isinstance(metadata := changed.get("metadata"), dict) and not metadata_type_error(metadata):
        own = copied(metadata)
        # Makes null labels and annotations empty, in place.
        check_object(own, OBJECT_META)
        changed["metadata"] = normal_form(own, OBJECT_META)
    return changed


def unknown_embedded_fields(value: Any, schema: Structural | None, path: str = "") -> list[str]:
    """Returns the paths of unknown fields in the metadata of embedded resources."""
    if schema is None or not schema.has_embedded:
        return []
    found: list[str] = []
    if isinstance(value, dict):
        if schema.embedded and "metadata" in value:
            found += _unknown(value["metadata"], _METADATA, f"{path}.metadata")
        for key, item in value.items():
            found += unknown_embedded_fields(item, schema.field(key), f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += unknown_embedded_fields(item, schema.items, f"{path}[{index}]")
    return sorted(found)


def _resource_errors(value: Document, path: str) -> list[FieldError]:
    errors = [required(f"{path}.{key}") for key in ("apiVersion", "kind") if key not in value]
    for key, item in value.items():
        if key not in {"apiVersion", "kind"}:
            continue
        if not isinstance(item, str):
            errors.append(invalid(f"{path}.{key}", item, "must be a string"))
        elif not item:
            errors.append(invalid(f"{path}.{key}", item, "must not be empty"))
        elif key == "apiVersion" and item.count("/") > 1:
            errors.append(invalid(f"{path}.{key}", item, f"unexpected GroupVersion string: {item}"))
        elif key == "kind" and (wrong := dns1035_label_errors(item.lower())):
            detail = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            errors.append(invalid(f"{path}.{key}", item, detail))
    if "metadata" in value:
        errors += _metadata_errors(value["metadata"], f"{path}.metadata")
    return errors


def _metadata_errors(metadata: Any, path: str) -> list[FieldError]:
    if mistake := metadata_type_error(metadata):
        return [invalid(path, metadata, mistake)]
    metadata = metadata or {}
    named = {**metadata, "name": metadata.get("name") or "fakename"}
    return generic_metadata_errors(
        named, name_rule=path_segment_errors, namespaced=bool(named.get("namespace")), path=path
    )
