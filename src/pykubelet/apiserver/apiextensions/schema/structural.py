"""Structural schemas of custom resources, compiled for pruning, defaulting and validation.

`compile_schema` turns `openAPIV3Schema` into a tree of `Structural` nodes. Nodes record whether they contain defaults,
unique lists, embedded resources or rules at any depth, so that passes can skip the rest.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/structural.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/convert.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pykubelet.api.cel.formats import is_known_format
from pykubelet.api.regexp.regexp import GoPattern, go_pattern
from pykubelet.api.serializer import Document, encode

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
MAP_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
VALIDATIONS = "x-kubernetes-validations"
_BOUNDS = (
    *("maximum", "minimum", "multipleOf"),
    *(f"{bound}{of}" for bound in ("max", "min") for of in ("Length", "Items", "Properties")),
)


@dataclass(frozen=True, slots=True)
class ValueValidation:
    """Restrictions of a value beyond its type."""

    bounds: Mapping[str, Any]
    """Limits by their names in the schema."""
    exclusive_maximum: bool
    exclusive_minimum: bool
    pattern: GoPattern | None
    pattern_text: str
    format: str
    enum: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class NestedValueValidation:
    """The schemas in allOf, anyOf, oneOf and not."""

    all_of: tuple["Structural", ...]
    any_of: tuple["Structural", ...]
    one_of: tuple["Structural", ...]
    negated: "Structural | None"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Structural:
    """The schema of one value and everything in it. Compared by identity, so that it can be a dict key."""

    types: tuple[str, ...] = ()
    nullable: bool = False
    default: Any = None
    default_bytes: int = 0
    """The length of the default's JSON text."""
    properties: Mapping[str, "Structural"] = field(default_factory=dict)
    items: "Structural | None" = None
    additional: "Structural | bool | None" = None
    preserves: bool = False
    embedded: bool = False
    list_type: str = ""
    map_keys: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    values: ValueValidation | None = None
    junctors: NestedValueValidation | None = None
    rules: tuple[Document, ...] = ()
    """CEL rules as the definition states them; `cel.compilation` compiles them."""
    has_defaults: bool = False
    """At any depth; likewise the next three."""
    has_unique_lists: bool = False
    has_embedded: bool = False
    has_rules: bool = False

    @property
    def additional_schema(self) -> "Structural | None":
        """Returns the schema of keys that are not named properties."""
        return self.additional if isinstance(self.additional, Structural) else None

    def field(self, name: str) -> "Structural | None":
        return self.properties.get(name) or self.additional_schema


def compile_schema(document: Document | None) -> Structural:
    """Compiles a valid schema; without one, every value is allowed but no field is kept."""
    if not document:
        return Structural()
    properties = {name: compile_schema(each) for name, each in document.get("properties", {}).items()}
    items = compile_schema(document["items"]) if document.get("items") else None
    stated = document.get("additionalProperties")
    additional = compile_schema(stated) if isinstance(stated, dict) else stated
    inner = list(_inner(properties, items, additional))
    default, list_type, embedded = document.get("default"), document.get(LIST_TYPE, ""), bool(document.get(EMBEDDED))
    rules = tuple(document.get(VALIDATIONS) or ())
    return Structural(
        types=("integer", "string") if document.get(INT_OR_STRING) else tuple(filter(None, (document.get("type"),))),
        nullable=bool(document.get("nullable")),
        default=default,
        default_bytes=0 if default is None else len(encode(default)),
        properties=properties,
        items=items,
        additional=additional,
        preserves=bool(document.get(PRESERVE)),
        embedded=embedded,
        list_type=list_type,
        map_keys=tuple(document.get(MAP_KEYS, ())),
        required=tuple(document.get("required", ())),
        values=_values(document),
        junctors=_junctors(document),
        rules=rules,
        has_defaults=default is not None or any(each.has_defaults for each in inner),
        has_unique_lists=list_type in {"set", "map"} or any(each.has_unique_lists for each in inner),
        has_embedded=embedded or any(each.has_embedded for each in inner),
        has_rules=bool(rules) or any(each.has_rules for each in inner),
    )


def _inner(properties: Mapping[str, Structural], items: Structural | None, additional: Any) -> Iterator[Structural]:
    yield from properties.values()
    if items is not None:
        yield items
    if isinstance(additional, Structural):
        yield additional


def inner_values(value: Any, schema: Structural, path: str) -> Iterator[tuple[Any, Structural | None, str]]:
    """Yields the fields or items of a value with their schemas and paths."""
    if isinstance(value, dict):
        for key, item in value.items():
            if (known := schema.properties.get(key)) is not None:
                yield item, known, f"{path}.{key}" if path else key
            else:
                yield item, schema.additional_schema, f"{path}[{key}]"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield item, schema.items, f"{path}[{index}]"


def _values(document: Document) -> ValueValidation | None:
    bounds = {name: document[name] for name in _BOUNDS if document.get(name) is not None}
    pattern, format, enum = document.get("pattern", ""), document.get("format", ""), document.get("enum") or ()
    if not is_known_format(format):
        format = ""
    if not (bounds or pattern or format or enum):
        return None
    return ValueValidation(
        bounds=bounds,
        exclusive_maximum=bool(document.get("exclusiveMaximum")),
        exclusive_minimum=bool(document.get("exclusiveMinimum")),
        pattern=go_pattern(pattern) if pattern else None,
        pattern_text=pattern,
        format=format,
        enum=tuple(enum),
    )


def _junctors(document: Document) -> NestedValueValidation | None:
    alls, anys, ones = (
        tuple(compile_schema(each) for each in document.get(key) or ()) for key in ("allOf", "anyOf", "oneOf")
    )
    negated = compile_schema(document["not"]) if document.get("not") else None
    return NestedValueValidation(alls, anys, ones, negated) if alls or anys or ones or negated else None


SchemaNode = TypeVar("SchemaNode")
_NO_FIELD = "does not refer to a valid field"

_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\['(?P<key>(?:[^'\\]|\\.)*)'\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class FieldPathError(ValueError):
    """The field path of a rule does not exist in the schema."""


def display_field_path(
    path: str,
    root: SchemaNode,
    inside: Callable[[SchemaNode], tuple[Mapping[str, SchemaNode], SchemaNode | bool | None]],
) -> str:
    """Converts the fieldPath of a rule (`.spec.labels['a.b']`) to the path shown in errors; raises FieldPathError."""
    shown = ""
    known: SchemaNode | bool | None = root
    for name in _steps(path):
        if known is None or isinstance(known, bool):
            raise FieldPathError(_NO_FIELD)
        properties, additional = inside(known)
        if properties:
            if name not in properties:
                raise FieldPathError(_NO_FIELD)
            known = properties[name]
            shown += f".{name}" if shown else name
        elif additional is not None:
            known = additional
            shown += f"[{name}]"
        else:
            raise FieldPathError(_NO_FIELD)
    return shown


def _steps(path: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise FieldPathError(f"expected [ or . but got: {path[at:]}")
        found.append(match["name"] if match["name"] is not None else _unescaped(match["key"]))
        at = match.end()
    return found


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1] not in _PLAIN:
            raise FieldPathError(f"invalid string literal: invalid escape char {match[0]}")
        return _PLAIN[match[1]]

    return _ESCAPE.sub(plain, text)
