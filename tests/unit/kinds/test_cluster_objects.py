"""The rules of nodes, namespaces, leases and events."""

from typing import Any

import pytest

from pykubelet.kinds import event, lease, namespace, node
from pykubelet.kinds.node import with_not_ready_taint
from strategy_calls import create, update, update_status

EVENTS = event.CORE_EVENT.strategy
NEW_EVENTS = event.EVENT.strategy
LEASES = lease.KIND.strategy
FINALIZE = namespace.KIND.subresource_strategies["finalize"]
NAMESPACES = namespace.KIND.strategy
NODES = node.KIND.strategy

_ENDING = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
_EVENT = {"apiVersion": "v1", "kind": "Event", "involvedObject": {"namespace": "default"}}
_NEW_EVENT = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "regarding": {"namespace": "default"},
    "reportingController": "example.com/c",
    "reportingInstance": "i",
    "action": "a",
    "reason": "r",
    "type": "Normal",
}


def _node(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> tuple[dict[str, Any], list[str]]:
    document = {"apiVersion": "v1", "kind": "Node", "spec": spec or {}, "status": status or {}}
    return create(NODES, document, namespace="")


def test_new_node_keeps_its_status_and_gets_derived_fields() -> None:
    """podCIDRs is derived from podCIDR, and allocatable from capacity."""
    node, messages = _node({"podCIDR": "10.0.0.0/24"}, {"capacity": {"cpu": "4", "memory": "1024Ki"}})
    assert messages == []
    assert node["spec"]["podCIDRs"] == ["10.0.0.0/24"]
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "1Mi"}


def test_new_node_is_tainted_once() -> None:
    node, _ = _node()
    tainted = with_not_ready_taint(node)
    assert tainted["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert with_not_ready_taint(tainted) is tainted


@pytest.mark.parametrize(
    ("spec", "status", "messages"),
    [
        pytest.param(
            {"podCIDRs": ["x"]},
            {},
            ['spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'],
            id="no block",
        ),
        pytest.param(
            {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]},
            {},
            [
                'spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each IP family'
            ],
            id="two of a family",
        ),
        pytest.param(
            {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "value": "v", "effect": "NoExecute"}]},
            {},
            [
                'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"v","Effect":"NoExecute","TimeAdded":null}: taints must be unique by key and effect pair'
            ],
            id="same taint",
        ),
        pytest.param({"taints": [{"key": "a"}]}, {}, ["metadata.taints[0].effect: Required value"], id="no effect"),
        pytest.param(
            {},
            {"capacity": {"pods": "1.5"}, "allocatable": {"cpu": "-1"}},
            [
                'status.capacity.pods: Invalid value: "1500m": must be an integer',
                'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0',
            ],
            id="amounts",
        ),
    ],
)
def test_bad_node_is_rejected(spec: dict[str, Any], status: dict[str, Any], messages: list[str]) -> None:
    assert _node(spec, status)[1] == messages


def test_node_keeps_its_block_and_provider_once_it_has_them() -> None:
    """Both may be set later, but not changed."""
    node, _ = _node()
    filled, messages = update(NODES, node, {"spec": {"podCIDR": "10.0.0.0/24", "providerID": "a"}})
    assert messages == []
    moved = {"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": None, "providerID": "b"}}
    assert update(NODES, filled, moved)[1] == [
        'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
        'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
    ]


def test_status_update_of_a_node_leaves_its_spec_alone_and_refuses_repeated_addresses() -> None:
    node, _ = _node()
    address = {"type": "Hostname", "address": "h"}
    patch = {"spec": {"unschedulable": True}, "status": {"addresses": [address, address]}}
    new, messages = update_status(NODES, node, patch)
    assert new["spec"] == node["spec"]
    assert messages == ['status.addresses[1]: Duplicate value: {"Type":"Hostname","Address":"h"}']


def test_new_namespace_is_active_and_ends_only_when_it_is_empty() -> None:
    """Its name is a label; only the finalize endpoint removes its finalizers."""
    namespace, messages = create(NAMESPACES, {"spec": {"finalizers": ["a/b"]}}, namespace="")
    assert messages == []
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    assert (namespace["spec"], namespace["status"]) == ({"finalizers": ["a/b", "kubernetes"]}, {"phase": "Active"})
    kept, _ = update(NAMESPACES, namespace, {"spec": {"finalizers": []}, "status": {"phase": "Terminating"}})
    assert (kept["spec"], kept["status"]) == (namespace["spec"], namespace["status"])
    emptied, messages = update(FINALIZE, namespace, {"spec": {"finalizers": []}})
    assert (emptied["spec"], messages) == ({}, [])
    assert update(FINALIZE, namespace, {"spec": {"finalizers": ["own"]}})[1] == [
        'spec.finalizers[0]: Invalid value: "own": name is neither a standard finalizer name nor is it fully qualified'
    ]


def test_phase_of_a_namespace_must_match_its_deletion_timestamp() -> None:
    namespace, _ = create(NAMESPACES, {}, namespace="")
    assert update_status(NAMESPACES, namespace, {"status": {"phase": "Terminating"}})[1] == [
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    ]
    ending = {**namespace, "metadata": {**namespace["metadata"], **_ENDING["metadata"]}}
    assert update_status(NAMESPACES, ending, {})[1] == [
        "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"
    ]


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        ({"leaseDurationSeconds": 1, "leaseTransitions": 0, "holderIdentity": ""}, []),
        ({"leaseDurationSeconds": -1}, ["spec.leaseDurationSeconds: Invalid value: -1: must be greater than 0"]),
        ({"leaseTransitions": -1}, ["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"]),
    ],
)
def test_lease_has_a_duration_above_zero(spec: dict[str, Any], messages: list[str]) -> None:
    lease, found = create(LEASES, {"spec": {**spec, "strategy": "OldestEmulationVersion"}})
    assert (lease["spec"], found) == (spec, messages)
    assert update(LEASES, lease, {"spec": {"strategy": "x"}})[0]["spec"] == spec


def test_old_event_needs_little_and_new_event_needs_all() -> None:
    """An event with eventTime must have a reporting component and instance, an action and a reason."""
    assert create(EVENTS, _EVENT)[1] == []
    assert create(NEW_EVENTS, _NEW_EVENT)[1] == []
    timed = {**_EVENT, "eventTime": "2026-01-01T00:00:00.000000Z"}
    assert [text.partition(": ")[0] for text in create(EVENTS, timed)[1]] == [
        "reportingComponent",
        *["reportingComponent"] * 2,
        "reportingInstance",
        "action",
        "reason",
    ]


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        pytest.param({"series": {"count": 1}}, 2, id="short series"),
        pytest.param({"type": "Other"}, 1, id="other type"),
        pytest.param({"deprecatedCount": 1, "deprecatedSource": {"host": "h"}}, 2, id="old fields"),
        pytest.param({"note": "x" * 1025}, 1, id="long"),
        pytest.param({"regarding": {}}, 0, id="about the cluster"),
    ],
)
def test_bad_new_event_is_rejected(change: dict[str, Any], messages: int) -> None:
    assert len(create(NEW_EVENTS, {**_NEW_EVENT, **change})[1]) == messages


def test_new_event_may_only_grow_a_series() -> None:
    stored, _ = create(NEW_EVENTS, _NEW_EVENT)
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    assert update(NEW_EVENTS, stored, series)[1] == []
    assert update(NEW_EVENTS, stored, {"reason": "other", "regarding": {"name": "n"}})[1] == [
        'involvedObject: Invalid value: {"Kind":"","Namespace":"default","Name":"n","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable',
        'reason: Invalid value: "other": field is immutable',
        'reason: Invalid value: "other": field is immutable',
    ]


def test_events_are_selected_by_the_names_of_their_group() -> None:
    """The source is the reporting component when no source component is named."""
    old = {**_EVENT, "metadata": {"name": "e"}, "reportingComponent": "c"}
    assert EVENTS.fields(old)["source"] == "c"
    assert EVENTS.fields(old)["involvedObject.namespace"] == "default"
    found = NEW_EVENTS.fields({**_NEW_EVENT, "metadata": {}})
    assert (found["regarding.namespace"], found["reason"], found["type"]) == ("default", "r", "Normal")
    assert found["reportingController"] == "example.com/c"
