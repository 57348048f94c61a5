"""Server-side apply: merging, removing fields, conflicts, force, sharing, and migration from client-side apply."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import BadRequest, Conflict
from pykubelet.apiserver.fieldmanager.fieldmanager import apply, record
from pykubelet.apiserver.fieldmanager.typeconverter import DEDUCED, structural_schema

FIRST, THEN = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
DATA = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("123"), max_size=4)


def config_map(data: Any = None, **metadata: Any) -> dict[str, Any]:
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}
    return document | ({} if data is None else {"data": data})


def applied(live: Any, config: Any, manager: str = "m", now: str = FIRST, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"definition": "core.v1.ConfigMap", "api_version": "v1"} | more
    return apply(live, config, manager=manager, now=now, **told)


def updated(new: Any, live: Any = None, manager: str = "u", **more: Any) -> dict[str, Any]:
    return record(
        new, live, **{"definition": "core.v1.ConfigMap", "api_version": "v1"} | more, manager=manager, now=FIRST
    )


def fields(document: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in document["metadata"].get("managedFields", ())}


POD: dict[str, Any] = {"definition": "core.v1.Pod"}


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {**({"containers": list(containers)} if containers else {}), **spec},
    }


def test_apply_again_changes_nothing() -> None:
    """Apply returns the same object, with its old time."""
    live = applied(None, config_map({"x": "1"}))
    assert applied(live, config_map({"x": "1"}), now=THEN) is live


def test_second_applier_of_the_same_value_shares_it() -> None:
    """There is no conflict, and no time as the object did not change; the value stays until both give it up."""
    live = applied(None, config_map({"x": "1"}))
    shared = applied(live, config_map({"x": "1"}), "n", THEN)
    assert fields(shared) == {"m": {"f:data": {"f:x": {}}}, "n": {"f:data": {"f:x": {}}}}
    assert [entry.get("time") for entry in shared["metadata"]["managedFields"]] == [None, FIRST]
    one_left = applied(shared, config_map(), "m", THEN)
    assert one_left["data"] == {"x": "1"}
    assert "data" not in applied(one_left, config_map(), "n", THEN)


def test_conflict_names_every_owner_and_field() -> None:
    """One conflict is a sentence, several are a list by owner; subresources are named."""
    live = updated(config_map({"x": "1"}), manager="kubectl-client-side-apply")
    with pytest.raises(Conflict) as one:
        applied(live, config_map({"x": "2"}))
    assert (
        one.value.message == 'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.x'
    )
    both = applied(live, config_map({"y": "1"}, labels={"l": "1"}), "z")
    both["metadata"]["managedFields"][1]["subresource"] = "status"
    with pytest.raises(Conflict) as more:
        applied(both, config_map({"x": "2", "y": "2"}, labels={"l": "2"}))
    assert more.value.message == (
        'Apply failed with 3 conflicts: conflicts with "kubectl-client-side-apply" with subresource "status" using v1:\n'
        '- .data.x\nconflicts with "z":\n- .data.y\n- .metadata.labels.l'
    )
    assert [cause["field"] for cause in more.value.causes] == [".data.x", ".data.y", ".metadata.labels.l"]
    assert more.value.causes[1] == {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "z"',
        "field": ".data.y",
    }


def test_force_takes_the_fields_over() -> None:
    """The other manager keeps the fields that are not contested."""
    live = updated(config_map({"x": "1", "y": "1"}))
    new = applied(live, config_map({"x": "2"}), force=True, now=THEN)
    assert new["data"] == {"x": "2", "y": "1"}
    assert fields(new) == {"m": {"f:data": {"f:x": {}}}, "u": {"f:data": {".": {}, "f:y": {}}}}


def test_item_no_longer_applied_is_removed_with_all_its_fields() -> None:
    """Others own only a field of the item; their fields of other items stay, and so do fields without an owner."""
    live = applied(None, pod({"name": "a", "image": "i"}, {"name": "b", "image": "i"}, nodeName="n"), **POD)
    wider = [{**each, "tty": True} for each in live["spec"]["containers"]]
    live = updated({**live, "spec": {**live["spec"], "containers": wider}}, live, **POD)
    live["spec"]["schedulerName"] = "s"
    new = applied(live, pod({"name": "a", "image": "i"}), **POD, now=THEN)
    assert new["spec"] == {"containers": [{"name": "a", "image": "i", "tty": True}], "schedulerName": "s"}
    assert fields(new)["u"] == {"f:spec": {"f:containers": {'k:{"name":"a"}': {"f:tty": {}}}}}


def test_shared_item_stays_when_one_applier_drops_it() -> None:
    """It stays until both drop it; fields that one alone applied are removed."""
    live = applied(None, pod({"name": "a", "image": "i", "tty": True}), **POD)
    live = applied(live, pod({"name": "a", "image": "i"}), "n", **POD)
    new = applied(live, {**pod(), "spec": {}}, **POD, now=THEN)
    assert new["spec"] == {"containers": [{"name": "a", "image": "i"}]}
    assert fields(new) == {
        "n": {"f:spec": {"f:containers": {'k:{"name":"a"}': {".": {}, "f:image": {}, "f:name": {}}}}},
        "m": {"f:spec": {}},
    }


def test_default_key_finds_the_item() -> None:
    """A port without a protocol is a TCP port."""
    live = pod({"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "old"}]})
    live = updated(live, **POD)
    new = applied(live, pod({"name": "c", "ports": [{"containerPort": 80, "hostPort": 1}]}), **POD)
    (port,) = new["spec"]["containers"][0]["ports"]
    assert port == {"containerPort": 80, "protocol": "TCP", "name": "old", "hostPort": 1}


def test_live_duplicates_are_replaced_by_the_applied_item() -> None:
    """Duplicates are one field, so the applier must own it."""
    live = updated(pod({"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}), **POD)
    wanted = pod({"name": "c", "env": [{"name": "A", "value": "3"}]})
    new = applied(live, wanted, **POD, force=True)
    assert new["spec"]["containers"][0]["env"] == [{"name": "A", "value": "3"}]


def test_first_apply_assigns_existing_fields_to_before_first_apply() -> None:
    """This happens to an object without managedFields."""
    live = config_map({"x": "1"}, uid="u")
    with pytest.raises(Conflict, match=r'conflict with "before-first-apply" using v1: \.data\.x'):
        applied(live, config_map({"x": "2"}))
    new = applied(live, config_map({"x": "1", "y": "1"}), now=THEN)
    assert fields(new)["before-first-apply"] == {"f:data": {".": {}, "f:x": {}}}


def test_status_is_applied_through_its_subresource_only() -> None:
    """Neither the main resource nor the subresource owns fields that the other one writes."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    told: dict[str, Any] = {"definition": "core.v1.Node"}
    live = applied(None, {**node, "spec": {"podCIDR": "c"}, "status": {"phase": "x"}}, **told)
    assert fields(live) == {"m": {"f:spec": {"f:podCIDR": {}}}}
    new = applied(live, {**node, "spec": {"podCIDR": "d"}, "status": {"phase": "y"}}, "k", subresource="status", **told)
    assert fields(new)["k"] == {"f:status": {"f:phase": {}}}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"kind": "ConfigMap"}, "invalid object type: /, Kind=ConfigMap"),
        ({"apiVersion": "v1"}, "invalid object type: /v1, Kind="),
        ({"apiVersion": "apps/v1", "kind": "Pod"}, "invalid object type: apps/v1, Kind=Pod"),
        ({"apiVersion": "a/b/c", "kind": "Pod"}, "invalid object type: /, Kind="),
        ({"apiVersion": 5, "kind": []}, "invalid object type: /, Kind="),
        (config_map(managedFields=[]), "metadata.managedFields must be nil"),
        (
            {**config_map({"x": 1}), "other": 1},
            (
                "failed to create typed patch object (/a; /v1, Kind=ConfigMap): errors:\n"
                "  .data.x: expected string, got &value.valueUnstructured{Value:1}\n"
                "  .other: field not declared in schema"
            ),
        ),
        (
            {**config_map(), "metadata": 5},
            "failed to create typed patch object (/; /v1, Kind=ConfigMap): .metadata: expected map, got &{5}",
        ),
    ],
)
def test_invalid_apply_configuration_is_refused(config: dict[str, Any], message: str) -> None:
    """It has another kind, managedFields, or fields that do not fit the schema."""
    with pytest.raises(BadRequest) as refused:
        applied(None, config)
    assert refused.value.message == message


def test_endless_nesting_is_refused() -> None:
    """The error is BadRequest, not a crash."""
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(BadRequest):
        applied(None, {"apiVersion": "v1", "metadata": {}, "spec": deep}, definition=DEDUCED)


def test_live_object_that_does_not_fit_its_schema_is_refused() -> None:
    """Another schema may have left an item that does not fit its list."""
    schema = structural_schema(
        {"properties": {"set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}}
    )
    live = {
        **config_map(),
        "set": [{}],
        "metadata": {"managedFields": updated(config_map({"x": "1"}))["metadata"]["managedFields"]},
    }
    with pytest.raises(BadRequest, match="failed to merge config: associative list without keys"):
        applied(live, {**config_map(), "set": ["a"]}, definition=schema)


def from_client(data: dict[str, str], live: Any = None) -> dict[str, Any]:
    text = json.dumps(config_map(data))
    return updated(config_map(data, annotations={ANNOTATION: text}), live, "kubectl-client-side-apply")


def test_kubectl_takes_over_its_client_side_applied_fields() -> None:
    """Fields of its annotation that are unchanged become its own; the annotation is updated in Go's format."""
    live = from_client({"x": "1", "y": "1"})
    new = applied(live, config_map({"x": "2"}), "kubectl")
    assert new["data"] == {"x": "2", "y": "1"}
    text = '{"apiVersion":"v1","data":{"x":"2"},"kind":"ConfigMap","metadata":{"name":"a"}}\n'
    assert new["metadata"]["annotations"] == {ANNOTATION: text}
    with pytest.raises(Conflict):
        applied(live, config_map({"x": "2"}), "another")


@pytest.mark.parametrize(
    "before", ["", "no json", "[]", json.dumps({"apiVersion": "v2"}), json.dumps(config_map({"x": 1})), None]
)
def test_kubectl_conflicts_without_a_usable_annotation(before: str | None) -> None:
    """The annotation is absent, broken, or of another version or type."""
    annotations = {} if before is None else {"annotations": {ANNOTATION: before}}
    live = updated(config_map({"x": "1"}, **annotations))
    with pytest.raises(Conflict):
        applied(live, config_map({"x": "2"}), "kubectl")


def test_kubectl_conflicts_only_about_what_others_changed() -> None:
    """The conflict lists only the fields that another manager changed since."""
    live = from_client({"x": "1", "y": "1"})
    live = updated({**live, "data": {"x": "1", "y": "9"}}, live, "other")
    with pytest.raises(Conflict) as refused:
        applied(live, config_map({"x": "2", "y": "2"}), "kubectl")
    assert [cause["field"] for cause in refused.value.causes] == [".data.y"]


def test_kubectl_without_the_annotation_writes_none() -> None:
    """Apply updates the annotation only if client-side apply created it."""
    new = applied(updated(config_map({"x": "1"})), config_map({"y": "1"}), "kubectl")
    assert "annotations" not in new["metadata"]


def test_annotation_that_grows_too_long_is_removed() -> None:
    """All annotations together have a size limit, and this one is dropped first."""
    live = from_client({"x": "1"})
    new = applied(live, config_map({"x": "v" * 300_000}, annotations={"a": "b"}), "kubectl")
    assert new["metadata"]["annotations"] == {"a": "b"}


@settings(max_examples=60)
@given(DATA, DATA)
def test_apply_is_stable_and_giving_up_restores(there: dict[str, str], mine: dict[str, str]) -> None:
    """Applying twice changes nothing; applying without the added fields restores the object."""
    added = {name: value for name, value in mine.items() if name not in there}
    live = updated(config_map(there or None, labels={"l": "1"}))
    once = applied(live, config_map(added))
    assert applied(once, config_map(added), now=THEN) is once
    back = applied(once, config_map(), now=THEN)
    assert {**back, "metadata": {}} == {**live, "metadata": {}}
    assert "m" not in fields(back)


NAMES = st.sampled_from(
    ["name", "labels", "finalizers", "ownerReferences", "containers", "env", "ports", "image", "uid"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.floats(0, 1) | st.text("aé<", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150)
@given(ANYTHING, ANYTHING)
def test_any_apply_gives_a_stable_object_or_bad_request(metadata: Any, spec: Any) -> None:
    """A second apply of the same configuration changes nothing."""
    live = updated(pod({"name": "a", "env": [{"name": "A", "value": "1"}]}), **POD)
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    try:
        made = applied(live, config, force=True, **POD)
    except BadRequest:
        return
    assert applied(made, config, now=THEN, **POD) == made


@settings(max_examples=60)
@given(DATA, DATA, st.booleans())
def test_applier_gets_its_values_or_a_conflict(there: dict[str, str], mine: dict[str, str], force: bool) -> None:
    """Apply conflicts exactly if another manager's field would change; otherwise the object has all values."""
    live = updated(config_map(there or None, labels={"l": "1"}))
    contested = {name for name in there if name in mine and mine[name] != there[name]}
    if contested and not force:
        with pytest.raises(Conflict) as refused:
            applied(live, config_map(mine))
        assert {cause["field"] for cause in refused.value.causes} == {f".data.{name}" for name in contested}
    else:
        assert applied(live, config_map(mine), force=force).get("data", {}) == {**there, **mine}
