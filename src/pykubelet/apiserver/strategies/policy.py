"""The rules of PodDisruptionBudgets.

Upstream: pkg/registry/policy/poddisruptionbudget/strategy.go, pkg/apis/policy/validation/validation.go
"""

from pykubelet.api.normal_form import normal_form
from pykubelet.api.validation.condition_list import conditions_errors
from pykubelet.api.validation.field_errors import FieldError, Named, invalid, not_supported
from pykubelet.api.validation.int_or_percent import int_or_percent_errors, over_100_percent_errors
from pykubelet.api.validation.internal_form import internal_form
from pykubelet.api.validation.metadata import label_selector_errors
from pykubelet.api.wire import Document
from pykubelet.apiserver.served import Strategy
from pykubelet.apiserver.strategies.spec_and_status import keep_spec, keep_status, without_status
from pykubelet.apiserver.strategies.status_counts import counts_errors

_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def _default(document: Document) -> Document:
    return normal_form(document, "policy.v1.PodDisruptionBudget")


def _validate_create(document: Document) -> list[FieldError]:
    spec = document["spec"]
    errors: list[FieldError] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        value = internal_form(spec, "policy.PodDisruptionBudgetSpec")
        errors.append(invalid("spec", value, "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        if name in spec:
            errors += int_or_percent_errors(spec[name], f"spec.{name}")
            errors += over_100_percent_errors(spec[name], f"spec.{name}")
    errors += label_selector_errors(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION_POLICIES:
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", Named(policy), _EVICTION_POLICIES))
    return errors


def _validate_update(new: Document, _old: Document) -> list[FieldError]:
    return _validate_create(new)


def _validate_status(new: Document, _old: Document) -> list[FieldError]:
    status = new["status"]
    errors = conditions_errors(status.get("conditions", ()), "status.conditions")
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return errors + counts_errors(status, "status", counts)


STRATEGIES: dict[str, Strategy] = {
    "poddisruptionbudgets.policy": Strategy(
        default=_default,
        prepare_create=without_status("policy.v1.PodDisruptionBudgetStatus"),
        validate_create=_validate_create,
        prepare_update=keep_status,
        validate_update=_validate_update,
        prepare_status=keep_spec,
        validate_status=_validate_status,
        allows_unconditional_update=False,
    )
}
"""By group resource."""
