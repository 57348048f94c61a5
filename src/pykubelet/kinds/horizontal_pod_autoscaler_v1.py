"""HorizontalPodAutoscaler of autoscaling/v1, which old clients and `kubectl autoscale` use.

Objects are stored as autoscaling/v2, and its rules apply. Version 1 has fields for a CPU utilisation only; everything
else is in annotations while an object is served in version 1, so that nothing is lost when it is written back.

Upstream: pkg/apis/autoscaling/v1/conversion.go, pkg/apis/autoscaling/annotations.go, pkg/apis/autoscaling/v1/defaults.go
"""

import json
from typing import Any

from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds import horizontal_pod_autoscaler
from pykubelet.kinds.kind import Kind, StoredForm, Strategy, UpdateChange, UpdateCheck, without_fields

_V1 = "autoscaling.v1.HorizontalPodAutoscaler"
_V2 = "autoscaling.v2.HorizontalPodAutoscaler"
_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR = (
    f"{_PREFIX}{name}" for name in ("metrics", "current-metrics", "conditions", "behavior")
)
_RULES = horizontal_pod_autoscaler.KIND.strategy
# For each type of metric: the field that names the metric in version 1, and the one of its selector.
_NAMES = {
    "resource": ("name", ""),
    "containerResource": ("name", ""),
    "pods": ("metricName", "selector"),
    "object": ("metricName", "selector"),
    "external": ("metricName", "metricSelector"),
}
_VALUES = ("averageUtilization", "averageValue", "value")
_TYPES = {"averageUtilization": "Utilization", "averageValue": "AverageValue", "value": "Value"}


def to_v1(document: Document) -> Document:
    """Converts an autoscaler of version 2 to version 1."""
    spec, status, metadata = document["spec"], document["status"], document["metadata"]
    cpu = next((metric for metric in spec.get("metrics") or () if _is_cpu(metric)), None)
    others = [metric for metric in spec.get("metrics") or () if not _is_cpu(metric)]
    now = status.get("currentMetrics") or []
    kept = {
        _METRICS: [_metric_to_v1(metric, "target") for metric in others],
        _CURRENT: [_metric_to_v1(metric, "current") for metric in now if metric.get("type")],
        _CONDITIONS: status.get("conditions"),
        _BEHAVIOR: spec.get("behavior"),
    }
    notes = {**_without_own(metadata), **{name: json.dumps(value) for name, value in kept.items() if value}}
    converted = {
        "spec": without_fields(spec, "metrics", "behavior"),
        "status": without_fields(status, "currentMetrics", "conditions"),
    }
    if cpu is not None:
        converted["spec"]["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"]
    used = (_utilization(metric) for metric in now)
    if (utilization := next((one for one in used if one is not None), None)) is not None:
        converted["status"]["currentCPUUtilizationPercentage"] = utilization
    return normal_form({**document, **converted, **_head(_V1, metadata, notes)}, _V1)


def to_v2(document: Document) -> Document:
    """Converts an autoscaler of version 1 to version 2. Annotations that cannot be read are dropped."""
    spec, status, metadata = document["spec"], document["status"], document["metadata"]
    metrics = [_metric_to_v2(metric, "target") for metric in _noted(metadata, _METRICS, list)]
    if (percentage := spec.get("targetCPUUtilizationPercentage")) is not None:
        target = {"type": "Utilization", "averageUtilization": percentage}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    converted = {
        "spec": without_fields(spec, "targetCPUUtilizationPercentage"),
        "status": without_fields(status, "currentCPUUtilizationPercentage"),
    }
    if metrics:
        converted["spec"]["metrics"] = metrics
    if behavior := _noted(metadata, _BEHAVIOR, dict):
        converted["spec"]["behavior"] = behavior
    if current := [_metric_to_v2(metric, "current") for metric in _noted(metadata, _CURRENT, list)]:
        converted["status"]["currentMetrics"] = current
    if conditions := _noted(metadata, _CONDITIONS, list):
        converted["status"]["conditions"] = conditions
    return _RULES.default({**document, **converted, **_head(_V2, metadata, _without_own(metadata))})


def _is_cpu(metric: Document) -> bool:
    source = metric.get("resource") or {}
    return source.get("name") == "cpu" and source.get("target", {}).get("averageUtilization") is not None


def _utilization(metric: Document) -> int | None:
    """The current CPU utilisation, if this is the status of such a metric."""
    source = metric.get("resource") or {}
    found: int | None = source.get("current", {}).get("averageUtilization") if source.get("name") == "cpu" else None
    return found


def _metric_to_v1(metric: Document, part: str) -> Document:
    """A metric's spec (`target`) or status (`current`), as version 1 writes it: its values have the part's prefix."""
    source = _source_of(metric["type"])
    inner = metric[source]
    name, selector = _NAMES[source]
    found: Document = {name: inner.get("name") or inner.get("metric", {}).get("name", "")}
    if inner.get("metric", {}).get("selector") is not None:
        found[selector] = inner["metric"]["selector"]
    if "container" in inner:
        found["container"] = inner["container"]
    if "describedObject" in inner:
        found["target"] = inner["describedObject"]
    values = inner.get(part, {})
    found |= {_value_name(source, part, value): values[value] for value in _VALUES if value in values}
    return {"type": metric["type"], source: found}


def _metric_to_v2(metric: Document, part: str) -> Document:
    source = _source_of(metric["type"])
    inner = metric[source]
    name, selector = _NAMES[source]
    values = {value: inner[old] for value in _VALUES if (old := _value_name(source, part, value)) in inner}
    if part == "target":
        # The type of a target is which of its values is set.
        values["type"] = next((kind for value, kind in _TYPES.items() if value in values), "")
    found: Document = {part: values}
    if selector:
        found["metric"] = {"name": inner.get(name, "")}
        if selector in inner:
            found["metric"]["selector"] = inner[selector]
    else:
        found["name"] = inner.get(name, "")
    if "container" in inner:
        found["container"] = inner["container"]
    if source == "object":
        found["describedObject"] = inner.get("target", {})
    return {"type": metric["type"], source: found}


def _source_of(kind: str) -> str:
    return kind[:1].lower() + kind[1:]


def _value_name(source: str, part: str, value: str) -> str:
    """The name of a value in version 1: `targetAverageValue`, but `averageValue` for objects."""
    return value if source == "object" and value == "averageValue" else f"{part}{value[0].upper()}{value[1:]}"


def _noted(metadata: Document, name: str, kind: type[list[Any]] | type[Document]) -> Any:
    """The value of one of the annotations; empty if there is none, or it is malformed."""
    try:
        value = json.loads(metadata.get("annotations", {}).get(name, "null"))
    except ValueError:
        return kind()
    if not isinstance(value, kind):
        return kind()
    if isinstance(value, list) and name != _CONDITIONS:
        return [one for one in value if _is_metric(one)]
    return value


def _is_metric(value: Any) -> bool:
    source = _source_of(str(value.get("type", ""))) if isinstance(value, dict) else ""
    return source in _NAMES and isinstance(value.get(source), dict)


def _without_own(metadata: Document) -> dict[str, str]:
    own = (_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR)
    return {name: value for name, value in metadata.get("annotations", {}).items() if name not in own}


def _head(definition: str, metadata: Document, annotations: Document) -> Document:
    group, version, kind = definition.split(".")
    rest = without_fields(metadata, "annotations")
    noted = {**rest, "annotations": annotations} if annotations else rest
    return {"kind": kind, "apiVersion": f"{group}/{version}", "metadata": noted}


def _default(document: Document) -> Document:
    normal = normal_form(document, _V1)
    return {**normal, "spec": {"minReplicas": 1, **normal["spec"]}}


def _change(rule: UpdateChange) -> UpdateChange:
    return lambda new, old: to_v1(rule(to_v2(new), to_v2(old)))


def _check(rule: UpdateCheck) -> UpdateCheck:
    return lambda new, old: rule(to_v2(new), to_v2(old))


def _cells(document: Document, age: Age) -> list[Any]:
    # A watch's bookmark has only metadata.
    return horizontal_pod_autoscaler.cells(to_v2(document) if "spec" in document else document, age)


KIND = Kind(
    resource=Resource("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    definition=_V1,
    short_names=("hpa",),
    categories=("all",),
    subresources=("status",),
    strategy=Strategy(
        default=_default,
        prepare_create=lambda document: to_v1(_RULES.prepare_create(to_v2(document))),
        validate_create=lambda document: _RULES.validate_create(to_v2(document)),
        prepare_update=_change(_RULES.prepare_update),
        validate_update=_check(_RULES.validate_update),
        prepare_status=_change(_RULES.prepare_status),
        validate_status=_check(_RULES.validate_status),
    ),
    cells=_cells,
    stored=StoredForm(to_served=to_v1, to_stored=to_v2),
)
