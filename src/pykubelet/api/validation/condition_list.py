"""Complaints about conditions of the form that newer kinds share.

Upstream: ValidateConditions in staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go
"""

import re
from collections.abc import Sequence

from pykubelet.api.names import byte_length, regex_error
from pykubelet.api.validation.field_errors import (
    FieldError,
    Named,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from pykubelet.api.validation.metadata import label_name_errors
from pykubelet.api.wire import Document

CONDITION_STATUSES = ("False", "True", "Unknown")
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


def conditions_errors(conditions: Sequence[Document], path: str) -> list[FieldError]:
    """What is wrong with the conditions; each type may stand once."""
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
    if status not in CONDITION_STATUSES:
        errors.append(not_supported(f"{path}.status", Named(status), CONDITION_STATUSES))
    if generation < 0:
        errors.append(
            invalid(f"{path}.observedGeneration", generation, "must be greater than or equal to zero"),
        )
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
