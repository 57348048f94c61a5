"""CustomResourceDefinitions: validation, defaults, updates, status and deletion."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.errors import BadRequest
from pykubelet.apiserver.apiextensions.controller import served_rows
from pykubelet.apiserver.apiextensions.customresourcedefinition import CLEANUP, KIND
from pykubelet.apiserver.apiextensions.status import with_accepted_names
from pykubelet.apiserver.apiextensions.validation.customresourcedefinition import (
    definition_errors,
    definition_update_errors,
    status_errors,
)
from pykubelet.apiserver.serializer.protobuf_decoder import read_protobuf
from pykubelet.apiserver.serializer.protobuf_encoder import document_bytes
from widgets import NOW, definition, schema, version

RULES = KIND.strategy
_AT = "spec.validation.openAPIV3Schema"
_FIELD = f"{_AT}.properties[spec].properties[x]"
_STRUCTURAL_TYPE = "Required value: must not be empty for specified object fields"


def _errors(document: dict[str, Any]) -> list[str]:
    return [str(error) for error in definition_errors(document)]


def _with_field(**stated: Any) -> dict[str, Any]:
    return definition(version(schema={"openAPIV3Schema": schema(x=stated)}))


def _with_schema(**stated: Any) -> dict[str, Any]:
    return definition(version(schema={"openAPIV3Schema": {"type": "object", **stated}}))


def test_valid_definition_has_no_errors() -> None:
    """It may have one version or several."""
    assert _errors(definition()) == []
    assert _errors(definition(version(), version("v2", storage=False, schema={"openAPIV3Schema": schema()}))) == []


_NO_STORAGE = (
    'spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,'
    '"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: '
    "must have exactly one version marked as storage version"
)
_SCALE = {"scale": {"specReplicasPath": ".replicas", "statusReplicasPath": ""}}
_LIST = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "items": {"type": "object", "properties": {"k": {"type": "string"}}},
}

SPECS = [
    ("group", definition(group="example"), 'spec.group: Invalid value: "example": should be a domain with at least one dot'),
    ("scope", definition(scope="Galaxy"), 'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"'),
    ("storage", definition(version(storage=False)), _NO_STORAGE),
    ("plural", definition(names={"plural": "", "kind": "K", "listKind": "KL", "singular": "k"}), "spec.names.plural: Required value"),
    ("list kind", definition(names={"plural": "widgets", "kind": "K", "listKind": "K", "singular": "k"}), 'spec.names.listKind: Invalid value: "K": kind and listKind may not be the same'),
    ("no schema", definition(version(schema=None)), "spec.versions[0].schema.openAPIV3Schema: Required value"),
    ("warning", definition(version(deprecationWarning="x")), 'spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for deprecated versions'),
    ("column type", definition(version(additionalPrinterColumns=[{"name": "A", "type": "x", "jsonPath": ".a"}])), 'spec.additionalPrinterColumns[0].type: Invalid value: "x": must be one of boolean,date,integer,number,string'),
    ("column path", definition(version(additionalPrinterColumns=[{"name": "A", "type": "date", "jsonPath": "a"}])), 'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with .'),
    ("scale path", definition(version(subresources=_SCALE)), 'spec.subresources.scale.specReplicasPath: Invalid value: ".replicas": should be a json path under .spec'),
    ("selectable", definition(version(selectableFields=[{"jsonPath": ".spec.nope"}])), 'spec.selectableFields[0].jsonPath: Invalid value: ".spec.nope": is an invalid path: does not refer to a valid field'),
    ("selectable type", definition(version(selectableFields=[{"jsonPath": ".spec"}])), 'spec.selectableFields[0].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.'),
    ("webhook", definition(version(), version("v2", storage=False), conversion={"strategy": "Webhook"}), 'spec.conversion.strategy: Invalid value: "Webhook": conversion webhooks are not supported by this server'),
    ("conversion", definition(conversion={"strategy": "Magic"}), 'spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", "Webhook"'),
    ("preserve", definition(preserveUnknownFields=True), "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"),
    ("root type", _with_schema(type="array", items={"type": "string"}), f'{_AT}.type: Invalid value: "array": must be object at the root'),
    ("root nullable", _with_schema(nullable=True), f"{_AT}.nullable: Forbidden: nullable cannot be true at the root"),
    ("metadata", _with_schema(properties={"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}), f"{_AT}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"),
    ("no type", _with_field(description="?"), f"{_FIELD}.type: {_STRUCTURAL_TYPE}"),
    ("bad type", _with_field(type="float"), f'{_FIELD}.type: Unsupported value: "float": supported values: "array", "boolean", "integer", "number", "object", "string"'),
    ("no items", _with_field(type="array"), f"{_FIELD}.items: Required value: must be specified"),
    ("nested type", _with_field(type="string", anyOf=[{"type": "string"}]), f"{_FIELD}.anyOf[0].type: Forbidden: must be empty to be structural"),
    ("incomplete", _with_schema(anyOf=[{"properties": {"a": {"minimum": 1}}}]), f"{_AT}.properties[a]: Required value: because it is defined in {_AT}.anyOf[0].properties[a]"),
    ("pattern", _with_field(type="string", pattern="("), f'{_FIELD}.pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: error parsing regexp: missing closing ): `(`'),
    ("ref", _with_field(type="object", **{"$ref": "#/x"}), f"{_FIELD}.$ref: Forbidden: $ref is not supported"),
    ("unique", _with_field(type="array", items={"type": "string"}, uniqueItems=True), f"{_FIELD}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"),
    ("both", _with_field(type="object", properties={"a": {"type": "string"}}, additionalProperties={"type": "string"}), f"{_FIELD}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"),
    ("default", _with_field(type="integer", default="x"), f'{_FIELD}.default: Invalid value: "string":  in body must be of type integer: "string"'),
    ("unpruned default", _with_field(type="object", default={"a": 1}), f'{_FIELD}.default: Invalid value: {{"a":1}}: must not have unknown fields'),
    ("list keys", _with_field(**_LIST), f"{_FIELD}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"),
    ("list key default", _with_field(**_LIST, **{"x-kubernetes-list-map-keys": ["k"]}), f"{_FIELD}.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"),
    ("set of objects", _with_field(type="array", items={"type": "object"}, **{"x-kubernetes-list-type": "set"}), f"{_FIELD}.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set"),
    ("list type", _with_field(type="string", **{"x-kubernetes-list-type": "atomic"}), f'{_FIELD}.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified'),
    ("rule", _with_field(type="string", **{"x-kubernetes-validations": [{"rule": " "}]}), f"{_FIELD}.x-kubernetes-validations[0].rule: Required value: rule is not specified"),
    ("embedded", _with_field(type="object", **{"x-kubernetes-embedded-resource": True}), f"{_FIELD}.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"),
    ("no group", definition(group=""), "spec.group: Required value"),
    ("bad group", definition(group="A.b"), "spec.group: Invalid value: "),
    ("no scope", definition(scope=""), "spec.scope: Required value"),
    ("version name", definition(version("V1")), 'spec.versions[0].name: Invalid value: "V1": '),
    ("same version", definition(version(), version(storage=False)), "must contain unique version names"),
    ("no versions", {**definition(versions=None), "status": {}}, "spec.versions: Invalid value: null: must have exactly one version marked as storage version"),
    ("nothing stored", {**definition(), "status": {}}, "status.storedVersions: Invalid value: null: must have at least one stored version"),
    ("other stored", {**definition(), "status": {"storedVersions": ["v0"]}}, 'status.storedVersions: Invalid value: ["v0"]: must have the storage version v1'),
    ("kind", definition(names={"plural": "widgets", "kind": "1", "listKind": "L", "singular": "A"}), 'spec.names.kind: Invalid value: "1": may have mixed case, but should otherwise match: '),
    ("short name", definition(names={"plural": "widgets", "kind": "K", "listKind": "L", "singular": "a", "shortNames": ["A"]}), 'spec.names.shortNames[0]: Invalid value: "A": '),
    ("no strategy", definition(conversion={}), "spec.conversion.strategy: Required value"),
    ("needless webhook", definition(conversion={"strategy": "None", "webhook": {"clientConfig": {"url": "x"}}}), "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook"),
    ("own subresources", definition(version(subresources=_SCALE), version("v2", storage=False)), "spec.versions[0].subresources.scale.statusReplicasPath: Required value"),
    ("own columns", definition(version(additionalPrinterColumns=[{}]), version("v2", storage=False)), "spec.versions[0].additionalPrinterColumns[0].name: Required value"),
    ("own selectable", definition(version(selectableFields=[{}]), version("v2", storage=False)), "spec.versions[0].selectableFields[0].jsonPath: Required value"),
    ("selectable apart", definition(version(selectableFields=[{"jsonPath": ".spec.size"}]), version("v2", storage=False, selectableFields=[{"jsonPath": ".spec.size"}], schema={"openAPIV3Schema": schema()})), 'spec.selectableFields: Invalid value: "": may only be set when validations.schema is included'),
    ("selectable twice", definition(version(selectableFields=[{"jsonPath": ".spec.size"}] * 2)), 'spec.selectableFields[1].jsonPath: Duplicate value: ".spec.size"'),
    ("selectable item", definition(version(selectableFields=[{"jsonPath": ".spec[0]"}])), "is an invalid path: array notation is not allowed"),
    ("selectable start", definition(version(selectableFields=[{"jsonPath": "spec"}])), "is an invalid path: expected [ or . but got: spec"),
    ("many selectable", definition(version(schema={"openAPIV3Schema": schema(**{f"f{n}": {"type": "string"} for n in range(9)})}, selectableFields=[{"jsonPath": f".spec.f{n}"} for n in range(9)])), "spec.selectableFields: Too many: 9: must have at most 8 items"),
    ("selectable metadata", definition(version(schema={"openAPIV3Schema": {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}}}}, selectableFields=[{"jsonPath": ".metadata.name"}])), "must not point to fields in metadata"),
    ("column format", definition(version(additionalPrinterColumns=[{"name": "A", "type": "date", "format": "x", "jsonPath": ""}])), 'spec.additionalPrinterColumns[0].format: Invalid value: "x": must be one of byte,date,date-time,double,float,int32,int64,password'),
    ("scale start", definition(version(subresources={"scale": {"specReplicasPath": "x", "statusReplicasPath": ".status.x", "labelSelectorPath": "x"}})), 'spec.subresources.scale.labelSelectorPath: Invalid value: "x": must be a simple json path starting with .'),
    ("scale selector", definition(version(subresources={"scale": {"specReplicasPath": ".spec.x", "statusReplicasPath": ".status.x", "labelSelectorPath": ".x"}})), 'spec.subresources.scale.labelSelectorPath: Invalid value: ".x": should be a json path under either .spec or .status'),
    ("empty warning", definition(version(deprecated=True, deprecationWarning="")), 'spec.versions[0].deprecationWarning: Invalid value: "": must not be an empty string'),
    ("long warning", definition(version(deprecated=True, deprecationWarning="x" * 257)), "must be <= 256 characters long"),
    ("warning text", definition(version(deprecated=True, deprecationWarning="a\n")), "non-printable character found at index 1"),
    ("status root", definition(version(subresources={"status": {}}, schema={"openAPIV3Schema": {"type": "object", "nullable": False, "anyOf": [{"required": ["a"]}]}})), "fields are allowed at the root of the schema if the status subresource is enabled"),
    ("status type", definition(version(subresources={"status": {}}, schema={"openAPIV3Schema": {"type": "string"}})), f'{_AT}.type: Invalid value: "string": only "object" is allowed as the type at the root'),
    ("preserve false", _with_field(type="object", **{"x-kubernetes-preserve-unknown-fields": False}), f"{_FIELD}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"),
    ("top-level default", _with_schema(properties={"kind": {"type": "string", "default": "K"}}), f"{_AT}.properties[kind].default: Forbidden: must not be set in top-level kind"),
    ("null type", _with_field(type="null"), f"{_FIELD}.type: Forbidden: type cannot be set to null, use nullable as an alternative"),
    ("items list", _with_field(type="array", items=[{"type": "string"}]), f"{_FIELD}.items: Forbidden: items must be a schema object and not an array"),
    ("embedded meta", _with_field(type="object", properties={"metadata": {"type": "object", "x-kubernetes-embedded-resource": True, "additionalProperties": {"type": "string", "default": "x"}}}, **{"x-kubernetes-embedded-resource": True}), f"{_FIELD}.properties[metadata].x-kubernetes-embedded-resource: Forbidden: must not be used inside of resource meta"),
    ("map type", _with_field(type="string", **{"x-kubernetes-map-type": "odd"}), f'{_FIELD}.x-kubernetes-map-type: Unsupported value: "odd": supported values: "atomic", "granular"'),
    ("map type only", _with_field(**{"x-kubernetes-map-type": "atomic"}), f"{_FIELD}.type: Required value: must be object if x-kubernetes-map-type is specified"),
    ("odd list", _with_field(type="array", items={"type": "string"}, **{"x-kubernetes-list-type": "odd"}), f'{_FIELD}.x-kubernetes-list-type: Unsupported value: "odd": supported values: "atomic", "set", "map"'),
    ("keys alone", _with_field(type="array", items={"type": "string"}, **{"x-kubernetes-list-map-keys": ["k"]}), f"{_FIELD}.x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty"),
    ("set of sets", _with_field(type="array", items={"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}, **{"x-kubernetes-list-type": "set"}), f'{_FIELD}.items.x-kubernetes-list-type: Invalid value: "set": must be atomic'),
    ("map of nothing", _with_field(type="array", **{"x-kubernetes-list-type": "map"}), f"{_FIELD}.items: Required value: must have a schema if x-kubernetes-list-type is map"),
    ("map of many", _with_field(type="array", items=[{}], **{"x-kubernetes-list-type": "map"}), "must only have a single schema if x-kubernetes-list-type is map"),
    ("map of texts", _with_field(type="array", items={"type": "string", "nullable": True}, **{"x-kubernetes-list-type": "map"}), f'{_FIELD}.items.type: Invalid value: "string": must be object if parent array\'s x-kubernetes-list-type is map'),
    ("nullable items", _with_field(type="array", items={"type": "string", "nullable": True}, **{"x-kubernetes-list-type": "set"}), f"{_FIELD}.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set"),
    ("unknown key", _with_field(**_LIST, **{"x-kubernetes-list-map-keys": ["z", "z"]}), f'{_FIELD}.x-kubernetes-list-map-keys: Invalid value: ["z","z"]: must not contain duplicate entries'),
    ("deep key", _with_field(type="array", items={"type": "object", "required": ["k"], "properties": {"k": {"type": "object", "nullable": True}}}, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}), f"{_FIELD}.items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable"),
    ("rule message", _with_field(type="string", **{"x-kubernetes-validations": [{"rule": "r", "message": " "}]}), f'{_FIELD}.x-kubernetes-validations[0].message: Invalid value: " ": must be non-empty if specified'),
    ("rule lines", _with_field(type="string", **{"x-kubernetes-validations": [{"rule": "r", "message": "a\nb", "reason": "Odd"}]}), f'{_FIELD}.x-kubernetes-validations[0].reason: Unsupported value: "Odd": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'),
    ("long rule", _with_field(type="string", **{"x-kubernetes-validations": [{"rule": "a\nb", "messageExpression": " ", "fieldPath": " "}]}), f"{_FIELD}.x-kubernetes-validations[0].message: Required value: message must be specified if rule contains line breaks"),
    ("rule path", _with_field(type="string", **{"x-kubernetes-validations": [{"rule": "a", "fieldPath": ".a\n"}]}), f'{_FIELD}.x-kubernetes-validations[0].fieldPath: Invalid value: ".a\\n": must not contain line breaks'),
    ("root map", _with_schema(additionalProperties={"type": "string"}), f"{_AT}.additionalProperties: Forbidden: must not be used at the root"),
    ("int or string", _with_field(**{"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}), f"{_FIELD}.x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true"),
    ("embedded text", _with_field(type="string", additionalProperties=True, **{"x-kubernetes-embedded-resource": True}), f'{_FIELD}.type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true'),
    ("kind type", _with_schema(properties={"kind": {"type": "integer"}, "metadata": {"type": "string"}}), f'{_AT}.properties[kind].type: Invalid value: "integer": must be string'),
    ("nested list", _with_schema(properties={"x": {"type": "array", "items": {"type": "string"}}}, oneOf=[{"properties": {"x": {"items": {"title": "t"}}, "metadata": {}}}], **{"not": {"items": {"minimum": 1}}}), f"{_AT}.oneOf[0].properties[metadata]: Forbidden: must not be specified in a nested context"),
    ("item default", _with_field(type="array", items={"type": "integer", "default": "x"}), f"{_FIELD}.items.default: Invalid value: "),
]  # fmt: skip


@pytest.mark.parametrize(("document", "error"), [case[1:] for case in SPECS], ids=[case[0] for case in SPECS])
def test_invalid_definition_gives_upstreams_message(document: dict[str, Any], error: str) -> None:
    """Fields that all versions share are named at the top level of the spec, as upstream does."""
    assert any(error in found for found in _errors(document)), _errors(document)


def test_definition_must_have_the_name_of_what_it_defines() -> None:
    """The name is plural and group, joined by a dot."""
    document = {**definition(), "metadata": {"name": "gadgets.example.com"}}
    assert _errors(document) == [
        'metadata.name: Invalid value: "gadgets.example.com": must be spec.names.plural+"."+spec.group'
    ]


def test_error_in_a_version_that_differs_names_that_version() -> None:
    """Versions with different schemas share no field at the top level."""
    bad = schema(x={"type": "integer", "default": "x"})
    document = definition(version(), version("v2", storage=False, schema={"openAPIV3Schema": bad}))
    assert [error.partition(":")[0] for error in _errors(document)] == [
        "spec.versions[1].schema.openAPIV3Schema.properties[spec].properties[x].default"
    ]


@pytest.mark.parametrize(
    ("said", "count"), [("", 1), ("no", 1), ("unapproved, for a test", 0), ("https://example.com/1", 0)]
)
def test_groups_of_kubernetes_need_an_approval(said: str, count: int) -> None:
    """The annotation holds a URL, or a text that starts with unapproved."""
    document = definition(group="x.k8s.io")
    document["metadata"] = {
        "name": "widgets.x.k8s.io",
        "annotations": {"api-approved.kubernetes.io": said} if said else {},
    }
    assert len(_errors(document)) == count


def test_update_keeps_what_objects_depend_on() -> None:
    """The scope of an established definition cannot change, and stored versions must remain in its versions."""
    old = with_accepted_names(definition(), [], NOW)
    old["metadata"]["resourceVersion"] = "1"
    new = {**old, "spec": {**old["spec"], "scope": "Cluster", "versions": [version("v2")]}}
    new = RULES.prepare_update(new, old)
    fields = [error.field for error in definition_update_errors(new, old)]
    assert fields == ["spec.scope", "status.storedVersions[0]"]
    assert (new["metadata"]["generation"], new["status"]["storedVersions"]) == (2, ["v1", "v2"])


def test_int_or_string_fields_accept_their_usual_any_of() -> None:
    """There are two usual forms of it; a pattern alone is accepted too."""
    either = [{"type": "integer"}, {"type": "string"}]
    for more in ({"anyOf": either}, {"allOf": [{"anyOf": either}, {"pattern": "x"}]}, {"pattern": "x"}):
        assert _errors(_with_field(**{"x-kubernetes-int-or-string": True}, **more)) == []


def test_unchanged_approval_is_not_checked_again() -> None:
    """Definitions from before the rule can still be updated."""
    old = with_accepted_names(definition(group="x.k8s.io"), [], NOW)
    old["metadata"] = {
        "name": "widgets.x.k8s.io",
        "resourceVersion": "1",
        "annotations": {"api-approved.kubernetes.io": "["},
    }
    assert definition_update_errors(old, old) == []
    broken = {**old, "metadata": {**old["metadata"], "annotations": {"api-approved.kubernetes.io": "http://["}}}
    assert len(_errors(broken)) == 1


def test_defaults_fill_in_names_and_ports() -> None:
    """Stated values are kept."""
    bare = definition(names={"plural": "widgets", "kind": "Widget"}, conversion=None)
    spec = RULES.default(bare)["spec"]
    assert (spec["names"]["singular"], spec["names"]["listKind"]) == ("widget", "WidgetList")
    assert spec["conversion"] == {"strategy": "None"}
    service = {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "s"}}}}
    filled = RULES.default(definition(conversion=service))["spec"]["conversion"]
    assert filled["webhook"]["clientConfig"]["service"] == {"name": "s", "port": 443}
    assert "versions" not in RULES.default({"spec": {}})["spec"]
    assert "schema" not in RULES.default(definition(version(schema=None)))["spec"]["versions"][0]


def test_strategy_reports_validation_errors() -> None:
    """Create and update report them; a status update checks only the status."""
    bad = definition(scope="Galaxy")
    bad["metadata"]["resourceVersion"] = "1"
    assert [error.field for error in RULES.validate_create(bad)] == ["spec.scope"]
    assert [error.field for error in RULES.validate_update(bad, bad)] == ["spec.scope"]
    assert RULES.validate_status(bad, bad) == []


def test_schema_inside_alternatives_is_read_too() -> None:
    """Unknown fields in them are dropped."""
    inner = {"items": {"minimum": 1, "junk": 1}}
    document = RULES.default(_with_field(type="array", allOf=[inner], **{"not": inner}))
    read = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["x"]
    assert read["allOf"] == [read["not"]] == [{"items": {"minimum": 1}}]


def test_status_names_are_checked_too() -> None:
    """These names become part of URL paths."""
    assert [error.field for error in status_errors({"acceptedNames": {"plural": "A b"}})] == [
        "status.acceptedNames.plural"
    ]


def test_status_update_leaves_the_spec_alone() -> None:
    """A status update takes only the status from the request."""
    old = definition()
    new = {**old, "spec": {}, "status": {"acceptedNames": {"plural": "x", "kind": ""}}}
    assert RULES.prepare_status(new, old)["spec"] == old["spec"]


def test_nested_schemas_are_read_like_any_other() -> None:
    """Unknown fields and nulls in items and additionalProperties are dropped, and wrong types are refused."""
    items = {"type": "object", "junk": 1, "nullable": False, "additionalProperties": {"type": "string", "title": None}}
    document = RULES.default(_with_field(type="array", items=items))
    read = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["x"][
        "items"
    ]
    assert read == {"type": "object", "additionalProperties": {"type": "string"}}
    with pytest.raises(BadRequest, match="cannot unmarshal"):
        RULES.default(_with_field(type="array", items={"type": 3}))
    with pytest.raises(BadRequest, match="cannot unmarshal"):
        RULES.default(_with_field(type="array", items="x"))


@pytest.mark.parametrize(
    "inner", [lambda deep: {"items": deep}, lambda deep: {"properties": {"a": deep}}], ids=["items", "properties"]
)
def test_schema_that_is_too_deep_is_refused(inner: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The error is BadRequest, not a crash, and every accepted schema can be encoded as protobuf."""

    def nested(levels: int) -> dict[str, Any]:
        deep: dict[str, Any] = {}
        for _ in range(levels):
            deep = inner(deep)
        return deep

    accepted = RULES.default(_with_field(**nested(145)))
    assert read_protobuf(document_bytes(accepted))["spec"]["versions"] == accepted["spec"]["versions"]
    for levels in (160, 2000):
        with pytest.raises(BadRequest, match="nested too deeply"):
            RULES.default(_with_field(**nested(levels)))


def test_deletion_adds_the_finalizer_once() -> None:
    """A second deletion does not add it again."""
    once = RULES.prepare_delete(definition())
    assert RULES.prepare_delete(once)["metadata"]["finalizers"] == [CLEANUP]


_SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "object", "x"]),
            "pattern": st.sampled_from(["a", "("]),
            "default": st.integers(),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["object", "array"])},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "metadata"]), inner),
            "items": inner,
            "additionalProperties": inner | st.booleans(),
            "anyOf": st.lists(inner, max_size=2),
            "not": inner,
            "x-kubernetes-list-type": st.sampled_from(["set", "map", "x"]),
        },
    ),
    max_leaves=6,
)


@given(_SCHEMAS)
def test_any_schema_is_accepted_or_refused_with_errors(stated: dict[str, Any]) -> None:
    """An accepted definition can be served."""
    document = with_accepted_names(definition(version(schema={"openAPIV3Schema": stated})), [], NOW)
    if stated and not definition_errors(document):
        assert len(served_rows(document)) == 1
    else:
        assert definition_errors(document)
