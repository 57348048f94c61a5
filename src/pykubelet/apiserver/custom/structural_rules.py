"""Whether a schema is structural: every field has a type, and alternatives only restrict values.

In: `openAPIV3Schema`. Out: complaints, in the order of their texts, as upstream sorts them.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go and complete.go
"""

from collections.abc import Iterator
from typing import Any

from pykubelet.api.validation.field_errors import FieldError, forbidden, invalid, required
from pykubelet.api.wire import Document
from pykubelet.apiserver.custom.go_regex import PatternError, go_pattern
from pykubelet.apiserver.custom.schema import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_TYPE,
    MAP_KEYS,
    MAP_TYPE,
    PRESERVE,
    VALIDATIONS,
)

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_EMPTY_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_NOT_NESTED = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    PRESERVE: "must be false to be structural",
    EMBEDDED: "must be false to be structural",
    INT_OR_STRING: "must be false to be structural",
    MAP_KEYS: "must be empty to be structural",
    LIST_TYPE: "must be undefined to be structural",
    MAP_TYPE: "must be undefined to be structural",
    VALIDATIONS: "must be empty to be structural",
}
# Of metadata at the root only these may be restricted.
_METADATA_NAMES = frozenset({"name", "generateName"})


def structural_errors(schema: Document, path: str) -> list[FieldError]:
    """What keeps a schema from being structural."""
    errors = [*_structure_errors(schema, "root", path), *_missing_fields(schema, schema, path, path)]
    return sorted(errors, key=str)


def _structure_errors(schema: Document, level: str, path: str) -> Iterator[FieldError]:
    type_ = schema.get("type", "")
    items = schema.get("items")
    if type_ == "array" and not isinstance(items, dict):
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _structure_errors(items, "item", f"{path}.items")
    properties = schema.get("properties", {})
    for name, each in properties.items():
        yield from _structure_errors(each, "field", f"{path}.properties[{name}]")
    additional = schema.get("additionalProperties")
    if additional is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, dict):
        yield from _structure_errors(additional, "field", f"{path}.additionalProperties")
    yield from _extension_errors(schema, path)
    yield from _value_errors(schema, path, is_int_or_string=bool(schema.get(INT_OR_STRING)))
    yield from _type_errors(schema, level, path)
    yield from _resource_errors(schema, level, path)


def _extension_errors(schema: Document, path: str) -> Iterator[FieldError]:
    if schema.get(INT_OR_STRING):
        for key in (PRESERVE, EMBEDDED):
            if schema.get(key):
                yield invalid(f"{path}.{key}", True, "must be false if x-kubernetes-int-or-string is true")


def _type_errors(schema: Document, level: str, path: str) -> Iterator[FieldError]:
    type_ = schema.get("type", "")
    if schema.get(EMBEDDED) and type_ != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", type_, detail) if type_ else required(f"{path}.type", detail)
    elif not type_ and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield required(f"{path}.type", _EMPTY_TYPE[level])
    if schema.get(EMBEDDED) and schema.get("additionalProperties") is not None:
        yield forbidden(f"{path}.additionalProperties", "must not be used if x-kubernetes-embedded-resource is set")
    if level == "root" and type_ and type_ != "object":
        yield invalid(f"{path}.type", type_, "must be object at the root")


def _resource_errors(schema: Document, level: str, path: str) -> Iterator[FieldError]:
    """What a schema may say of apiVersion, kind and metadata."""
    properties = schema.get("properties", {})
    is_resource = level == "root" or schema.get(EMBEDDED)
    for name in ("kind", "apiVersion"):
        if is_resource and name in properties and properties[name].get("type", "") != "string":
            at = f"{path}.properties[{name}].type"
            yield invalid(at, properties[name].get("type", ""), "must be string")
    metadata = properties.get("metadata")
    if metadata is not None:
        at = f"{path}.properties[metadata]"
        if is_resource and metadata.get("type", "") != "object":
            yield invalid(f"{at}.type", metadata.get("type", ""), "must be object")
        if level == "root" and not _restricts_names_only(metadata):
            detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(at, detail)
    if schema.get(EMBEDDED) and not schema.get(PRESERVE) and not properties:
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", detail)


def _restricts_names_only(metadata: Document) -> bool:
    properties = metadata.get("properties", {})
    rest = metadata.keys() - {"type", "properties", "default"}
    return not rest and properties.keys() <= _METADATA_NAMES


def _value_errors(
    schema: Document, path: str, *, is_int_or_string: bool = False, skips_any_of: bool = False
) -> Iterator[FieldError]:
    any_of, all_of = schema.get("anyOf") or [], schema.get("allOf") or []
    if not (skips_any_of or (is_int_or_string and any_of == _INT_OR_STRING)):
        for index, each in enumerate(any_of):
            yield from _nested_errors(each, f"{path}.anyOf[{index}]")
    for index, each in enumerate(all_of):
        skips = is_int_or_string and index == 0 and each.get("anyOf") == _INT_OR_STRING
        yield from _nested_errors(each, f"{path}.allOf[{index}]", skips_any_of=skips)
    for index, each in enumerate(schema.get("oneOf") or ()):
        yield from _nested_errors(each, f"{path}.oneOf[{index}]")
    if schema.get("not"):
        yield from _nested_errors(schema["not"], f"{path}.not")
    if pattern := schema.get("pattern"):
        try:
            go_pattern(pattern)
        except PatternError as error:
            yield invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}")


def _nested_errors(schema: Document, path: str, *, skips_any_of: bool = False) -> Iterator[FieldError]:
    """Inside an alternative only values may be spoken of."""
    yield from _value_errors(schema, path, skips_any_of=skips_any_of)
    if isinstance(items := schema.get("items"), dict):
        yield from _nested_errors(items, f"{path}.items")
    for name, each in schema.get("properties", {}).items():
        yield from _nested_errors(each, f"{path}.properties[{name}]")
    for key, detail in _NOT_NESTED.items():
        if schema.get(key) not in (None, "", False, []):
            yield forbidden(f"{path}.{key}", detail)
    if "metadata" in schema.get("properties", {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _missing_fields(nested: Document, whole: Any, path: str, at: str) -> Iterator[FieldError]:
    """Fields that alternatives speak of must be specified outside of them."""
    for key in ("allOf", "anyOf", "oneOf"):
        for index, each in enumerate(nested.get(key) or ()):
            yield from _missing_in(each, whole, path, f"{at}.{key}[{index}]")
    if nested.get("not"):
        yield from _missing_in(nested["not"], whole, path, f"{at}.not")


def _missing_in(nested: Document, whole: Any, path: str, at: str) -> Iterator[FieldError]:
    if not isinstance(whole, dict):
        yield required(path, f"because it is defined in {at}")
        return
    yield from _missing_fields(nested, whole, path, at)
    if isinstance(items := nested.get("items"), dict):
        yield from _missing_in(items, whole.get("items"), f"{path}.items", f"{at}.items")
    for name, each in nested.get("properties", {}).items():
        known = whole.get("properties", {}).get(name)
        where, here = f"{path}.properties[{name}]", f"{at}.properties[{name}]"
        yield from _missing_in(each, known, where, here)
