"""Validates the OpenAPI v3 schema of a CRD: allowed keywords, extensions, and structure.

A structural schema gives every field a type, and its alternatives (anyOf and so on) only restrict values. CEL rules are
only checked superficially here; `cel.compilation` compiles them.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/complete.go
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pykubelet.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from pykubelet.api.regexp.regexp import go_pattern
from pykubelet.api.regexp.syntax import PatternError
from pykubelet.api.serializer import Document
from pykubelet.apiserver.apiextensions.schema.pruning import META_FIELDS
from pykubelet.apiserver.apiextensions.schema.structural import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_TYPE,
    MAP_KEYS,
    MAP_TYPE,
    PRESERVE,
    VALIDATIONS,
    FieldPathError,
    display_field_path,
)
from pykubelet.kinds.rules import repeated_indexes

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


@dataclass(frozen=True, slots=True)
class _SchemaPath:
    """The position in the schema: why defaults are forbidden there, and whether it is in metadata."""

    no_defaults: str = ""
    in_metadata: bool = False


def schema_errors(schema: Document, path: str) -> list[FieldError]:
    """Validates keywords and extensions, independent of the structure."""
    return list(_errors(schema, path, _SchemaPath(), is_root=True))


def _errors(schema: Document, path: str, place: _SchemaPath, *, is_root: bool = False) -> Iterator[FieldError]:
    yield from _keyword_errors(schema, path, place)
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", detail)
    yield from _inner_errors(schema, path, place, is_root=is_root)
    if schema.get(PRESERVE) is False:
        yield invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    yield from _map_errors(schema, path)
    yield from _list_errors(schema, path)
    for index, rule in enumerate(schema.get(VALIDATIONS) or ()):
        yield from _rule_errors(rule, schema, f"{path}.{VALIDATIONS}[{index}]")


def _keyword_errors(schema: Document, path: str, place: _SchemaPath) -> Iterator[FieldError]:
    type_ = schema.get("type", "")
    if type_ and type_ not in _TYPES:
        yield not_supported(f"{path}.type", type_, _TYPES)
    if schema.get("default") is not None and place.no_defaults:
        yield forbidden(f"{path}.default", f"must not be set {place.no_defaults}")
    for key in _UNSUPPORTED:
        if schema.get(key) not in (None, "", {}):
            yield forbidden(f"{path}.{key}", f"{key} is not supported")
    if type_ == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.in_metadata and schema.get(EMBEDDED):
        yield forbidden(f"{path}.{EMBEDDED}", "must not be used inside of resource meta")


def _inner_errors(schema: Document, path: str, place: _SchemaPath, *, is_root: bool) -> Iterator[FieldError]:
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    if additional is not None and additional is not True and properties:
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if isinstance(additional, dict):
        reason = "inside additionalProperties applying to object metadata"
        inner = replace(place, no_defaults=reason) if place.in_metadata else place
        yield from _errors(additional, f"{path}.additionalProperties", inner)
    for name, each in properties.items():
        inner = place
        if (is_root or schema.get(EMBEDDED)) and name in META_FIELDS:
            inner = replace(place, in_metadata=True)
            if is_root:
                inner = replace(inner, no_defaults=f"in top-level {name}")
        yield from _errors(each, f"{path}.properties[{name}]", inner)
    if schema.get("not"):
        yield from _errors(schema["not"], f"{path}.not", place)
    for key in ("allOf", "oneOf", "anyOf"):
        for index, each in enumerate(schema.get(key) or ()):
            yield from _errors(each, f"{path}.{key}[{index}]", place)
    if isinstance(schema.get("items"), dict):
        yield from _errors(schema["items"], f"{path}.items", place)


def _map_errors(schema: Document, path: str) -> Iterator[FieldError]:
    map_type = schema.get(MAP_TYPE)
    if map_type is None:
        return
    yield from _must_be(schema, "object", f"{path}.type", MAP_TYPE)
    if map_type not in {"atomic", "granular"}:
        yield not_supported(f"{path}.{MAP_TYPE}", map_type, ["atomic", "granular"])


def _must_be(schema: Document, wanted: str, path: str, because: str) -> Iterator[FieldError]:
    found = schema.get("type", "")
    if found != wanted:
        detail = f"must be {wanted} if {because} is specified"
        yield invalid(path, found, detail) if found else required(path, detail)


def _list_errors(schema: Document, path: str) -> Iterator[FieldError]:
    list_type, keys, items = schema.get(LIST_TYPE), schema.get(MAP_KEYS) or [], schema.get("items")
    if list_type is not None:
        yield from _must_be(schema, "array", f"{path}.type", LIST_TYPE)
        if schema.get("type") == "array" and list_type == "set" and isinstance(items, dict):
            yield from _set_errors(items, path)
        if list_type not in {"atomic", "set", "map"}:
            yield not_supported(f"{path}.{LIST_TYPE}", list_type, ["atomic", "set", "map"])
    if keys and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        at = f"{path}.{LIST_TYPE}"
        yield required(at, detail) if list_type is None else invalid(at, list_type, detail)
    if list_type == "map":
        yield from _map_list_errors(schema, keys, path)
    if list_type in {"set", "map"} and isinstance(items, dict):
        yield from _item_errors(items, keys, list_type, path)


def _set_errors(items: Document, path: str) -> Iterator[FieldError]:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and items.get(LIST_TYPE, "atomic") != "atomic":
        yield invalid(f"{path}.items.{LIST_TYPE}", items[LIST_TYPE], detail)
    elif items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield invalid(f"{path}.items.{MAP_TYPE}", items.get(LIST_TYPE), detail)


def _map_list_errors(schema: Document, keys: list[str], path: str) -> Iterator[FieldError]:
    items = schema.get("items")
    if not keys:
        yield required(f"{path}.{MAP_KEYS}", "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    elif not isinstance(items, dict):
        yield invalid(f"{path}.items", items, "must only have a single schema if x-kubernetes-list-type is map")
    elif items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), detail)
    else:
        yield from _key_errors(items, keys, path)


def _key_errors(items: Document, keys: list[str], path: str) -> Iterator[FieldError]:
    properties = items.get("properties", {})
    repeated = repeated_indexes(keys)
    for index, key in enumerate(keys):
        if key not in properties:
            yield invalid(f"{path}.{MAP_KEYS}", keys, "entries must all be names of item properties")
        elif properties[key].get("type") in {"array", "object"}:
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", items.get("type", ""), detail)
        if index in repeated:
            yield invalid(f"{path}.{MAP_KEYS}", keys, "must not contain duplicate entries")


def _item_errors(items: Document, keys: list[str], list_type: str, path: str) -> Iterator[FieldError]:
    if items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    if list_type != "map":
        return
    for key in keys:
        known = items.get("properties", {}).get(key)
        if known is None:
            continue
        at, why = f"{path}.items.properties[{key}]", "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and known.get("default") is None:
            yield required(f"{at}.default", f"{why} must have a default or be a required property")
        if known.get("nullable"):
            yield forbidden(f"{at}.nullable", f"{why} cannot be nullable")


def _rule_errors(rule: Document, schema: Document, path: str) -> Iterator[FieldError]:
    text, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not text:
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _has_newlines(message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif _has_newlines(text) and not message.strip():
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if rule.get("messageExpression") and not rule["messageExpression"].strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], _REASONS)
    field_path = rule.get("fieldPath", "")
    if field_path and not field_path.strip():
        yield invalid(f"{path}.fieldPath", field_path, "must be non-empty if specified")
    if _has_newlines(field_path):
        yield invalid(f"{path}.fieldPath", field_path, "must not contain line breaks")
    if field_path and not _is_field(field_path, schema):
        yield invalid(f"{path}.fieldPath", field_path, "must be a valid path")


def _is_field(path: str, schema: Document) -> bool:
    def inside(known: Document) -> tuple[Document, Document | bool | None]:
        return known.get("properties") or {}, known.get("additionalProperties")

    try:
        display_field_path(path, schema, inside)
    except FieldPathError:
        return False
    return True


def _has_newlines(text: str) -> bool:
    return "\n" in text or "\r" in text


_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_EMPTY_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_NOT_NESTED = {
    **dict.fromkeys(("type", "title", "description", MAP_KEYS, VALIDATIONS), "must be empty to be structural"),
    **dict.fromkeys(("additionalProperties", "default", LIST_TYPE, MAP_TYPE), "must be undefined to be structural"),
    **dict.fromkeys(("nullable", PRESERVE, EMBEDDED, INT_OR_STRING), "must be false to be structural"),
}
# The only metadata fields that a root schema may restrict.
_METADATA_NAMES = frozenset({"name", "generateName"})


def structural_errors(schema: Document, path: str) -> list[FieldError]:
    """Returns the violations of structural form, sorted by text like upstream."""
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
    """Validates what a schema says about apiVersion, kind and metadata."""
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
    """Validates an alternative, which may only restrict values."""
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
    """Reports fields of alternatives that are not specified outside of them."""
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
