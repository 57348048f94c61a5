"""PodDisruptionBudget: how many pods may be evicted at once.

Upstream: pkg/registry/policy/poddisruptionbudget/strategy.go, pkg/apis/policy/validation/validation.go,
staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go
"""

import re
from collections.abc import Sequence
from typing import Any

from pykubelet.api.field_errors import FieldError, duplicate, invalid, required, too_long
from pykubelet.api.names import byte_length, regex_error
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.go_values import internal_form
from pykubelet.kinds.kind import Kind, Strategy, keep_spec, keep_status, normalized, without_status
from pykubelet.kinds.metadata import label_name_errors, label_selector_errors
from pykubelet.kinds.replicas import counts_errors, int_or_percent_errors, over_100_percent_errors
from pykubelet.kinds.rules import OneOf, fields_errors

CONDITION_STATUSES = OneOf(("False", "True", "Unknown"))
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_RULE = regex_error(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
    _REASON,
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)
_MAX_REASON_BYTES = 1024
_MAX_MESSAGE_BYTES = 32 * 1024
_EVICTION_POLICIES = OneOf(("AlwaysAllow", "IfHealthyBudget"))


def _validate(document: Document) -> list[FieldError]:
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
    return errors + fields_errors(spec, {"unhealthyPodEvictionPolicy": _EVICTION_POLICIES}, "spec")


def _validate_status(new: Document, _old: Document) -> list[FieldError]:
    status = new["status"]
    errors = conditions_errors(status.get("conditions", ()), "status.conditions")
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return errors + counts_errors(status, "status", counts)


def conditions_errors(conditions: Sequence[Document], path: str) -> list[FieldError]:
    """Validates conditions of type metav1.Condition, each type of which may appear once."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        kind = condition.get("type", "")
        if kind in seen:
            errors.append(duplicate(f"{path}[{index}].type", kind))
        seen.add(kind)
        errors += _condition_errors(condition, f"{path}[{index}]")
    return errors


def _condition_errors(condition: Document, path: str) -> list[FieldError]:
    errors = label_name_errors(condition.get("type", ""), f"{path}.type")
    status, reason = condition.get("status", ""), condition.get("reason", "")
    generation = condition.get("observedGeneration", 0)
    errors += CONDITION_STATUSES.errors(status, f"{path}.status")
    if generation < 0:
        errors.append(invalid(f"{path}.observedGeneration", generation, "must be greater than or equal to zero"))
    if not condition.get("lastTransitionTime"):
        errors.append(required(f"{path}.lastTransitionTime"))
    if not reason:
        errors.append(required(f"{path}.reason"))
    elif not re.fullmatch(_REASON, reason):
        errors.append(invalid(f"{path}.reason", reason, _REASON_RULE))
    if byte_length(reason) > _MAX_REASON_BYTES:
        errors.append(too_long(f"{path}.reason", _MAX_REASON_BYTES))
    if byte_length(condition.get("message", "")) > _MAX_MESSAGE_BYTES:
        errors.append(too_long(f"{path}.message", _MAX_MESSAGE_BYTES))
    return errors


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, min available, max unavailable, allowed disruptions, age."""
    spec = at(document, "spec")
    bounds = (spec.get(name) for name in ("minAvailable", "maxUnavailable"))
    return [
        name_of(document),
        *("N/A" if bound is None else str(bound) for bound in bounds),
        at(document, "status").get("disruptionsAllowed", 0),
        created(document, age),
    ]


KIND = Kind(
    resource=Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    definition="policy.v1.PodDisruptionBudget",
    short_names=("pdb",),
    subresources=("status",),
    strategy=Strategy(
        default=normalized("policy.v1.PodDisruptionBudget"),
        prepare_create=without_status("policy.v1.PodDisruptionBudgetStatus"),
        validate_create=_validate,
        prepare_update=keep_status,
        validate_update=lambda new, _old: _validate(new),
        prepare_status=keep_spec,
        validate_status=_validate_status,
        allows_unconditional_update=False,
    ),
    cells=_cells,
)
