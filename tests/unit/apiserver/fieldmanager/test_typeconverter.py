"""Merge schemas: of built-in definitions, of custom resources, and of objects without a schema."""

import pytest

from pykubelet.apiserver.fieldmanager.fieldpath import NOTHING
from pykubelet.apiserver.fieldmanager.typeconverter import DEDUCED, FieldType, MergeSchema, schema_of, structural_schema
from pykubelet.apiserver.registry import BUILT_IN_KINDS


def at(schema: MergeSchema, path: str) -> FieldType:
    found = schema.type
    for name in path.split("."):
        found = found.items if name == "[]" and found.items else found.child(name)[1]
    return found


@pytest.mark.parametrize(
    ("definition", "path", "is_leaf", "keys"),
    [
        ("core.v1.Pod", "spec.containers", False, ("name",)),
        ("core.v1.Pod", "spec.containers.[].ports", False, ("containerPort", "protocol")),
        ("core.v1.Pod", "spec.containers.[].command", True, ()),
        ("core.v1.Pod", "spec.containers.[].resources.limits", False, ()),
        ("core.v1.Pod", "spec.nodeSelector", True, ()),
        ("core.v1.Pod", "spec.tolerations", True, ()),
        ("core.v1.Pod", "spec.topologySpreadConstraints", False, ("topologyKey", "whenUnsatisfiable")),
        ("core.v1.Pod", "metadata.finalizers", False, ()),
        ("core.v1.Pod", "metadata.ownerReferences.[]", True, ()),
        ("core.v1.Pod", "status.conditions", False, ("type",)),
        ("core.v1.Pod", "status.containerStatuses", True, ()),
        ("core.v1.PersistentVolume", "spec.claimRef", False, ()),
        ("core.v1.PersistentVolumeClaim", "spec.dataSource", True, ()),
        ("core.v1.Event", "involvedObject", True, ()),
        ("apps.v1.Deployment", "spec.selector", True, ()),
        ("apps.v1.ControllerRevision", "data", True, ()),
        ("apiextensions.v1.CustomResourceDefinition", "spec.versions", True, ()),
    ],
)
def test_built_in_field_is_what_upstream_says(definition: str, path: str, is_leaf: bool, keys: tuple[str, ...]) -> None:
    """Upstream's definitions state which fields are atomic, and the keys of list items."""
    found = at(schema_of(definition), path)
    assert (found.is_leaf, found.keys) == (is_leaf, keys)


@pytest.mark.parametrize(
    ("definition", "empty"),
    [
        ("core.v1.ConfigMap", {"metadata": {}}),
        ("core.v1.Pod", {"metadata": {}, "spec": {"containers": None}, "status": {}}),
        ("scheduling.v1.PriorityClass", {"metadata": {}, "value": 0}),
        ("rbac.v1.Role", {"metadata": {}, "rules": None}),
        ("autoscaling.v1.Scale", {"metadata": {}, "spec": {}, "status": {"replicas": 0}}),
    ],
)
def test_empty_object_is_what_go_writes_for_zero_values(definition: str, empty: object) -> None:
    """When an object is created, the fields of an empty object get no owner."""
    assert schema_of(definition).empty == empty


def test_every_kind_has_a_schema() -> None:
    """Kinds with a status subresource also state which fields each side cannot write."""
    for served in BUILT_IN_KINDS:
        schema = schema_of(served.definition)
        assert schema.kind == served.resource.kind
        assert ("status" in schema.resets) == ("status" in served.subresources)


CUSTOM = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "map": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "kind"],
                    "items": {
                        "type": "object",
                        "properties": {"port": {"type": "integer"}, "kind": {"type": "string", "default": "TCP"}},
                    },
                },
                "plain": {"type": "array", "items": {"type": "object"}},
                "one": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
                "text": {"additionalProperties": {"type": "string"}, "type": "object"},
                "either": {"x-kubernetes-int-or-string": True},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "inner": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}},
                "when": {"type": "string", "format": "date-time"},
                "count": {"type": "number"},
                "on": {"type": "boolean"},
                "closed": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
            },
        }
    },
}


def test_structural_schema_is_read_as_upstream_reads_it() -> None:
    """This covers list types, map types, unknown fields, int-or-string and embedded objects."""
    schema = structural_schema(CUSTOM, kind="Custom", has_status=True)
    keyed = at(schema, "spec.map")
    assert (keyed.keys, keyed.key_defaults, keyed.is_leaf) == (("kind", "port"), {"kind": "TCP"}, False)
    assert at(schema, "spec.set").keys == ()
    assert not at(schema, "spec.set").is_leaf
    assert at(schema, "spec.plain").is_leaf
    assert at(schema, "spec.one").is_leaf
    assert at(schema, "spec.text.any").scalar == "string"
    assert at(schema, "spec.either").kind == at(schema, "spec.open.any").kind == "any"
    assert at(schema, "spec.when").scalar == "untyped"
    assert (at(schema, "spec.count").scalar, at(schema, "spec.on").scalar) == ("numeric", "boolean")
    assert at(schema, "spec.inner.metadata.labels").kind == at(schema, "metadata.labels").kind == "map"
    assert at(schema, "spec.closed").others is None
    assert schema.type.others is None
    assert schema.resets["status"].left_of({"f:spec": {}}) == NOTHING


def test_schema_that_keeps_unknown_fields_does_so_below() -> None:
    """At the root, the extension applies to the whole object."""
    schema = structural_schema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    assert at(schema, "spec.anything").kind == "any"
    assert at(schema, "metadata.finalizers").keys == ()
    assert not schema.resets


def test_deduced_schema_knows_maps_only() -> None:
    """Without a schema, maps have fields, and lists are atomic."""
    assert at(DEDUCED, "spec.a.b").kind == "any"
