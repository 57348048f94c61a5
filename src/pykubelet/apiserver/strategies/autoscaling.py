"""The rules of HorizontalPodAutoscalers.

Upstream: pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go, pkg/apis/autoscaling/v2/defaults.go,
pkg/apis/autoscaling/validation/validation.go
"""

from pykubelet.api.normal_form import normal_form
from pykubelet.api.validation.field_errors import FieldError, Named, invalid, not_supported
from pykubelet.api.validation.metadata import metadata_errors
from pykubelet.api.validation.metadata_update import metadata_update_errors
from pykubelet.api.validation.metric_specs import metrics_errors, object_reference_errors
from pykubelet.api.wire import Document
from pykubelet.apiserver.served import Strategy
from pykubelet.apiserver.strategies.spec_and_status import with_part_of
from pykubelet.apiserver.strategies.status_counts import counts_errors

_MAX_PERIOD_SECONDS = 1800
_MAX_WINDOW_SECONDS = 3600
_SELECT_POLICIES = ("Disabled", "Max", "Min")
_POLICY_TYPES = ("Percent", "Pods")
_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
# What is measured is written even where there is nothing.
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


def _prepare_update(new: Document, old: Document) -> Document:
    rules = old["spec"].get("behavior", {}).values()
    in_use = any("tolerance" in each for each in rules)
    return with_part_of(new if in_use else _without_tolerances(new), old, "status")


def _prepare_status(new: Document, old: Document) -> Document:
    return with_part_of(new, old, "spec")


def _without_tolerances(document: Document) -> Document:
    """The document without a field that 1.34 keeps only where it stands already."""
    behavior = document["spec"].get("behavior")
    if behavior is None:
        return document
    kept = {
        side: {name: value for name, value in rules.items() if name != "tolerance"} for side, rules in behavior.items()
    }
    return {**document, "spec": {**document["spec"], "behavior": kept}}


def _validate_create(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"]) + _spec_errors(document["spec"], {}, "spec")


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    return errors + _spec_errors(new["spec"], old["spec"], "spec")


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


def _rules_errors(rules: Document, path: str) -> list[FieldError]:
    window, select, policies = rules.get("stabilizationWindowSeconds"), rules["selectPolicy"], rules["policies"]
    errors: list[FieldError] = []
    if window is not None and window < 0:
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"))
    if window is not None and window > _MAX_WINDOW_SECONDS:
        detail = f"must be less than or equal to {_MAX_WINDOW_SECONDS}"
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, detail))
    if select not in _SELECT_POLICIES:
        errors.append(not_supported(f"{path}.selectPolicy", Named(select), _SELECT_POLICIES))
    for index, policy in enumerate(policies):
        errors += _policy_errors(policy, f"{path}.policies[{index}]")
    return errors


def _policy_errors(policy: Document, path: str) -> list[FieldError]:
    kind, period = policy["type"], policy["periodSeconds"]
    errors = [] if kind in _POLICY_TYPES else [not_supported(f"{path}.type", Named(kind), _POLICY_TYPES)]
    errors += [
        invalid(f"{path}.{name}", policy[name], "must be greater than zero")
        for name in ("value", "periodSeconds")
        if policy[name] <= 0
    ]
    if period > _MAX_PERIOD_SECONDS:
        detail = f"must be less than or equal to {_MAX_PERIOD_SECONDS}"
        errors.append(invalid(f"{path}.periodSeconds", period, detail))
    return errors


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    return errors + counts_errors(new["status"], "status", ("currentReplicas", "desiredReplicas"))


STRATEGIES: dict[str, Strategy] = {
    "horizontalpodautoscalers.autoscaling": Strategy(
        default=_default,
        prepare_create=_prepare_create,
        validate_create=_validate_create,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
        prepare_status=_prepare_status,
        validate_status=_validate_status,
    )
}
"""By group resource."""
