"""The strategies of priority classes, runtime classes and storage classes."""

from typing import Any

import pytest

from pykubelet.kinds import priority_class, runtime_class, storage_class
from strategy_calls import create, update

_PRIORITIES = priority_class.KIND.strategy
_RUNTIMES = runtime_class.KIND.strategy
_STORAGE = storage_class.KIND.strategy
_RESERVED = (
    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
)


@pytest.mark.parametrize(
    ("document", "messages"),
    [
        pytest.param({"value": -5}, [], id="low"),
        pytest.param(
            {"value": 1_000_000_001},
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
            id="high",
        ),
        pytest.param(
            {"value": 1, "preemptionPolicy": "Always"},
            [
                'preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never"',
            ],
            id="policy",
        ),
        pytest.param({"value": 1, "preemptionPolicy": ""}, ["preemptionPolicy: Required value"], id="no policy"),
        pytest.param({"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000}, [], id="system"),
        pytest.param(
            {"metadata": {"name": "system-node-critical"}, "value": 5},
            [f"{_RESERVED}value of system-node-critical PriorityClass must be 2000001000"],
            id="system value",
        ),
        pytest.param(
            {"metadata": {"name": "system-cluster-critical"}, "value": 2_000_000_000, "globalDefault": True},
            [f"{_RESERVED}globalDefault of system-cluster-critical PriorityClass must be false"],
            id="system default",
        ),
        pytest.param(
            {"metadata": {"name": "system-mine"}, "value": 5},
            [f"{_RESERVED}system-mine is not a known system priority class"],
            id="unknown system",
        ),
    ],
)
def test_priority_class_is_refused_when_its_name_or_value_is_reserved(
    document: dict[str, Any], messages: list[str]
) -> None:
    """Names and values above those for users are reserved for the system."""
    assert create(_PRIORITIES, document, namespace="")[1] == messages


def test_priority_class_is_refused_when_its_value_or_policy_changes() -> None:
    """Pods copy both, so a change would make them disagree."""
    stored, _ = create(_PRIORITIES, {"value": 1}, namespace="")
    assert stored["preemptionPolicy"] == "PreemptLowerPriority"
    new, messages = update(_PRIORITIES, stored, {"value": 2, "preemptionPolicy": "Never", "description": "d"})
    assert messages == [
        "value: Forbidden: may not be changed in an update.",
        'preemptionPolicy: Invalid value: "Never": field is immutable',
    ]
    assert new["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("document", "messages"),
    [
        pytest.param({"handler": "runc", "overhead": {"podFixed": {"cpu": "0.5"}}}, [], id="good"),
        pytest.param(
            {"handler": "a.b"},
            ['handler: Invalid value: "a.b": must not contain dots'],
            id="handler",
        ),
        pytest.param(
            {"handler": "h", "overhead": {"podFixed": {"gold": "1"}}},
            [
                'overhead.limits[gold]: Invalid value: "gold": must be a standard resource type or fully qualified',
                'overhead.limits[gold]: Invalid value: "gold": must be a standard resource for containers',
            ],
            id="overhead",
        ),
        pytest.param(
            {"handler": "h", "scheduling": {"tolerations": [{"key": "a", "operator": "Exists"}] * 2}},
            [
                'scheduling.tolerations[1]: Duplicate value: {"Key":"a","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}'
            ],
            id="tolerations",
        ),
        pytest.param(
            {"handler": "h", "scheduling": {"tolerations": [{"operator": "Is", "key": "a"}]}},
            [
                'scheduling.tolerations.tolerations[0].operator: Unsupported value: "Is": supported values: "Equal", "Exists"'
            ],
            id="operator",
        ),
    ],
)
def test_runtime_class_is_rejected_when_invalid(document: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's."""
    assert create(_RUNTIMES, document, namespace="")[1] == messages


def test_runtime_class_is_refused_when_its_handler_changes() -> None:
    stored, _ = create(_RUNTIMES, {"handler": "a"}, namespace="")
    assert update(_RUNTIMES, stored, {"handler": "b"})[1] == ['handler: Invalid value: "b": field is immutable']
    assert _RUNTIMES.allows_create_on_update
    assert not _RUNTIMES.allows_unconditional_update


def _topologies(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    return {"provisioner": "p", "allowedTopologies": [{"matchLabelExpressions": term} for term in terms]}


_ZONE = {"key": "zone", "values": ["a"]}
_TERM = "allowedTopologies[0].matchLabelExpressions"
_STORAGE_CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "good": ({"provisioner": "Example.com/Disk", "parameters": {"a": "b"}}, []),
    "no provisioner": ({}, ["provisioner: Required value"]),
    "policies": (
        {"provisioner": "p", "reclaimPolicy": "Recycle", "volumeBindingMode": "Later"},
        [
            'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"',
            'volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"',
        ],
    ),
    "empty parameter": (
        {"provisioner": "p", "parameters": {"": "b"}},
        ['parameters: Invalid value: "": field can not be empty.'],
    ),
    "big parameter": (
        {"provisioner": "p", "parameters": {"a": "b" * 256 * 1024}},
        ["parameters: Too long: may not be more than 262144 bytes"],
    ),
    "many parameters": (
        {"provisioner": "p", "parameters": {str(number): "" for number in range(513)}},
        ["parameters: Too long: may not be more than 512 bytes"],
    ),
    "zones": (_topologies([_ZONE], [{"key": "zone", "values": ["b"]}]), []),
    "same zones": (
        _topologies([_ZONE], [_ZONE]),
        ['allowedTopologies[1].matchLabelExpressions: Duplicate value: ""'],
    ),
    "empty term": (_topologies([]), [f'{_TERM}: Duplicate value: ""']),
    "values": (
        _topologies([{"key": "zone"}, {"key": "zone", "values": ["a", "a"]}]),
        [
            f"{_TERM}[0].values: Required value",
            f'{_TERM}[1].values[1]: Duplicate value: "a"',
            f'{_TERM}[1].key: Duplicate value: "zone"',
        ],
    ),
}


@pytest.mark.parametrize(("document", "messages"), _STORAGE_CASES.values(), ids=_STORAGE_CASES.keys())
def test_storage_class_is_rejected_when_invalid(document: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's."""
    assert create(_STORAGE, document, namespace="")[1] == messages


def test_storage_class_is_refused_when_an_immutable_field_changes() -> None:
    """Only fields that affect volumes created later may change."""
    stored, _ = create(_STORAGE, {"provisioner": "p"}, namespace="")
    assert (stored["reclaimPolicy"], stored["volumeBindingMode"]) == ("Delete", "Immediate")
    assert update(_STORAGE, stored, {"allowVolumeExpansion": True, "mountOptions": ["ro"]})[1] == []
    patch = {"provisioner": "q", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"}
    assert update(_STORAGE, stored, {**patch, "parameters": {"a": "b"}})[1] == [
        "parameters: Forbidden: updates to parameters are forbidden.",
        "provisioner: Forbidden: updates to provisioner are forbidden.",
        "reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden.",
        'volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable',
    ]
