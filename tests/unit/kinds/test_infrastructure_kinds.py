"""Kinds of drivers, devices, addresses and flow control: defaults, validation, updates."""

from typing import Any

import pytest

from pykubelet.kinds.registry import KINDS
from strategy_calls import create, update, update_status

STRATEGIES = {kind.resource.kind: kind.strategy for kind in KINDS}
NAMESPACED = {kind.resource.kind for kind in KINDS if kind.resource.namespaced}

ADDRESS = {
    "metadata": {"name": "10.0.0.1"},
    "spec": {"parentRef": {"resource": "services", "name": "a", "namespace": "b"}},
}
RULE = {
    "subjects": [{"kind": "User", "user": {"name": "u"}}],
    "resourceRules": [{"verbs": ["get"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
}
LEVEL = {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpus"}}
CLAIM = {"devices": {"requests": [REQUEST]}}
SLICE = {"driver": "d.example.com", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n"}

GOOD: dict[str, dict[str, Any]] = {
    "CSIDriver": {"spec": {}},
    "CSINode": {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "i", "topologyKeys": ["a/b"]}]}},
    "CSIStorageCapacity": {"storageClassName": "fast", "capacity": "5Gi", "nodeTopology": {"matchLabels": {"a": "b"}}},
    "VolumeAttachment": {
        "spec": {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    },
    "VolumeAttributesClass": {"driverName": "d.example.com", "parameters": {"iops": "5"}},
    "ServiceCIDR": {"spec": {"cidrs": ["10.0.0.0/24", "2001:db8::/64"]}},
    "IPAddress": ADDRESS,
    "FlowSchema": {"spec": {"priorityLevelConfiguration": {"name": "exempt"}, "rules": [RULE]}},
    "PriorityLevelConfiguration": {"spec": LEVEL},
    "DeviceClass": {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
    "ResourceClaim": {"spec": CLAIM},
    "ResourceClaimTemplate": {"spec": {"spec": CLAIM}},
    "ResourceSlice": {"spec": {**SLICE, "devices": [{"name": "d", "attributes": {"a": {"int": 1}}}]}},
}


def made(kind: str, **change: Any) -> tuple[dict[str, Any], list[str]]:
    """The stored object and the errors of a good object with other fields of its spec, or of its own."""
    document = GOOD[kind]
    document = {**document, "spec": {**document["spec"], **change}} if "spec" in document else {**document, **change}
    return create(STRATEGIES[kind], document, namespace="default" if kind in NAMESPACED else "")


@pytest.mark.parametrize("kind", GOOD)
def test_good_object_is_accepted_and_may_be_updated(kind: str) -> None:
    stored, errors = made(kind)
    assert errors == []
    assert update(STRATEGIES[kind], stored, {"metadata": {"labels": {"a": "b"}}})[1] == []


@pytest.mark.parametrize(
    ("kind", "change", "error"),
    [
        ("CSIDriver", {"fsGroupPolicy": "X"}, 'spec.fsGroupPolicy: Unsupported value: "X": supported values: "File", "None", "ReadWriteOnceWithFSType"'),
        ("CSIDriver", {"volumeLifecycleModes": ["X"]}, 'spec.volumeLifecycleModes: Unsupported value: "X": supported values: "Persistent", "Ephemeral"'),
        ("CSIDriver", {"tokenRequests": [{"audience": "a"}, {"audience": "a"}]}, 'spec.tokenRequests[1].audience: Duplicate value: "a"'),
        ("CSIDriver", {"tokenRequests": [{"audience": "a", "expirationSeconds": 599}]}, "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"),
        ("CSINode", {"drivers": [{"name": "d", "nodeID": "", "topologyKeys": None}]}, "spec.drivers[0].nodeID: Required value"),
        ("CSINode", {"drivers": [{"name": "d", "nodeID": "i", "topologyKeys": None}] * 2}, 'spec.drivers[1].name: Duplicate value: "d"'),
        ("CSIStorageCapacity", {"capacity": "-1"}, 'capacity: Invalid value: "-1": must be greater than or equal to 0'),
        ("VolumeAttachment", {"source": {}}, "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"),
        ("VolumeAttachment", {"attacher": ""}, "spec.attacher: Required value"),
        ("VolumeAttributesClass", {"parameters": {}}, "parameters: Required value: must contain at least one key/value pair"),
        ("ServiceCIDR", {"cidrs": []}, "spec.cidrs: Required value: at least one CIDR required"),
        ("ServiceCIDR", {"cidrs": ["10.0.0.1/24"]}, 'spec.cidrs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length'),
        ("ServiceCIDR", {"cidrs": ["2001:DB8::/64"]}, 'spec.cidrs[0]: Invalid value: "2001:DB8::/64": must be in canonical form ("2001:db8::/64")'),
        ("ServiceCIDR", {"cidrs": ["10.0.0.0/024"]}, 'spec.cidrs[0]: Invalid value: "10.0.0.0/024": must not have leading 0s in IP or prefix length'),
        ("ServiceCIDR", {"cidrs": ["10.0.0.0/24", "10.0.1.0/24"]}, 'spec.cidrs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64'),
        ("IPAddress", {"parentRef": {"name": "a"}}, "spec.parentRef.resource: Required value"),
        ("FlowSchema", {"matchingPrecedence": 10001}, "spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"),
        ("FlowSchema", {"matchingPrecedence": 1}, "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"),
        ("FlowSchema", {"rules": [{"subjects": [], "resourceRules": RULE["resourceRules"]}]}, "spec.rules[0].subjects: Required value: subjects must contain at least one value"),
        ("FlowSchema", {"rules": [{"subjects": RULE["subjects"]}]}, "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"),
        ("PriorityLevelConfiguration", {"type": "Exempt"}, "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"),
        ("PriorityLevelConfiguration", {"limited": {"lendablePercent": 101, "limitResponse": {"type": "Reject"}}}, "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"),
        ("PriorityLevelConfiguration", {"limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 5}}}}, "spec.limited.limitResponse.queuing.handSize: Invalid value: 5: should not be greater than queues (4)"),
        ("DeviceClass", {"selectors": [{}]}, "spec.selectors[0].cel: Required value"),
        ("DeviceClass", {"config": [{"opaque": {"driver": "d", "parameters": 5}}]}, 'spec.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object'),
        ("ResourceClaim", {"devices": {"requests": [REQUEST, REQUEST]}}, 'spec.devices.requests[1].name: Duplicate value: "gpu"'),
        ("ResourceClaim", {"devices": {"requests": [{"name": "gpu"}]}}, "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"),
        ("ResourceClaim", {"devices": {"requests": [REQUEST], "constraints": [{"matchAttribute": "a"}]}}, 'spec.devices.constraints[0].matchAttribute: Invalid value: "a": must include a domain'),
        ("ResourceClaimTemplate", {"spec": {"devices": {"requests": [{"name": "A", "exactly": {"deviceClassName": ""}}]}}}, "spec.spec.devices.requests[0].exactly.deviceClassName: Required value"),
        ("ResourceSlice", {"nodeName": None}, "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"),
        ("ResourceSlice", {"allNodes": True}, 'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set'),
        ("ResourceSlice", {"devices": [{"name": "d", "attributes": {"a": {"version": "1"}}}]}, 'spec.devices[0].attributes[a].version: Invalid value: "1": must be a string compatible with semver.org spec 2.0.0'),
    ],
)  # fmt: skip
def test_bad_object_is_rejected(kind: str, change: dict[str, Any], error: str) -> None:
    assert error in made(kind, **change)[1]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("10.0.0.01", "must not have leading 0s"),
        ("fe80:0::1", 'must be in canonical form ("fe80::1")'),
        ("web", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ],
)
def test_name_of_an_address_is_canonical(name: str, error: str) -> None:
    _, errors = create(STRATEGIES["IPAddress"], {**ADDRESS, "metadata": {"name": name}}, namespace="")
    assert errors == [f'metadata.name: Invalid value: "{name}": {error}']


@pytest.mark.parametrize(
    ("kind", "patch", "error"),
    [
        ("CSIDriver", {"attachRequired": False}, "spec.attachedRequired: Invalid value: false: field is immutable"),
        ("CSINode", {"drivers": [{"name": "d.example.com", "nodeID": "j", "topologyKeys": []}]}, "field is immutable"),
        ("VolumeAttachment", {"nodeName": "m"}, "field is immutable"),
        ("ServiceCIDR", {"cidrs": ["10.0.0.0/24"]}, "field is immutable"),
        ("IPAddress", {"parentRef": {"name": "c"}}, "field is immutable"),
        ("ResourceClaim", {"devices": {"requests": []}}, "field is immutable"),
        ("ResourceClaimTemplate", {"spec": {"devices": {"requests": []}}}, "field is immutable"),
        ("ResourceSlice", {"driver": "e"}, "field is immutable"),
    ],
)
def test_fixed_field_cannot_change(kind: str, patch: dict[str, Any], error: str) -> None:
    stored, _ = made(kind)
    assert any(one.endswith(error) for one in update(STRATEGIES[kind], stored, {"spec": patch})[1])


def test_second_range_may_be_added() -> None:
    stored, _ = made("ServiceCIDR", cidrs=["10.0.0.0/24"])
    both = {"spec": {"cidrs": ["10.0.0.0/24", "2001:db8::/64"]}}
    assert update(STRATEGIES["ServiceCIDR"], stored, both)[1] == []


def test_defaults_are_those_of_upstream() -> None:
    assert made("CSIDriver")[0]["spec"] == {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False,
        "seLinuxMount": False,
        "volumeLifecycleModes": ["Persistent"],
    }
    assert made("FlowSchema")[0]["spec"]["matchingPrecedence"] == 1000
    queuing = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
    assert made("PriorityLevelConfiguration")[0]["spec"]["limited"] == {
        "nominalConcurrencyShares": 30,
        "lendablePercent": 0,
        "limitResponse": {"type": "Queue", "queuing": queuing},
    }
    (request,) = made("ResourceClaim")[0]["spec"]["devices"]["requests"]
    assert request["exactly"] == {"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": 1}


def test_mandatory_flow_control_cannot_change() -> None:
    level = STRATEGIES["PriorityLevelConfiguration"]
    document = {"metadata": {"name": "catch-all"}, "spec": LEVEL}
    assert create(level, document, namespace="")[1][0].endswith("spec of 'catch-all' must equal the fixed value")
    schema = {**GOOD["FlowSchema"], "metadata": {"name": "catch-all"}}
    errors = create(STRATEGIES["FlowSchema"], schema, namespace="")[1]
    assert errors[0].endswith("spec of 'catch-all' must equal the fixed value")


def test_allocation_of_a_claim_is_made_once() -> None:
    claim, strategy = made("ResourceClaim")[0], STRATEGIES["ResourceClaim"]
    user = {"resource": "pods", "name": "p", "uid": "u"}
    reserved = update_status(strategy, claim, {"status": {"reservedFor": [user]}})[1]
    assert reserved == ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"]
    result = {"request": "gpu", "driver": "d.example.com", "pool": "p", "device": "d"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    stored, errors = update_status(strategy, claim, {"status": status})
    assert errors == []
    other: dict[str, Any] = {"status": {"allocation": {"devices": {"results": []}}}}
    assert update_status(strategy, stored, other)[1][0].endswith("field is immutable")
