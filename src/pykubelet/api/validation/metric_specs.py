"""Complaints about the metrics that a horizontal pod autoscaler follows, and about what it refers to.

Upstream: validateMetrics and ValidateCrossVersionObjectReference in pkg/apis/autoscaling/validation/validation.go
"""

from collections.abc import Callable, Sequence

from pykubelet.api.names import dns1123_label_errors, path_segment_errors
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.validation.field_errors import (
    FieldError,
    Named,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.validation.resources import container_resource_name_errors
from pykubelet.api.wire import Document

_SOURCE_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_TARGET_TYPES = ("Utilization", "Value", "AverageValue")
# In the order in which upstream looks for them; only the first that is there is looked at.
_SOURCES = ("object", "external", "pods", "resource", "containerResource")
_EITHER_VALUE = "must set either a target value for metric or a per-pod target"


def metrics_errors(metrics: Sequence[Document], min_replicas: int | None, path: str) -> list[FieldError]:
    """What is wrong with the metrics; scaling to zero needs one that exists without pods."""
    errors: list[FieldError] = []
    for index, metric in enumerate(metrics):
        errors += _metric_errors(metric, f"{path}[{index}]")
    if min_replicas == 0 and not any(metric["type"] in {"Object", "External"} for metric in metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden(path, detail))
    return errors


def object_reference_errors(
    reference: Document, path: str, *, needs_group: bool, check_version: bool = True
) -> list[FieldError]:
    """What is wrong with a reference to an object of any kind."""
    errors: list[FieldError] = []
    for name in ("kind", "name"):
        value, at = reference[name], f"{path}.{name}"
        errors += each_invalid(at, value, path_segment_errors(value)) if value else [required(at)]
    version = reference.get("apiVersion", "")
    problem = api_version_problem(version, needs_group=needs_group) if check_version else None
    return errors if problem is None else [*errors, invalid(f"{path}.apiVersion", version, problem)]


def api_version_problem(version: str, *, needs_group: bool) -> str | None:
    """What is wrong with a version and the group before it."""
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    has_group = version.count("/") == 1 and not version.startswith("/")
    return "apiVersion must specify API group" if needs_group and not has_group else None


def _metric_errors(metric: Document, path: str) -> list[FieldError]:
    kind = metric["type"]
    errors = [] if kind else [required(f"{path}.type", "must specify a metric source type")]
    if kind not in _SOURCE_TYPES:
        errors.append(not_supported(f"{path}.type", Named(kind), _SOURCE_TYPES))
    present = [name for name in _SOURCES if name in metric]
    if present:
        errors += _RULES[present[0]](metric[present[0]], f"{path}.{present[0]}")
    expected = kind[:1].lower() + kind[1:]
    if kind not in _SOURCE_TYPES:
        expected = ""
        errors.append(not_supported(f"{path}.type", Named(kind), _SOURCE_TYPES))
    elif expected not in metric:
        errors.append(required(f"{path}.{expected}", "must populate information for the given metric source"))
    if len(present) > 1:
        errors += [
            forbidden(f"{path}.{name}", "must populate the given metric source only")
            for name in present
            if name != expected
        ]
    return errors


def _object_errors(source: Document, path: str) -> list[FieldError]:
    reference = object_reference_errors(source["describedObject"], f"{path}.describedObject", needs_group=False)
    errors = reference + _measured_errors(source, path)
    if not {"value", "averageValue"} & set(source["target"]):
        errors.append(required(f"{path}.target.averageValue", "must set either a target value or averageValue"))
    return errors


def _external_errors(source: Document, path: str) -> list[FieldError]:
    errors, target = _measured_errors(source, path), source["target"]
    if "value" not in target and "averageValue" not in target:
        errors.append(required(f"{path}.target.averageValue", _EITHER_VALUE))
    if "value" in target and "averageValue" in target:
        detail = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(f"{path}.target.value", detail))
    return errors


def _pods_errors(source: Document, path: str) -> list[FieldError]:
    errors = _measured_errors(source, path)
    if "averageValue" not in source["target"]:
        errors.append(required(f"{path}.target.averageValue", "must specify a positive target averageValue"))
    return errors


def _resource_errors(source: Document, path: str) -> list[FieldError]:
    errors = [] if source["name"] else [required(f"{path}.name", "must specify a resource name")]
    return errors + _utilization_errors(source["target"], f"{path}.target")


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


def _measured_errors(source: Document, path: str) -> list[FieldError]:
    name, at = source["metric"]["name"], f"{path}.metric.name"
    errors = each_invalid(at, name, path_segment_errors(name)) if name else [required(at, "must specify a metric name")]
    return errors + _target_errors(source["target"], f"{path}.target")


def _utilization_errors(target: Document, path: str) -> list[FieldError]:
    errors = _target_errors(target, path)
    if "averageUtilization" not in target and "averageValue" not in target:
        detail = "must set either a target raw value or a target utilization"
        errors.append(required(f"{path}.averageUtilization", detail))
    if "averageUtilization" in target and "averageValue" in target:
        detail = "may not set both a target raw value and a target utilization"
        errors.append(forbidden(f"{path}.averageValue", detail))
    return errors


def _target_errors(target: Document, path: str) -> list[FieldError]:
    kind, utilization = target["type"], target.get("averageUtilization")
    errors = [] if kind else [required(f"{path}.type", "must specify a metric target type")]
    if kind not in _TARGET_TYPES:
        errors.append(invalid(f"{path}.type", Named(kind), "must be either Utilization, Value, or AverageValue"))
    errors += [
        invalid(f"{path}.{name}", Named(target[name]), "must be positive")
        for name in ("value", "averageValue")
        if name in target and parse_quantity(target[name]).sign() <= 0
    ]
    if utilization is not None and utilization < 1:
        errors.append(invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))
    return errors


_RULES: dict[str, Callable[[Document, str], list[FieldError]]] = {
    "object": _object_errors,
    "external": _external_errors,
    "pods": _pods_errors,
    "resource": _resource_errors,
    "containerResource": _container_resource_errors,
}
