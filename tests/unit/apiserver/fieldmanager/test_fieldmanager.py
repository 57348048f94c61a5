"""Field managers after a create, update or patch."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.apiserver.fieldmanager.trees import flat

from pykubelet.apiserver.fieldmanager.fieldmanager import keep_times, record
from pykubelet.apiserver.fieldmanager.fieldpath import FieldTree
from pykubelet.apiserver.fieldmanager.managedfields import managed_fields, read_owners
from pykubelet.apiserver.fieldmanager.typeconverter import DEDUCED, structural_schema

FIRST, THEN = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
DATA = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("123"), max_size=4)


def config_map(data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}
    return document | ({"data": data} if data else {})


def recorded(new: Any, live: Any = None, manager: str = "m", now: str = FIRST, **more: Any) -> dict[str, Any]:
    return record(
        new, live, **{"definition": "core.v1.ConfigMap", "api_version": "v1"} | more, manager=manager, now=now
    )


def fields(document: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in document["metadata"].get("managedFields", ())}


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "ports": [{"containerPort": 443, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP"}],
                        "resources": {},
                    }
                ],
                "securityContext": {},
            },
        },
    },
    "status": {},
}


def test_created_object_is_owned_by_its_creator_as_upstream_writes_it() -> None:
    """The creator owns neither status nor identity, nor fields that an empty object has; the order is Go's."""
    made = recorded(DEPLOYMENT, definition="apps.v1.Deployment", api_version="apps/v1")
    (entry,) = made["metadata"]["managedFields"]
    assert {name: value for name, value in entry.items() if name != "fieldsV1"} == {
        "manager": "m",
        "operation": "Update",
        "apiVersion": "apps/v1",
        "time": FIRST,
        "fieldsType": "FieldsV1",
    }
    port: FieldTree = {".": {}, "f:containerPort": {}, "f:protocol": {}}
    container = {
        ".": {},
        "f:image": {},
        "f:name": {},
        "f:ports": {
            ".": {},
            'k:{"containerPort":80,"protocol":"TCP"}': port,
            'k:{"containerPort":443,"protocol":"TCP"}': port,
        },
        "f:resources": {},
    }
    template = {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {"f:containers": {'k:{"name":"c"}': container}, "f:securityContext": {}},
    }
    wanted = {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:revisionHistoryLimit": {},
            "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}},
            "f:template": template,
        },
    }
    assert json.dumps(entry["fieldsV1"]) == json.dumps(wanted)


def test_created_custom_resource_owns_its_maps_too() -> None:
    """An empty custom object does not have them, unlike a built-in one."""
    schema = structural_schema({"properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}})
    made = recorded({"metadata": {"name": "x"}, "spec": {"a": "1"}}, definition=schema, api_version="example.com/v1")
    assert fields(made) == {"m": {"f:spec": {".": {}, "f:a": {}}}}


def test_update_takes_over_only_the_fields_it_changes() -> None:
    """The other manager keeps the rest and its time; a manager that loses all fields is removed."""
    live = recorded(config_map({"x": "1", "y": "1"}))
    new = recorded(config_map({"x": "2", "y": "1"}), live, "other", THEN)
    assert fields(new) == {"m": {"f:data": {".": {}, "f:y": {}}}, "other": {"f:data": {"f:x": {}}}}
    assert [entry["time"] for entry in new["metadata"]["managedFields"]] == [FIRST, THEN]
    last = recorded(config_map({"z": "1"}), new, "third", THEN)
    assert fields(last) == {"m": {"f:data": {}}, "third": {"f:data": {"f:z": {}}}}


def test_update_that_changes_nothing_gives_the_same_owners() -> None:
    """No time changes, not even when fields are removed."""
    live = recorded(config_map({"x": "1", "y": "1"}))
    assert recorded(config_map({"x": "1", "y": "1"}), live, "m", THEN)["metadata"] == live["metadata"]
    less = recorded(config_map({"x": "1"}), live, "other", THEN)
    assert fields(less) == {"m": {"f:data": {".": {}, "f:x": {}}}}
    assert less["metadata"]["managedFields"][0]["time"] == FIRST


def test_status_and_main_resource_have_separate_owners() -> None:
    """A manager has one entry per subresource; neither takes fields that it cannot write."""
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {}}
    told: dict[str, Any] = {"definition": "core.v1.Pod"}
    live = recorded(pod, **told)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    new = recorded({**live, "spec": {}, "status": ready}, live, subresource="status", now=THEN, **told)
    first, second = new["metadata"]["managedFields"]
    assert first["fieldsV1"] == {"f:spec": {"f:nodeName": {}}}
    assert second["subresource"] == "status"
    assert second["fieldsV1"]["f:status"]["f:conditions"]['k:{"type":"Ready"}'] == {
        ".": {},
        "f:status": {},
        "f:type": {},
    }
    again = recorded({**new, "status": {}}, new, now=THEN, **told)
    assert again["metadata"] == new["metadata"]


@pytest.mark.parametrize("forget", [[], [{}], [{"manager": ""}]])
def test_client_can_reset_managed_fields(forget: Any) -> None:
    """An empty list or an empty entry resets them; later updates record nothing."""
    live = recorded(config_map({"x": "1"}))
    new = recorded(config_map({"x": "2"}, managedFields=forget), live)
    assert "managedFields" not in new["metadata"]
    assert "managedFields" not in recorded(config_map({"x": "3"}), new)["metadata"]
    assert fields(recorded(config_map({"x": "1"}, managedFields=forget)))


@pytest.mark.parametrize(
    "broken", [5, [5], [{"manager": "m"}], [{}, {}], None, [{"operation": "Apply", "apiVersion": "v1"}]]
)
def test_invalid_managed_fields_of_a_client_are_ignored(broken: Any) -> None:
    """The stored ones stay in force."""
    live = recorded(config_map({"x": "1"}))
    new = recorded(config_map({"x": "1"}, managedFields=broken), live)
    assert new["metadata"] == live["metadata"]


def test_managed_fields_that_a_client_writes_are_accepted() -> None:
    """kubectl migrates from client-side to server-side apply this way; a subresource does not allow it."""
    live = recorded(config_map({"x": "1"}))
    entry = {**live["metadata"]["managedFields"][0], "manager": "kubectl", "operation": "Apply"}
    new = config_map({"x": "1"}, managedFields=[entry])
    assert recorded(new, live)["metadata"]["managedFields"] == [entry]
    assert recorded(new, live, subresource="status")["metadata"] == live["metadata"]


def test_owner_in_an_unknown_version_is_removed() -> None:
    """Its fields have no meaning any more; owners in other served versions stay."""
    live = recorded(config_map({"x": "1"}))
    entries = [{**live["metadata"]["managedFields"][0], "apiVersion": version} for version in ("v1", "v0", "v2")]
    schema = structural_schema({"x-kubernetes-preserve-unknown-fields": True}, versions=frozenset({"v2"}))
    new = recorded(config_map({"x": "1"}, managedFields=entries), live, definition=schema)
    assert [entry["apiVersion"] for entry in new["metadata"]["managedFields"]] == ["v1", "v2"]


def test_object_that_does_not_fit_its_schema_gets_no_owners() -> None:
    """The write goes on; other checks report what is wrong."""
    schema = structural_schema(
        {"properties": {"set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}}
    )
    live = recorded(config_map({"x": "1"}))
    broken = recorded({**live, "set": [None]}, live, definition=schema)
    assert "managedFields" not in broken["metadata"]
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    assert "managedFields" not in recorded({"metadata": {}, "spec": deep}, definition=DEDUCED)["metadata"]


def test_write_that_changes_only_times_keeps_the_stored_object() -> None:
    """A write with any other change stays as it is."""
    live = recorded(config_map({"x": "1"}, resourceVersion="5"))
    entry = {**live["metadata"]["managedFields"][0], "time": THEN}
    later = {**live, "metadata": {"name": "a", "managedFields": [entry]}}
    assert keep_times(later, live) is live
    changed = {**later, "data": {"x": "2"}}
    assert keep_times(changed, live) is changed
    renamed = {**later, "metadata": {"name": "a", "managedFields": [{**entry, "manager": "n"}]}}
    assert keep_times(renamed, live) is renamed
    assert keep_times(live, live) is live


ENTRY_NAMES = st.sampled_from(
    [
        "manager",
        "operation",
        "apiVersion",
        "subresource",
        "time",
        "fieldsType",
        "fieldsV1",
        "f:a",
        'k:{"a":1}',
        "v:1",
        ".",
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "Apply", "v1", "FieldsV1", FIRST]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ENTRY_NAMES, inner, max_size=6),
    max_leaves=20,
)


@settings(max_examples=100)
@given(ANYTHING)
def test_managed_fields_stay_readable_whatever_a_client_sends(sent: Any) -> None:
    """No input breaks the recording of owners."""
    live = recorded(config_map({"x": "1"}))
    entries = recorded(config_map({"x": "1"}, managedFields=sent), live)["metadata"].get("managedFields")
    assert entries is None or managed_fields(read_owners(entries)) == entries


@settings(max_examples=80)
@given(DATA, DATA)
def test_update_owns_exactly_what_changed(before: dict[str, str], after: dict[str, str]) -> None:
    """The updater owns new and changed entries, the other manager keeps the rest, and removed ones have no owner."""
    live = recorded(config_map(before, labels={"l": "1"}))
    owners = fields(recorded(config_map(after, labels={"l": "1"}), live, "other"))
    mine = {path[-1][2:] for path in flat(owners.get("other", {})) if len(path) == 2}
    theirs = {path[-1][2:] for path in flat(owners["m"]) if path[0] == "f:data" and len(path) == 2}
    assert mine == {name for name in after if before.get(name) != after[name]}
    assert theirs == {name for name in after if before.get(name) == after[name]}
