"""HorizontalPodAutoscaler: scales a workload by its metrics.

Upstream: pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go, pkg/apis/autoscaling/v2/defaults.go,
pkg/apis/autoscaling/validation/validation.go, pkg/printers/internalversion/printers.go
"""

from collections.abc import Callable, Sequence
from typing import Any

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    each_invalid,
    forbidden,
    invalid,
    items_errors,
    not_supported,
    required,
)
from pykubelet.api.names import dns1123_label_errors, path_segment_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import NONE, UNKNOWN, UNSET, at, created, name_of, quantity_text
from pykubelet.kinds.kind import Kind, Strategy, restore_spec, restore_status, without_fields
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors
from pykubelet.kinds.replicas import counts_errors
from pykubelet.kinds.resources import container_resource_name_errors
from pykubelet.kinds.rules import POSITIVE, OneOf

_SOURCE_TYPES = OneOf(("ContainerResource", "External", "Object", "Pods", "Resource"))
_TARGET_TYPES = ("Utilization", "Value", "AverageValue")
# In upstream's order; only the first one present is validated.
_SOURCES = ("object", "external", "pods", "resource", "containerResource")
_MAX_PERIOD_SECONDS = 1800
_MAX_WINDOW_SECONDS = 3600
_SELECT_POLICIES = OneOf(("Disabled", "Max", "Min"))
_POLICY_TYPES = OneOf(("Percent", "Pods"))
_CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
# The current metrics are written even if there are none.
_NO_METRICS: Document = {"currentMetrics": None}
_SCALE_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
_SHOWN = 2


def _default(document: Document) -> Document:
    normal = normal_form(document, "autoscaling.v2.HorizontalPodAutoscaler")
    filled = {"minReplicas": 1, "metrics": [_CPU], **normal["spec"]}
    if (behavior := filled.get("behavior")) is not None:
        filled["behavior"] = {
            "scaleUp": {**_SCALE_UP, **behavior.get("scaleUp", {})},
            "scaleDown": {**_SCALE_DOWN, **behavior.get("scaleDown", {})},
        }
    return {**normal, "spec": filled, "status": {**_NO_METRICS, **normal["status"]}}


def _prepare_create(document: Document) -> Document:
    status = normal_form({}, "autoscaling.v2.HorizontalPodAutoscalerStatus")
    return {**_without_tolerances(document), "status": {**_NO_METRICS, **status}}


def _without_tolerances(document: Document) -> Document:
    """The document without the tolerances, which 1.34 keeps only in objects that have them already."""
    behavior = document["spec"].get("behavior")
    if behavior is None:
        return document
    kept = {side: without_fields(rules, "tolerance") for side, rules in behavior.items()}
    return {**document, "spec": {**document["spec"], "behavior": kept}}


def _validate_create(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"]) + _spec_errors(document["spec"], {}, "spec")


def _spec_errors(spec: Document, before: Document, path: str) -> list[FieldError]:
    least, most, target = spec["minReplicas"], spec["maxReplicas"], spec["scaleTargetRef"]
    lowest = 0 if before.get("minReplicas") == 0 else 1
    errors: list[FieldError] = []
    if least < lowest:
        errors.append(invalid(f"{path}.minReplicas", least, f"must be greater than or equal to {lowest}"))
    if most < 1:
        errors.append(invalid(f"{path}.maxReplicas", most, "must be greater than 0"))
    if most < least:
        errors.append(invalid(f"{path}.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    is_same = all(target.get(name) == before.get("scaleTargetRef", {}).get(name, "") for name in ("apiVersion", "kind"))
    errors += object_reference_errors(
        target,
        f"{path}.scaleTargetRef",
        needs_group=target["kind"] != "ReplicationController",
        check_version=not (before and is_same),
    )
    errors += metrics_errors(spec["metrics"], least, f"{path}.metrics")
    for side in ("scaleUp", "scaleDown"):
        if rules := spec.get("behavior", {}).get(side):
            errors += _rules_errors(rules, f"{path}.behavior.{side}")
    return errors


def object_reference_errors(
    reference: Document, path: str, *, needs_group: bool, check_version: bool = True
) -> list[FieldError]:
    """Validates a reference to an object of any kind."""
    errors: list[FieldError] = []
    for name in ("kind", "name"):
        value, at = reference[name], f"{path}.{name}"
        errors += each_invalid(at, value, path_segment_errors(value)) if value else [required(at)]
    version = reference.get("apiVersion", "")
    problem = api_version_problem(version, needs_group=needs_group) if check_version else None
    return errors if problem is None else [*errors, invalid(f"{path}.apiVersion", version, problem)]


def api_version_problem(version: str, *, needs_group: bool) -> str | None:
    """The problem with an apiVersion; None if it is valid."""
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    has_group = version.count("/") == 1 and not version.startswith("/")
    return "apiVersion must specify API group" if needs_group and not has_group else None


def metrics_errors(metrics: Sequence[Document], min_replicas: int | None, path: str) -> list[FieldError]:
    """Validates the metrics; scaling to zero requires an object or external metric."""
    errors = items_errors(metrics, _metric_errors, path)
    if min_replicas == 0 and not any(metric["type"] in {"Object", "External"} for metric in metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden(path, detail))
    return errors


def _metric_errors(metric: Document, path: str) -> list[FieldError]:
    kind = metric["type"]
    errors = [] if kind else [required(f"{path}.type", "must specify a metric source type")]
    errors += _SOURCE_TYPES.errors(kind, f"{path}.type")
    present = [name for name in _SOURCES if name in metric]
    if present:
        errors += _RULES[present[0]](metric[present[0]], f"{path}.{present[0]}")
    expected = _field_of(kind)
    if kind not in _SOURCE_TYPES.values:
        expected = ""
        errors.append(not_supported(f"{path}.type", TypedString(kind), _SOURCE_TYPES.values))
    elif expected not in metric:
        errors.append(required(f"{path}.{expected}", "must populate information for the given metric source"))
    if len(present) > 1:
        errors += [
            forbidden(f"{path}.{name}", "must populate the given metric source only")
            for name in present
            if name != expected
        ]
    return errors


def _field_of(kind: str) -> str:
    """The field of a metric source: `containerResource` for `ContainerResource`."""
    return kind[:1].lower() + kind[1:]


def _object_errors(source: Document, path: str) -> list[FieldError]:
    reference = object_reference_errors(source["describedObject"], f"{path}.describedObject", needs_group=False)
    errors = reference + _metric_and_target_errors(source, path)
    if not {"value", "averageValue"} & set(source["target"]):
        errors.append(required(f"{path}.target.averageValue", "must set either a target value or averageValue"))
    return errors


def _metric_and_target_errors(source: Document, path: str) -> list[FieldError]:
    name, at = source["metric"]["name"], f"{path}.metric.name"
    errors = each_invalid(at, name, path_segment_errors(name)) if name else [required(at, "must specify a metric name")]
    return errors + _target_errors(source["target"], f"{path}.target")


def _target_errors(target: Document, path: str) -> list[FieldError]:
    kind, utilization = target["type"], target.get("averageUtilization")
    errors = [] if kind else [required(f"{path}.type", "must specify a metric target type")]
    if kind not in _TARGET_TYPES:
        errors.append(invalid(f"{path}.type", TypedString(kind), "must be either Utilization, Value, or AverageValue"))
    errors += [
        invalid(f"{path}.{name}", TypedString(target[name]), "must be positive")
        for name in ("value", "averageValue")
        if name in target and parse_quantity(target[name]).sign() <= 0
    ]
    return errors + POSITIVE.errors(utilization, f"{path}.averageUtilization")


def _external_errors(source: Document, path: str) -> list[FieldError]:
    errors, target = _metric_and_target_errors(source, path), source["target"]
    if "value" not in target and "averageValue" not in target:
        detail = "must set either a target value for metric or a per-pod target"
        errors.append(required(f"{path}.target.averageValue", detail))
    if "value" in target and "averageValue" in target:
        detail = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(f"{path}.target.value", detail))
    return errors


def _pods_errors(source: Document, path: str) -> list[FieldError]:
    errors = _metric_and_target_errors(source, path)
    if "averageValue" not in source["target"]:
        errors.append(required(f"{path}.target.averageValue", "must specify a positive target averageValue"))
    return errors


def _resource_errors(source: Document, path: str) -> list[FieldError]:
    errors = [] if source["name"] else [required(f"{path}.name", "must specify a resource name")]
    return errors + _utilization_errors(source["target"], f"{path}.target")


def _utilization_errors(target: Document, path: str) -> list[FieldError]:
    errors = _target_errors(target, path)
    if "averageUtilization" not in target and "averageValue" not in target:
        detail = "must set either a target raw value or a target utilization"
        errors.append(required(f"{path}.averageUtilization", detail))
    if "averageUtilization" in target and "averageValue" in target:
        errors.append(forbidden(f"{path}.averageValue", "may not set both a target raw value and a target utilization"))
    return errors


def _container_resource_errors(source: Document, path: str) -> list[FieldError]:
    name, container = source["name"], source["container"]
    errors = [required(f"{path}.name", "must specify a resource name")]
    if name:
        errors = container_resource_name_errors(name, f"{path}.name")
    if container:
        errors += each_invalid(f"{path}.container", container, dns1123_label_errors(container))
    else:
        errors.append(required(f"{path}.container", "must specify a container"))
    return errors + _utilization_errors(source["target"], f"{path}.target")


_RULES: dict[str, Callable[[Document, str], list[FieldError]]] = {
    "object": _object_errors,
    "external": _external_errors,
    "pods": _pods_errors,
    "resource": _resource_errors,
    "containerResource": _container_resource_errors,
}


def _rules_errors(rules: Document, path: str) -> list[FieldError]:
    window = rules.get("stabilizationWindowSeconds")
    errors: list[FieldError] = []
    if window is not None and window < 0:
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"))
    if window is not None and window > _MAX_WINDOW_SECONDS:
        detail = f"must be less than or equal to {_MAX_WINDOW_SECONDS}"
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, detail))
    errors += _SELECT_POLICIES.errors(rules["selectPolicy"], f"{path}.selectPolicy")
    return errors + items_errors(rules["policies"], _policy_errors, f"{path}.policies")


def _policy_errors(policy: Document, path: str) -> list[FieldError]:
    period = policy["periodSeconds"]
    errors = _POLICY_TYPES.errors(policy["type"], f"{path}.type")
    errors += [
        invalid(f"{path}.{name}", policy[name], "must be greater than zero")
        for name in ("value", "periodSeconds")
        if policy[name] <= 0
    ]
    if period > _MAX_PERIOD_SECONDS:
        errors.append(invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_MAX_PERIOD_SECONDS}"))
    return errors


def _prepare_update(new: Document, old: Document) -> Document:
    in_use = any("tolerance" in rules for rules in old["spec"].get("behavior", {}).values())
    return restore_status(new if in_use else _without_tolerances(new), old)


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return metadata_update_errors(new["metadata"], old["metadata"]) + _spec_errors(new["spec"], old["spec"], "spec")


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    return errors + counts_errors(new["status"], "status", ("currentReplicas", "desiredReplicas"))


def cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, reference, targets, min pods, max pods, replicas, age."""
    spec, status = at(document, "spec"), at(document, "status")
    target = at(spec, "scaleTargetRef")
    least = spec.get("minReplicas")
    return [
        name_of(document),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(spec.get("metrics") or [], status.get("currentMetrics") or []),
        UNSET if least is None else str(least),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        created(document, age),
    ]


def _metrics(specs: list[Document], statuses: list[Document]) -> str:
    if not specs:
        return NONE
    texts = [_metric(spec, statuses[index] if index < len(statuses) else {}) for index, spec in enumerate(specs)]
    more = f" + {len(texts) - _SHOWN} more..." if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


def _metric(spec: Document, status: Document) -> str:
    if (kind := spec.get("type", "")) not in _SOURCE_TYPES.values:
        return "<unknown type>"
    source = _field_of(kind)
    target = at(spec, source, "target")
    observed = status.get(source)
    current = at(observed or {}, "current")
    if source in {"resource", "containerResource"}:
        name = at(spec, source).get("name", "")
        if target.get("averageValue") is not None:
            return f"{name}: {_current(observed, current, 'averageValue')}/{_amount(target.get('averageValue'))}"
        return f"{name}: {_percent(current, UNKNOWN)}/{_percent(target, '<auto>')}"
    if source == "pods":
        return f"{_current(observed, current, 'averageValue')}/{_amount(target.get('averageValue'))}"
    if target.get("averageValue") is not None:
        value = current.get("averageValue")
        return f"{UNKNOWN if value is None else _amount(value)}/{_amount(target['averageValue'])} (avg)"
    return f"{_current(observed, current, 'value')}/{_amount(target.get('value'))}"


def _current(observed: Document | None, current: Document, key: str) -> str:
    return UNKNOWN if observed is None else _amount(current.get(key))


def _amount(value: Any) -> str:
    return "<nil>" if value is None else quantity_text(value)


def _percent(values: Document, missing: str) -> str:
    value = values.get("averageUtilization")
    return missing if value is None else f"{value}%"


KIND = Kind(
    resource=Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    definition="autoscaling.v2.HorizontalPodAutoscaler",
    short_names=("hpa",),
    categories=("all",),
    subresources=("status",),
    strategy=Strategy(
        default=_default,
        prepare_create=_prepare_create,
        validate_create=_validate_create,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
        prepare_status=restore_spec,
        validate_status=_validate_status,
    ),
    cells=cells,
)
