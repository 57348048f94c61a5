"""Custom objects: their strategy, and the kinds made from their definition."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.errors import BadRequest, Forbidden, TooLarge
from pykubelet.api.serializer import encode
from pykubelet.apiserver.apiextensions.controller import served_rows
from pykubelet.apiserver.apiextensions.status import CrdCondition, with_accepted_names, with_condition
from pykubelet.kinds.kind import Kind, ScalePaths
from widgets import NOW, definition, schema, version, widget

_SCALE = {
    "scale": {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.sel",
    }
}


def _served(*versions: dict[str, Any], **spec: Any) -> tuple[Kind, ...]:
    return served_rows(with_accepted_names(definition(*versions, **spec), [], NOW))


def _one(**stated: Any) -> Kind:
    return _served(version(**stated))[0]


def test_rows_carry_the_names_and_subresources_of_the_definition() -> None:
    """A version that is not served gives no kind."""
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]}
    first, second = _served(
        version(subresources={"status": {}, **_SCALE}),
        version("v2", storage=False),
        version("v3", storage=False, served=False),
        names=names,
        scope="Cluster",
    )
    assert (first.resource.api_version, second.resource.api_version) == ("example.com/v1", "example.com/v2")
    assert (first.short_names, first.categories, first.subresources) == (("wd",), ("all",), ("status", "scale"))
    assert first.scale == ScalePaths("spec.size", "status.size", "status.sel")
    assert first.structural == version()["schema"]["openAPIV3Schema"]
    assert not first.resource.namespaced
    assert first.list_kind == "WidgetList"
    assert first.stored is not None


def test_definition_that_is_not_established_serves_nothing() -> None:
    """Its names may belong to another definition."""
    assert served_rows(definition()) == ()


def test_versions_share_objects_in_the_storage_version() -> None:
    """Each version shows them with its own apiVersion, fields and defaults."""
    wide = {"openAPIV3Schema": schema(size={"type": "integer"}, more={"type": "string", "default": "m"})}
    old, new = _served(version(), version("v2", storage=False, schema=wide))
    assert old.stored
    assert new.stored
    shown = new.stored.to_served(widget(size=1, junk=2))
    assert (shown["apiVersion"], shown["spec"]) == ("example.com/v2", {"size": 1, "more": "m"})
    assert new.stored.to_stored(shown)["apiVersion"] == "example.com/v1"
    stored = widget()
    assert old.stored.to_stored(stored) is stored


@pytest.mark.parametrize(
    ("own", "others", "warnings"),
    [
        ({}, [], ()),
        ({"deprecated": True}, [], ("example.com/v1beta1 Widget is deprecated",)),
        (
            {"deprecated": True},
            ["v1", "v2", "v1alpha1", "odd"],
            ("example.com/v1beta1 Widget is deprecated; use example.com/v2 Widget",),
        ),
        ({"deprecated": True, "deprecationWarning": "stop"}, ["v1"], ("stop",)),
    ],
)
def test_deprecated_version_warns(own: Any, others: list[str], warnings: tuple[str, ...]) -> None:
    """The warning names a better version if there is one."""
    rows = _served(version("v1beta1", **own), *(version(name, storage=False) for name in others))
    assert rows[0].deprecation_warnings == warnings


def test_status_without_a_subresource_is_part_of_the_object() -> None:
    """It can be set on creation, and a change increments the generation."""
    stated = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    rules = _one(schema={"openAPIV3Schema": stated}).strategy
    new = rules.prepare_create({**widget(), "status": {"a": 1}})
    assert (new["status"], new["metadata"]["generation"]) == ({"a": 1}, 1)
    changed = rules.prepare_update({**new, "status": {"a": 2}}, new)
    assert changed["metadata"]["generation"] == 2
    assert rules.prepare_update(new, new)["metadata"]["generation"] == 1


def test_terminating_definition_takes_no_new_objects() -> None:
    """The server would only delete them again."""
    condition = CrdCondition("Terminating", "True", "r", "m")
    (served,) = served_rows(with_condition(with_accepted_names(definition(), [], NOW), condition, NOW))
    with pytest.raises(
        Forbidden, match=r'widgets.example.com "w" is forbidden: create not allowed while custom resource'
    ):
        served.strategy.prepare_create(widget())


@pytest.mark.parametrize(
    ("document", "errors"),
    [
        (
            widget(size="x"),
            [".spec.size: Invalid value: 0: .spec.size accessor error: x is of the type string, expected int64"],
        ),
        (widget(size=-1), [".spec.size: Invalid value: -1: should be a non-negative integer"]),
        (widget(size=2**31), [".spec.size: Invalid value: 2147483648: should be less than or equal to 2147483647"]),
        (
            {**widget(), "status": {"sel": 3}},
            ['.status.sel: Invalid value: "": .status.sel accessor error: 3 is of the type int64, expected string'],
        ),
        ({**widget(), "status": 3}, 2),
    ],
)
def test_values_at_the_scale_paths_are_validated(document: dict[str, Any], errors: Any) -> None:
    """The definition states the paths."""
    stated = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    rules = _one(schema={"openAPIV3Schema": stated}, subresources=_SCALE).strategy
    found = [str(error) for error in rules.validate_create(document)]
    assert len(found) == errors if isinstance(errors, int) else found == errors
    old = {**document, "metadata": {**document["metadata"], "uid": "u"}}
    assert len(rules.validate_status(old, old)) == sum(".status" in error for error in found)


def test_objects_are_selected_by_the_fields_of_the_definition() -> None:
    """Values become text, and a missing field is empty."""
    served = _one(selectableFields=[{"jsonPath": ".spec.size"}, {"jsonPath": ".spec.on"}])
    assert served.strategy.fields(widget(size=3, on=True)) == {
        "metadata.name": "w",
        "metadata.namespace": "default",
        "spec.size": "3",
        "spec.on": "true",
    }
    assert served.strategy.fields({"spec": 3})["spec.size"] == ""


_POD = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}


def test_embedded_resources_are_validated_as_resources() -> None:
    """They need kind, apiVersion and valid metadata."""
    served = _one(schema={"openAPIV3Schema": schema(pod=_POD, pods={"type": "array", "items": _POD})})
    pod = {"apiVersion": "a/b/c", "kind": "p q", "metadata": {"name": "a/b", "junk": 1, "labels": {"-": ""}}}
    document = widget(
        pod=pod, pods=[{"kind": "Pod", "apiVersion": ""}, {"apiVersion": "v1", "kind": 3, "metadata": {"name": 3}}]
    )
    assert served.strategy.unknown(document) == ["spec.pod.metadata.junk"]
    fields = [error.field for error in served.strategy.validate_create(document)]
    assert fields == [
        "spec.pod.apiVersion",
        "spec.pod.kind",
        "spec.pod.metadata.name",
        "spec.pod.metadata.labels",
        "spec.pods[0].apiVersion",
        "spec.pods[1].kind",
        "spec.pods[1].metadata",
    ]
    assert "junk" not in served.strategy.default(document)["spec"]["pod"]["metadata"]


def test_embedded_resources_in_maps_are_validated_too() -> None:
    """This finds invalid names and unknown fields of owner references."""
    served = _one(schema={"openAPIV3Schema": schema(pods={"type": "object", "additionalProperties": _POD})})
    owner = {"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u", "junk": 1}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "..", "ownerReferences": [owner]}}
    document = widget(pods={"k": pod, "odd": 3})
    assert served.strategy.unknown(document) == ["spec.pods.k.metadata.ownerReferences[0].junk"]
    fields = [error.field for error in served.strategy.validate_create(document)]
    assert fields == ["spec.pods.odd", "spec.pods[k].metadata.name"]
    assert served.strategy.default(document)["spec"]["pods"]["odd"] == 3


def test_metadata_may_hold_nulls() -> None:
    """Defaulting drops null fields of metadata."""
    assert _one().strategy.default({**widget(), "metadata": {"name": "w", "labels": None}})["metadata"] == {"name": "w"}


def test_metadata_of_the_wrong_type_and_endless_nesting_are_refused() -> None:
    """The error is BadRequest, not a crash."""
    rules = _one().strategy
    with pytest.raises(
        BadRequest, match=r"cannot unmarshal number into Go struct field ObjectMeta\.name of type string"
    ):
        rules.default({**widget(), "metadata": {"name": 3}})
    with pytest.raises(BadRequest, match="parsing time"):
        rules.default({**widget(), "metadata": {"creationTimestamp": "now"}})
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(BadRequest, match="nested too deeply"):
        rules.default(widget(size=deep))
    with pytest.raises(BadRequest, match="nested too deeply"):
        rules.unknown(widget(size=deep))


def test_status_is_checked_by_its_own_part_of_the_schema() -> None:
    """Messages name fields relative to the status, and managed fields come from the new object."""
    stated = schema()
    stated["properties"]["status"] = {"type": "object", "properties": {"on": {"type": "boolean"}}}
    rules = _one(schema={"openAPIV3Schema": stated}, subresources={"status": {}}).strategy
    old = widget()
    new = rules.prepare_status({**old, "metadata": {"managedFields": [{"manager": "m"}]}, "status": {"on": 3}}, old)
    assert new["metadata"] == {**old["metadata"], "managedFields": [{"manager": "m"}]}
    found = [str(error) for error in rules.validate_status(new, old)][-1]
    assert found == 'status.on: Invalid value: "integer": on in body must be of type boolean: "integer"'
    assert "status" not in rules.prepare_create({**old, "status": {}})


def test_duplicates_in_a_set_pass_if_the_old_object_had_some() -> None:
    """Only an update that introduces duplicates is refused."""
    listed = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    rules = _one(schema={"openAPIV3Schema": schema(l=listed)}).strategy
    good, bad = widget(l=["a"]), widget(l=["a", "a"])
    assert [error.field for error in rules.validate_update(bad, good)] == ["spec.l[1]"]
    assert rules.validate_update(bad, bad) == []


def test_selectable_field_that_cannot_be_followed_is_empty() -> None:
    """A list request must not fail because of it."""
    stated = schema(size={"type": "integer"})
    served = _one(schema={"openAPIV3Schema": stated}, selectableFields=[{"jsonPath": ".spec.size[0]"}])
    assert served.strategy.fields(widget(size=3))["spec.size[0]"] == ""


@given(st.dictionaries(st.sampled_from(["size", "junk", "a"]), st.none() | st.integers() | st.text(max_size=3)))
def test_defaulting_twice_changes_nothing(spec: dict[str, Any]) -> None:
    """A defaulted object has no unknown fields either."""
    served = _one(schema={"openAPIV3Schema": schema(size={"type": "integer", "default": 1}, a={"type": "string"})})
    once = served.strategy.default(widget(**spec))
    assert served.strategy.default(once) == once
    assert served.strategy.unknown(once) == []


def _with_default(size: int) -> Kind:
    """A kind whose items each have a default of so many bytes."""
    item = {"type": "object", "properties": {"text": {"type": "string", "default": "x" * size}}}
    return _one(schema={"openAPIV3Schema": schema(items={"type": "array", "items": item})})


def test_defaults_add_a_limited_size_to_an_object() -> None:
    """A short object with many items must not become one of gigabytes."""
    many = widget(items=[{}] * 20_000)
    assert len(encode(_with_default(100).strategy.default(many))) > 2_000_000
    with pytest.raises(TooLarge, match="the defaults of the schema add more than 3145728 bytes"):
        _with_default(500_000).strategy.default(many)


def test_stored_object_stays_readable_when_defaults_become_too_large() -> None:
    """Those that do not fit are left out, so that the object can be shown, changed and deleted."""
    item = {"type": "object", "properties": {"text": {"type": "string", "default": "x" * 500_000}}}
    grown = {"openAPIV3Schema": schema(items={"type": "array", "items": item})}
    _, later = _served(version(), version("v2", storage=False, schema=grown))
    assert later.stored is not None
    shown = later.stored.to_served(widget(items=[{}] * 20_000))
    assert len(shown["spec"]["items"]) == 20_000
    assert sum("text" in item for item in shown["spec"]["items"]) == 6
