"""The rules of HorizontalPodAutoscalers."""

from typing import Any

import pytest

from pykubelet.kinds.horizontal_pod_autoscaler import KIND
from strategy_calls import create, update, update_status

_HPA = KIND.strategy
_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}


def _autoscaler(*metrics: dict[str, Any], **spec: Any) -> dict[str, Any]:
    document = {"scaleTargetRef": _TARGET, "maxReplicas": 3, **spec}
    return {"spec": {**document, "metrics": list(metrics)} if metrics else document}


def test_autoscaler_uses_cpu_utilization_when_it_names_no_metric() -> None:
    """Behavior gets defaults only where some of it is given."""
    stored, messages = create(_HPA, _autoscaler())
    assert messages == []
    target = {"type": "Utilization", "averageUtilization": 80}
    assert stored["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    assert "behavior" not in stored["spec"]
    assert stored["status"] == {"desiredReplicas": 0, "currentMetrics": None}
    assert "generation" not in stored["metadata"]


def test_autoscaler_behaviour_is_completed_when_a_part_is_given() -> None:
    """Each direction has its own defaults; a tolerance is dropped because its feature is off."""
    behavior = {"scaleUp": {"stabilizationWindowSeconds": 5, "tolerance": "0.1"}}
    stored, messages = create(_HPA, _autoscaler(behavior=behavior))
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    assert messages == []
    assert stored["spec"]["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 5,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, percent],
        },
        "scaleDown": {"selectPolicy": "Max", "policies": [percent]},
    }


def _resource(**target: Any) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


_M = "spec.metrics[0]"
_CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "bounds": (
        _autoscaler(minReplicas=0, maxReplicas=-1),
        [
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
            "spec.maxReplicas: Invalid value: -1: must be greater than 0",
            "spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
        ],
    ),
    "at the limits": (
        _autoscaler(
            minReplicas=1,
            maxReplicas=1,
            behavior={
                "scaleUp": {"stabilizationWindowSeconds": 3600},
                "scaleDown": {
                    "stabilizationWindowSeconds": 0,
                    "policies": [
                        {"type": "Pods", "value": 1, "periodSeconds": 1800},
                        {"type": "Percent", "value": 1, "periodSeconds": 1},
                    ],
                },
            },
        ),
        [],
    ),
    "fewer at most than at least": (
        _autoscaler(minReplicas=4, maxReplicas=3),
        ["spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"],
    ),
    "target": (
        _autoscaler(scaleTargetRef={"kind": "a/b"}),
        [
            "spec.scaleTargetRef.kind: Invalid value: \"a/b\": may not contain '/'",
            "spec.scaleTargetRef.name: Required value",
            'spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group',
        ],
    ),
    "controller": (_autoscaler(scaleTargetRef={"kind": "ReplicationController", "name": "r", "apiVersion": "v1"}), []),
    "version": (
        _autoscaler(scaleTargetRef={**_TARGET, "apiVersion": "a/b/c"}),
        ['spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'],
    ),
    "no metric type": (
        _autoscaler({"type": ""}),
        [
            f"{_M}.type: Required value: must specify a metric source type",
            *[
                f'{_M}.type: Unsupported value: "": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"'
            ]
            * 2,
        ],
    ),
    "no source": (
        _autoscaler({"type": "Pods"}),
        [f"{_M}.pods: Required value: must populate information for the given metric source"],
    ),
    "two sources": (
        _autoscaler(
            {
                **_resource(type="Utilization", averageUtilization=50),
                "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}},
            }
        ),
        [f"{_M}.pods: Forbidden: must populate the given metric source only"],
    ),
    "target type": (
        _autoscaler(_resource(averageUtilization=0)),
        [
            f"{_M}.resource.target.type: Required value: must specify a metric target type",
            f'{_M}.resource.target.type: Invalid value: "": must be either Utilization, Value, or AverageValue',
            f"{_M}.resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
        ],
    ),
    "no target": (
        _autoscaler(_resource(type="Value", value="-1")),
        [
            f'{_M}.resource.target.value: Invalid value: "-1": must be positive',
            f"{_M}.resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization",
        ],
    ),
    "both targets": (
        _autoscaler(_resource(type="Utilization", averageUtilization=1, averageValue="1")),
        [f"{_M}.resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization"],
    ),
    "external": (
        _autoscaler({"type": "External", "external": {"target": {"type": "Value"}}}),
        [
            f"{_M}.external.metric.name: Required value: must specify a metric name",
            f"{_M}.external.target.averageValue: Required value: must set either a target value for metric or a per-pod target",
        ],
    ),
    "both external": (
        _autoscaler(
            {
                "type": "External",
                "external": {
                    "metric": {"name": "m"},
                    "target": {"type": "Value", "value": "1", "averageValue": "1"},
                },
            }
        ),
        [f"{_M}.external.target.value: Forbidden: may not set both a target value for metric and a per-pod target"],
    ),
    "pods": (
        _autoscaler({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue"}}}),
        [f"{_M}.pods.target.averageValue: Required value: must specify a positive target averageValue"],
    ),
    "object": (
        _autoscaler(
            {
                "type": "Object",
                "object": {
                    "metric": {"name": "m"},
                    "describedObject": {"kind": "Service", "name": "s", "apiVersion": "v1"},
                    "target": {"type": "Value"},
                },
            }
        ),
        [f"{_M}.object.target.averageValue: Required value: must set either a target value or averageValue"],
    ),
    "container": (
        _autoscaler(
            {
                "type": "ContainerResource",
                "containerResource": {"name": "gold", "target": {"type": "AverageValue", "averageValue": "1"}},
            }
        ),
        [
            f'{_M}.containerResource.name: Invalid value: "gold": must be a standard resource type or fully qualified',
            f'{_M}.containerResource.name: Invalid value: "gold": must be a standard resource for containers',
            f"{_M}.containerResource.container: Required value: must specify a container",
        ],
    ),
    "container of no resource": (
        _autoscaler(
            {
                "type": "ContainerResource",
                "containerResource": {"container": "c", "target": {"type": "Utilization", "averageUtilization": 1}},
            }
        ),
        [f"{_M}.containerResource.name: Required value: must specify a resource name"],
    ),
    "no policies": (
        _autoscaler(behavior={"scaleUp": {"stabilizationWindowSeconds": -1}}),
        ["spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero"],
    ),
    "behaviour": (
        _autoscaler(
            behavior={
                "scaleUp": {
                    "stabilizationWindowSeconds": 3601,
                    "selectPolicy": "Any",
                    "policies": [{"type": "Cores", "value": 0, "periodSeconds": 1801}],
                }
            }
        ),
        [
            "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
            'spec.behavior.scaleUp.selectPolicy: Unsupported value: "Any": supported values: "Disabled", "Max", "Min"',
            'spec.behavior.scaleUp.policies[0].type: Unsupported value: "Cores": supported values: "Percent", "Pods"',
            "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
            "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
        ],
    ),
}


@pytest.mark.parametrize(("document", "messages"), _CASES.values(), ids=_CASES.keys())
def test_autoscaler_is_rejected_when_invalid(document: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's."""
    assert create(_HPA, document)[1] == messages


def test_tolerance_is_kept_only_where_one_was_stored() -> None:
    """The field belongs to a feature that is off by default."""
    plain, _ = create(_HPA, _autoscaler(behavior={"scaleUp": {"stabilizationWindowSeconds": 5}}))
    changed, _ = update(_HPA, plain, {"spec": {"behavior": {"scaleDown": {"tolerance": "0.2"}}}})
    assert "tolerance" not in changed["spec"]["behavior"]["scaleDown"]
    behavior = {**plain["spec"]["behavior"], "scaleUp": {**plain["spec"]["behavior"]["scaleUp"], "tolerance": "0.1"}}
    stored = plain | {"spec": plain["spec"] | {"behavior": behavior}}
    changed, messages = update(_HPA, stored, {"spec": {"behavior": {"scaleDown": {"tolerance": "0.2"}}}})
    assert [changed["spec"]["behavior"][name]["tolerance"] for name in ("scaleUp", "scaleDown")] == ["100m", "200m"]
    assert messages == []


def test_autoscaler_with_an_old_target_can_still_be_changed() -> None:
    """An unchanged target is not validated again."""
    stored, _ = create(_HPA, _autoscaler())
    older = {**stored, "spec": {**stored["spec"], "scaleTargetRef": {**_TARGET, "apiVersion": "v1"}}}
    new, messages = update(_HPA, older, {"spec": {"maxReplicas": 9}, "status": {"desiredReplicas": 4}})
    assert (messages, new["status"]["desiredReplicas"]) == ([], 0)
    changed = update(_HPA, stored, {"spec": {"scaleTargetRef": {"apiVersion": "v1"}}})[1]
    assert changed == ['spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group']
    renamed = update(_HPA, older, {"spec": {"scaleTargetRef": {"kind": "ReplicaSet"}}})[1]
    assert renamed == changed


def test_autoscaler_status_is_refused_when_a_count_is_negative() -> None:
    """The spec does not change."""
    stored, _ = create(_HPA, _autoscaler())
    new, messages = update_status(_HPA, stored, {"spec": {"maxReplicas": 9}, "status": {"desiredReplicas": -1}})
    assert messages == ["status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0"]
    assert new["spec"] == stored["spec"]
