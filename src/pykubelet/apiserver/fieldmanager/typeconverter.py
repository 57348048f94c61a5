"""The types of fields for merging: which lists and maps are atomic, sets or keyed; reset fields.

Types of built-in kinds are made on first use. Schemas of custom resources are compiled once per registry state.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/typeconverter.go,
vendor/k8s.io/kube-openapi/pkg/schemaconv/smd.go, vendor/sigs.k8s.io/structured-merge-diff/v6/schema/elements.go
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Final, Literal, NamedTuple

from pykubelet.api.schema import OBJECT_META, Field, definitions
from pykubelet.api.serializer import Document
from pykubelet.apiserver.fieldmanager.fieldpath import ANY_STEP, LEAF, NOTHING, FieldTree, only, tree_of, without
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.kinds.kind import Kind


class ResetFields(NamedTuple):
    """The fields that a write cannot change and so never owns; with `others`, all fields but these."""

    fields: FieldTree = NOTHING
    others: bool = False

    def left_of(self, tree: FieldTree) -> FieldTree:
        return only(tree, self.fields) if self.others else without(tree, self.fields)


NO_RESET: Final = ResetFields()
NO_RESETS: Final[Mapping[str, ResetFields]] = {}
_STATUS: Final = ResetFields(tree_of(("f:status",)))
_SPEC: Final = ResetFields(tree_of(("f:spec",)))
_SPEC_AND_METADATA: Final = ResetFields(tree_of(("f:metadata",), ("f:spec",)))
CUSTOM_STATUS: Final[Mapping[str, ResetFields]] = {"": _STATUS, "status": _SPEC}
"""The reset fields of a custom resource with a status subresource."""

_RESIZED: Final[FieldTree] = {ANY_STEP: {"f:resizePolicy": LEAF, "f:resources": LEAF}}
_SPECIAL: Final[Mapping[str, Mapping[str, ResetFields]]] = {
    "admissionregistration.v1.ValidatingAdmissionPolicy": {"": _STATUS, "status": _SPEC_AND_METADATA},
    "core.v1.Namespace": {"": _STATUS, "status": _SPEC, "finalize": _STATUS},
    "core.v1.Pod": {
        "": _STATUS,
        "status": ResetFields(
            tree_of(("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences"))
        ),
        "ephemeralcontainers": ResetFields({"f:spec": {"f:ephemeralContainers": LEAF}}, others=True),
        "resize": ResetFields({"f:spec": {"f:containers": _RESIZED, "f:initContainers": _RESIZED}}, others=True),
    },
    "apps.v1.Deployment": {"": _STATUS, "status": ResetFields(tree_of(("f:spec",), ("f:metadata", "f:labels")))},
    "certificates.v1.CertificateSigningRequest": {
        "": ResetFields(tree_of(("f:spec",), ("f:status",))),
        "status": ResetFields(tree_of(("f:spec",), ("f:status", "f:conditions"))),
        "approval": ResetFields(tree_of(("f:spec",), ("f:status", "f:certificate"))),
    },
    "apiextensions.v1.CustomResourceDefinition": {"": _STATUS, "status": _SPEC_AND_METADATA},
    "flowcontrol.v1.FlowSchema": {"": _STATUS, "status": _SPEC_AND_METADATA},
    "flowcontrol.v1.PriorityLevelConfiguration": {"": _STATUS, "status": _SPEC_AND_METADATA},
    "storage.v1.VolumeAttachment": {"": _STATUS, "status": _SPEC_AND_METADATA},
}
_WITH_STATUS: Final = frozenset(
    [
        "apps.v1.DaemonSet",
        "apps.v1.ReplicaSet",
        "apps.v1.StatefulSet",
        "autoscaling.v1.HorizontalPodAutoscaler",
        "autoscaling.v2.HorizontalPodAutoscaler",
        "batch.v1.CronJob",
        "batch.v1.Job",
        "core.v1.Node",
        "core.v1.PersistentVolume",
        "core.v1.PersistentVolumeClaim",
        "core.v1.ReplicationController",
        "core.v1.ResourceQuota",
        "core.v1.Service",
        "networking.v1.Ingress",
        "networking.v1.ServiceCIDR",
        "policy.v1.PodDisruptionBudget",
        "resource.v1.ResourceClaim",
    ]
)


TypeKind = Literal["scalar", "map", "list", "any"]
Scalar = Literal["string", "numeric", "boolean", "untyped"]
Fields = dict[str, tuple[str, "FieldType"]]
"""By field name: the path element and the type."""

# These types are x-kubernetes-map-type: atomic wherever they are used.
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
# The default of a key field that an item omits, if it is not the type's zero.
_KEY_ZEROS: Mapping[str, Any] = {"string": "", "integer": 0}
_KEY_DEFAULTS: Mapping[tuple[str, str], Any] = {
    ("core.v1.ContainerPort", "protocol"): "TCP",
    ("core.v1.ServicePort", "protocol"): "TCP",
    ("core.v1.ObjectReference", "name"): None,
}
_EMPTY_VALUES: Mapping[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "quantity": "0"}
# Both groups serve the same events.
_EVENT_VERSIONS = frozenset({"v1", "events.k8s.io/v1"})


@dataclass(eq=False)
class FieldType:
    """The type of a value. `is_leaf` means that the value has one owner as a whole."""

    kind: TypeKind
    is_leaf: bool = False
    scalar: Scalar = "untyped"
    declare: Callable[[], Fields] = field(default=dict, repr=False)
    others: "FieldType | None" = field(default=None, repr=False)
    """The type of a map's undeclared entries; None if there may be none."""
    items: "FieldType | None" = field(default=None, repr=False)
    keys: tuple[str, ...] = ()
    """The key fields of a list's items, in order; empty for a set."""
    key_defaults: Mapping[str, Any] = field(default_factory=dict)
    as_map: "FieldType | None" = field(default=None, repr=False)
    """For a value of any type: its type if it is a map. Lists and scalars are then atomic."""
    is_exact: bool = True
    """Whether the value's type cannot change, so that 1 and true are never compared."""

    @cached_property
    def fields(self) -> Fields:
        return self.declare()

    @cached_property
    def shapes(self) -> dict[tuple[str, ...], Any]:
        """A cache of field trees of objects with the same fields."""
        return {}

    def child(self, name: str) -> tuple[str, "FieldType"]:
        """The path element and type of an entry, declared or not."""
        return self.fields.get(name) or (f"f:{name}", self.others or DEDUCED_TYPE)

    def below(self, step: str) -> "FieldType":
        """The type that a path element leads to."""
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
class MergeSchema:
    type: FieldType
    kind: str = ""
    empty: Document = field(default_factory=dict)
    """An empty object of the kind, as Go encodes it."""
    resets: Mapping[str, ResetFields] = field(default_factory=lambda: NO_RESETS)
    """The fields that a write through a subresource cannot change."""
    versions: frozenset[str] = frozenset()
    """The other versions that stored owners may use; owners in unknown versions are dropped."""
    may_change: bool = False
    """Whether the schema may have changed since the stored owners were written."""


DEDUCED: Final = MergeSchema(DEDUCED_TYPE)
"""For objects without a schema: maps have fields, lists are atomic."""


@cache
def schema_of(definition: str) -> MergeSchema:
    """The schema of a built-in kind such as `core.v1.Pod`; KeyError if there is none."""
    return MergeSchema(
        _defined(definition),
        definition.rpartition(".")[2],
        _empty(definition),
        _SPECIAL.get(definition) or (CUSTOM_STATUS if definition in _WITH_STATUS else NO_RESETS),
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
            # Only apiextensions' own types have a known structure; the others are opaque.
            return DEDUCED_TYPE if definition.startswith("apiextensions.") else ATOMIC_TYPE
    return FieldType("scalar", is_leaf=True, scalar=_SCALARS.get(found.type, "untyped"))


def _items(found: Field, definition: str) -> FieldType:
    return _of_field(found.items, definition) if found.items else DEDUCED_TYPE


def _of_list(found: Field, definition: str) -> FieldType:
    keys = found.map_keys
    is_leaf = found.list_type == "atomic"
    if not found.list_type:
        # Without a list type, the patch strategy decides.
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
) -> MergeSchema:
    """The schema of a custom resource, from the `openAPIV3Schema` of its version."""
    return MergeSchema(
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


class TypeConverter:
    """Returns the merge schema of a kind; compiles that of a custom resource once per registry state."""

    def __init__(self, registry: ServedKinds) -> None:
        self._registry = registry
        self._compiled: dict[tuple[str, str], tuple[Document, int, MergeSchema]] = {}

    def of(self, served: Kind) -> str | MergeSchema:
        """The definition's name, or the compiled schema."""
        if served.definition:
            return served.definition
        if served.structural is None:
            return DEDUCED
        resource = served.resource
        key = (resource.group_resource, resource.version)
        known = self._compiled.get(key)
        if known is not None and known[0] is served.structural and known[1] == self._registry.generation:
            return known[2]
        versions = frozenset(
            row.resource.api_version
            for row in self._registry.all()
            if row.resource.group_resource == resource.group_resource
        )
        schema = structural_schema(
            served.structural,
            kind=resource.kind,
            versions=versions,
            has_status="status" in served.subresources,
        )
        # With more custom kinds than this, schemas are compiled repeatedly, which is slow but correct.
        if len(self._compiled) >= 256:
            self._compiled.clear()
        self._compiled[key] = (served.structural, self._registry.generation, schema)
        return schema
