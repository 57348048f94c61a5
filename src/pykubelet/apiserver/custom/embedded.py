"""Embedded resources: objects of the API inside a custom resource.

They must say what they are and have metadata like any object's.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta
"""

from typing import Any

from pykubelet.api.names import dns1035_label_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import OBJECT_META
from pykubelet.api.validation.field_errors import FieldError, invalid, required
from pykubelet.api.validation.metadata import generic_metadata_errors
from pykubelet.api.wire import Document
from pykubelet.apiserver.custom.metadata_fields import metadata_mistake, unknown_metadata_fields
from pykubelet.apiserver.custom.schema import Schema

_SOME_NAME = "fakename"
_NO_NAMES = {".": "may not be '.'", "..": "may not be '..'"}


def embedded_errors(value: Any, schema: Schema | None, path: str = "") -> list[FieldError]:
    """What is wrong with the type and metadata of embedded resources."""
    if schema is None or not schema.has_embedded:
        return []
    errors: list[FieldError] = []
    if isinstance(value, dict):
        if schema.embedded:
            errors += _resource_errors(value, path)
        for key, item in value.items():
            if (known := schema.properties.get(key)) is not None:
                errors += embedded_errors(item, known, f"{path}.{key}" if path else key)
            else:
                errors += embedded_errors(item, schema.additional_schema, f"{path}[{key}]")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            errors += embedded_errors(item, schema.items, f"{path}[{index}]")
    return errors


def with_plain_metadata(value: Any, schema: Schema | None) -> Any:
    """The same with nothing in the metadata of embedded resources that metadata does not have."""
    if schema is None or not schema.has_embedded:
        return value
    if isinstance(value, list):
        return [with_plain_metadata(item, schema.items) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {key: with_plain_metadata(item, schema.field(key)) for key, item in value.items()}
    if schema.embedded and isinstance(metadata := changed.get("metadata"), dict) and not metadata_mistake(metadata):
        changed["metadata"] = normal_form(metadata, OBJECT_META)
    return changed


def unknown_embedded_fields(value: Any, schema: Schema | None, path: str = "") -> list[str]:
    """The paths of fields in the metadata of embedded resources that metadata does not have."""
    if schema is None or not schema.has_embedded:
        return []
    found: list[str] = []
    if isinstance(value, dict):
        if schema.embedded and "metadata" in value:
            found += unknown_metadata_fields(value["metadata"], f"{path}.metadata")
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
    if mistake := metadata_mistake(metadata):
        return [invalid(path, metadata, mistake)]
    named = {**metadata, "name": metadata.get("name") or _SOME_NAME}
    return generic_metadata_errors(named, name_rule=_segment_errors, namespaced=bool(named.get("namespace")), path=path)


def _segment_errors(name: str) -> list[str]:
    """A name that could not stand in a path."""
    if name in _NO_NAMES:
        return [_NO_NAMES[name]]
    return [f"may not contain '{char}'" for char in "/%" if char in name]
