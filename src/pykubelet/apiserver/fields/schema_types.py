"""What a field is: one value, or a list or map whose parts have owners and are told apart.

In: the name of a built-in definition, or the schema of a custom resource. Out: a `FieldSchema`, whose types are asked
on the way down a document and made when first asked for.

Upstream: kube-openapi/pkg/schemaconv (which list is a set, a map or one value), structured-merge-diff/schema
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Final, Literal

from pykubelet.api.schema import OBJECT_META, Field, definitions
from pykubelet.api.wire import Document
from pykubelet.apiserver.fields.resets import CUSTOM_STATUS, NO_RESETS, Reset, resets_of

Kind = Literal["scalar", "map", "list", "any"]
Scalar = Literal["string", "numeric", "boolean", "untyped"]
Fields = dict[str, tuple[str, "FieldType"]]
"""By the name of a field: its step in a tree, and its type."""

# x-kubernetes-map-type: atomic, said of the type and so of every field that has it.
_ATOMIC_DEFINITIONS = frozenset(
    [
        "core.v1.ConfigMapKeySelector",
        "core.v1.EndpointAddress",
        "core.v1.EndpointPort",
        "core.v1.FileKeySelector",
        "core.v1.LocalObjectReference",
        "core.v1.NodeSelector",
        "core.v1.NodeSelectorTerm",
        "core.v1.ObjectFieldSelector",
        "core.v1.ObjectReference",
        "core.v1.ResourceFieldSelector",
        "core.v1.ScopeSelector",
        "core.v1.SecretKeySelector",
        "core.v1.SecretReference",
        "core.v1.TopologySelectorTerm",
        "core.v1.TypedLocalObjectReference",
        "discovery.v1.EndpointPort",
        "meta.v1.LabelSelector",
        "meta.v1.OwnerReference",
        "networking.v1.ServiceBackendPort",
        "rbac.v1.RoleRef",
        "rbac.v1.Subject",
    ]
)
_SCALARS: Mapping[str, Scalar] = {
    "string": "string",
    "bytes": "string",
    "integer": "numeric",
    "number": "numeric",
    "boolean": "boolean",
}
# A key field that an item leaves out has its zero, but for these.
_KEY_ZEROS: Mapping[str, Any] = {"string": "", "integer": 0}
_KEY_DEFAULTS: Mapping[tuple[str, str], Any] = {
    ("core.v1.ContainerPort", "protocol"): "TCP",
    ("core.v1.ServicePort", "protocol"): "TCP",
    ("core.v1.ObjectReference", "name"): None,
}
_EMPTY_VALUES: Mapping[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "quantity": "0"}
# Both groups serve the same events.
_EVENT_VERSIONS = frozenset({"v1", "events.k8s.io/v1"})


def _no_fields() -> Fields:
    return {}


@dataclass(eq=False)
class FieldType:
    """The type of one value. `is_leaf` says that the value has one owner as a whole."""

    kind: Kind
    is_leaf: bool = False
    scalar: Scalar = "untyped"
    declare: Callable[[], Fields] = field(default=_no_fields, repr=False)
    others: "FieldType | None" = field(default=None, repr=False)
    """Of a map's entries that are not declared; None if there may be none."""
    items: "FieldType | None" = field(default=None, repr=False)
    keys: tuple[str, ...] = ()
    """Of a list: the fields that tell its items apart, in order; none in a set."""
    key_defaults: Mapping[str, Any] = field(default_factory=dict)
    as_map: "FieldType | None" = field(default=None, repr=False)
    """Of a value of any type: what it is if it is a map; a list is one value then, and so is everything else."""
    is_exact: bool = True
    """Whether the type of a value cannot change, so that 1 never meets true."""

    @cached_property
    def fields(self) -> Fields:
        """The declared fields."""
        return self.declare()

    @cached_property
    def shapes(self) -> dict[tuple[str, ...], Any]:
        """Room for what a walker learned of objects with the same fields."""
        return {}

    def child(self, name: str) -> tuple[str, "FieldType"]:
        """The step and type of an entry, declared or not."""
        return self.fields.get(name) or (f"f:{name}", self.others or DEDUCED_TYPE)

    def below(self, step: str) -> "FieldType":
        """The type that a step of a path leads to."""
        mapped = self.as_map or self
        if step[0] == "f":
            return mapped.child(step[2:])[1]
        return self.items or DEDUCED_TYPE


_TEXT: Final = FieldType("scalar", is_leaf=True, scalar="string")
SCALAR: Final = FieldType("scalar", is_leaf=True, is_exact=False)
DEDUCED_TYPE: Final = FieldType("any", is_exact=False)
DEDUCED_TYPE.as_map = FieldType("map", others=DEDUCED_TYPE, is_exact=False)
ATOMIC_TYPE: Final = FieldType("any", is_leaf=True, is_exact=False)
ATOMIC_TYPE.as_map = FieldType("map", others=ATOMIC_TYPE, is_leaf=True, is_exact=False)


@dataclass(frozen=True, eq=False)
class FieldSchema:
    """What is known of a kind of object."""

    type: FieldType
    kind: str = ""
    empty: Document = field(default_factory=dict)
    """An object of which nothing is said, as Go writes it."""
    resets: Mapping[str, Reset] = field(default_factory=lambda: NO_RESETS)
    """By subresource: what a write through it cannot change."""
    versions: frozenset[str] = frozenset()
    """The apiVersions an owner may have written in besides the one in use; owners in others are forgotten."""
    may_change: bool = False
    """Whether the schema may have been another when the stored owners were written."""


DEDUCED: Final = FieldSchema(DEDUCED_TYPE)
"""For objects without any schema: maps have parts, lists are one value."""


@cache
def schema_of(definition: str) -> FieldSchema:
    """The schema of a built-in kind such as `core.v1.Pod`; KeyError if there is none."""
    return FieldSchema(
        _defined(definition),
        definition.rpartition(".")[2],
        _empty(definition),
        resets_of(definition),
        _EVENT_VERSIONS if definition in {"core.v1.Event", "events.v1.Event"} else frozenset(),
    )


def _empty(definition: str) -> Document:
    known = definitions()[definition].fields
    return {name: _empty_value(found) for name, found in known.items() if found.shape in {"value", "always"}}


def _empty_value(found: Field) -> Any:
    if found.shape == "value" and found.type == "ref":
        return _empty(found.ref)
    return _EMPTY_VALUES.get(found.type)


@cache
def _defined(definition: str, *, is_atomic: bool | None = None) -> FieldType:
    def declare() -> Fields:
        known = definitions()[definition].fields.items()
        return {name: (f"f:{name}", _of_field(found, definition)) for name, found in known}

    is_leaf = definition in _ATOMIC_DEFINITIONS if is_atomic is None else is_atomic
    return FieldType("map", is_leaf=is_leaf, declare=declare)


def _of_field(found: Field, definition: str) -> FieldType:
    match found.type:
        case "ref":
            return _defined(found.ref, is_atomic=found.list_type == "atomic" if found.list_type else None)
        case "map":
            return FieldType("map", is_leaf=found.list_type == "atomic", others=_items(found, definition))
        case "array":
            return _of_list(found, definition)
        case "any":
            # Of these types only apiextensions' own are said to be anything; the others are opaque.
            return DEDUCED_TYPE if definition.startswith("apiextensions.") else ATOMIC_TYPE
    return FieldType("scalar", is_leaf=True, scalar=_SCALARS.get(found.type, "untyped"))


def _items(found: Field, definition: str) -> FieldType:
    return _of_field(found.items, definition) if found.items else DEDUCED_TYPE


def _of_list(found: Field, definition: str) -> FieldType:
    keys = found.map_keys
    is_leaf = found.list_type == "atomic"
    if not found.list_type:
        # Before lists said what they are, the strategy of patches told it.
        is_leaf = "merge" not in found.strategy
        keys = (found.key,) if found.key and not is_leaf else ()
    item = found.items.ref if found.items else ""
    zeros = {key: _key_default(item, key) for key in keys}
    return FieldType(
        "list",
        is_leaf=is_leaf,
        items=_items(found, definition),
        keys=tuple(sorted(keys)),
        key_defaults={key: value for key, value in zeros.items() if value is not None},
    )


def _key_default(definition: str, key: str) -> Any:
    if (definition, key) in _KEY_DEFAULTS:
        return _KEY_DEFAULTS[definition, key]
    return _KEY_ZEROS.get(definitions()[definition].fields[key].type)


def structural_schema(
    openapi: Document, *, kind: str = "", versions: frozenset[str] = frozenset(), has_status: bool = False
) -> FieldSchema:
    """The schema of a custom resource, from the `openAPIV3Schema` of its version."""
    return FieldSchema(
        _structural_map(openapi, keeps_unknown=_keeps_unknown(openapi), is_object=True),
        kind,
        {},
        CUSTOM_STATUS if has_status else NO_RESETS,
        versions,
        may_change=True,
    )


def _keeps_unknown(schema: Document) -> bool:
    return schema.get("x-kubernetes-preserve-unknown-fields") is True


def _structural(schema: Document, *, keeps_unknown: bool) -> FieldType:
    keeps_unknown = keeps_unknown or _keeps_unknown(schema)
    match schema.get("type"):
        case "object":
            return _structural_map(schema, keeps_unknown=keeps_unknown)
        case "array":
            return _structural_list(schema, keeps_unknown=keeps_unknown)
        case "string" if not schema.get("format") or schema["format"] == "byte":
            return _TEXT
        case "integer" | "number":
            return FieldType("scalar", is_leaf=True, scalar="numeric")
        case "boolean":
            return FieldType("scalar", is_leaf=True, scalar="boolean")
        case "string":
            return SCALAR
    return FieldType("any", as_map=_structural_map(schema, keeps_unknown=keeps_unknown), is_exact=False)


def _structural_map(schema: Document, *, keeps_unknown: bool, is_object: bool = False) -> FieldType:
    properties: dict[str, Document] = schema.get("properties") or {}
    is_object = is_object or schema.get("x-kubernetes-embedded-resource") is True

    def declare() -> Fields:
        found = {name: _structural(inner, keeps_unknown=keeps_unknown) for name, inner in properties.items()}
        if is_object:
            found |= {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _defined(OBJECT_META)}
        return {name: (f"f:{name}", inner) for name, inner in found.items()}

    is_open = keeps_unknown or not (properties or is_object)
    return FieldType(
        "map",
        is_leaf=schema.get("x-kubernetes-map-type") == "atomic",
        declare=declare,
        others=_structural_others(schema.get("additionalProperties"), is_open=is_open, keeps_unknown=keeps_unknown),
        is_exact=False,
    )


def _structural_others(additional: Any, *, is_open: bool, keeps_unknown: bool) -> FieldType | None:
    if isinstance(additional, dict):
        return _structural(additional, keeps_unknown=keeps_unknown)
    is_open = additional if isinstance(additional, bool) else is_open
    return DEDUCED_TYPE if is_open else None


def _structural_list(schema: Document, *, keeps_unknown: bool) -> FieldType:
    list_type = schema.get("x-kubernetes-list-type", "atomic")
    items: Document = schema.get("items") or {}
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or [] if list_type == "map" else []
    properties: dict[str, Document] = items.get("properties") or {}
    return FieldType(
        "list",
        is_leaf=list_type == "atomic",
        items=_structural(items, keeps_unknown=keeps_unknown) if items else ATOMIC_TYPE,
        keys=tuple(sorted(keys)),
        key_defaults={
            key: properties[key]["default"] for key in keys if properties.get(key, {}).get("default") is not None
        },
        is_exact=False,
    )
