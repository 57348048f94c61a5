"""autoscaling/v1: what its fields cannot hold is kept in annotations, and comes back."""

import json
from typing import Any

import pytest

from pykubelet.kinds import horizontal_pod_autoscaler
from pykubelet.kinds.horizontal_pod_autoscaler_v1 import KIND, to_v1, to_v2
from strategy_calls import create

_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
_CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}
_VALUE = {"type": "AverageValue", "averageValue": "5"}
_OTHERS: list[dict[str, Any]] = [
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
    {
        "type": "ContainerResource",
        "containerResource": {
            "name": "cpu",
            "container": "app",
            "target": {"type": "Utilization", "averageUtilization": 60},
        },
    },
    {"type": "Pods", "pods": {"metric": {"name": "rps", "selector": {"matchLabels": {"a": "b"}}}, "target": _VALUE}},
    {
        "type": "Object",
        "object": {"metric": {"name": "rps"}, "describedObject": _TARGET, "target": {"type": "Value", "value": "9"}},
    },
    {"type": "External", "external": {"metric": {"name": "queue"}, "target": _VALUE}},
]


def _v2(**parts: Any) -> dict[str, Any]:
    head = {"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2"}
    metadata = {"name": "web", "namespace": "default", "annotations": {"mine": "kept"}}
    spec = {"scaleTargetRef": _TARGET, "maxReplicas": 5, **parts.get("spec", {})}
    return horizontal_pod_autoscaler.KIND.strategy.default(
        {**head, "metadata": metadata, "spec": spec, "status": parts.get("status", {})}
    )


def test_cpu_utilization_has_fields_of_its_own() -> None:
    current = {
        "type": "Resource",
        "resource": {"name": "cpu", "current": {"averageUtilization": 30, "averageValue": "3m"}},
    }
    found = to_v1(_v2(spec={"metrics": [_CPU]}, status={"currentMetrics": [current], "currentReplicas": 2}))
    assert found["apiVersion"] == "autoscaling/v1"
    assert found["spec"] == {
        "scaleTargetRef": _TARGET,
        "minReplicas": 1,
        "maxReplicas": 5,
        "targetCPUUtilizationPercentage": 70,
    }
    assert found["status"] == {"currentReplicas": 2, "desiredReplicas": 0, "currentCPUUtilizationPercentage": 30}
    notes = found["metadata"]["annotations"]
    assert json.loads(notes.pop("autoscaling.alpha.kubernetes.io/current-metrics")) == [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "currentAverageUtilization": 30, "currentAverageValue": "3m"},
        }
    ]
    assert notes == {"mine": "kept"}


@pytest.mark.parametrize("metrics", [[_CPU], [*_OTHERS, _CPU], *([other] for other in _OTHERS)])
def test_nothing_is_lost_in_version_1(metrics: list[dict[str, Any]]) -> None:
    conditions = [{"type": "AbleToScale", "status": "True", "reason": "x", "lastTransitionTime": None}]
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    whole = _v2(spec={"metrics": metrics, "behavior": behavior}, status={"conditions": conditions})
    assert to_v2(to_v1(whole)) == whole


@pytest.mark.parametrize("text", ["", "{", "7", '[{"type":"Pods"}]', '[{"type":"Odd","odd":{}}]', "[1]"])
def test_malformed_annotations_are_dropped(text: str) -> None:
    document = to_v1(_v2(spec={"metrics": [_CPU]}))
    notes = {f"autoscaling.alpha.kubernetes.io/{name}": text for name in ("metrics", "current-metrics", "behavior")}
    document["metadata"] = {**document["metadata"], "annotations": notes}
    found = to_v2(document)
    assert (found["spec"]["metrics"], "annotations" in found["metadata"]) == ([_CPU], False)


def test_rules_of_version_2_apply() -> None:
    spec = {"scaleTargetRef": _TARGET, "maxReplicas": 0, "targetCPUUtilizationPercentage": 0}
    _, messages = create(KIND.strategy, {"spec": spec})
    assert messages == [
        "spec.maxReplicas: Invalid value: 0: must be greater than 0",
        "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
        "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
    ]
