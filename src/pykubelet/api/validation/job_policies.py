"""Complaints about what a job says of failed pods, and of when it has succeeded.

Upstream: validatePodFailurePolicy and validateSuccessPolicy in pkg/apis/batch/validation/validation.go
"""

from collections.abc import Set as AbstractSet

from pykubelet.api.index_intervals import IndexesError, indexes_count
from pykubelet.api.names import byte_length, qualified_name_errors
from pykubelet.api.validation.field_errors import (
    OMITTED,
    FieldError,
    Named,
    duplicate,
    each_invalid,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from pykubelet.api.validation.metadata import nonnegative_errors
from pykubelet.api.wire import Document

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MAX_RULES = 20
_MAX_EXIT_CODES = 255
_MAX_PATTERNS = 20
_MAX_INDEXES_BYTES = 64 * 1024


def failure_policy_errors(spec: Document, path: str) -> list[FieldError]:
    """What is wrong with the pod failure policy of a job's spec."""
    rules = spec["podFailurePolicy"].get("rules", ())
    errors = [too_many(f"{path}.rules", len(rules), _MAX_RULES)] if len(rules) > _MAX_RULES else []
    pod = spec["template"]["spec"]
    containers = {
        container.get("name", "") for kind in ("containers", "initContainers") for container in pod.get(kind, ())
    }
    for index, rule in enumerate(rules):
        errors += _failure_rule_errors(spec, rule, containers, f"{path}.rules[{index}]")
    return errors


def success_policy_errors(spec: Document, path: str) -> list[FieldError]:
    """What is wrong with the success policy of an indexed job's spec."""
    rules = spec["successPolicy"].get("rules", ())
    errors: list[FieldError] = []
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(f"{path}.rules", detail))
    if len(rules) > _MAX_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        # An indexed job without completions has a complaint of its own.
        errors += _success_rule_errors(rule, spec.get("completions", 0), f"{path}.rules[{index}]")
    return errors


def _failure_rule_errors(spec: Document, rule: Document, containers: AbstractSet[str], path: str) -> list[FieldError]:
    action, codes, conditions = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions", ())
    errors: list[FieldError] = []
    if not action:
        errors.append(required(f"{path}.action", f"valid values: {_choices(_ACTIONS)}"))
    elif action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            detail = "requires the backoffLimitPerIndex to be set"
            errors.append(invalid(f"{path}.action", Named(action), detail))
    elif action not in _ACTIONS:
        errors.append(not_supported(f"{path}.action", Named(action), _ACTIONS))
    if codes is not None:
        errors += _exit_codes_errors(codes, containers, f"{path}.onExitCodes")
    if conditions:
        errors += _pod_conditions_errors(conditions, f"{path}.onPodConditions")
    if codes is not None and conditions:
        errors.append(invalid(path, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        errors.append(invalid(path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _exit_codes_errors(codes: Document, containers: AbstractSet[str], path: str) -> list[FieldError]:
    operator, container, values = codes.get("operator", ""), codes.get("containerName"), codes.get("values", [])
    errors: list[FieldError] = []
    if not operator:
        errors.append(required(f"{path}.operator", f"valid values: {_choices(_OPERATORS)}"))
    elif operator not in _OPERATORS:
        errors.append(not_supported(f"{path}.operator", Named(operator), _OPERATORS))
    if container is not None and container not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", container, detail))
    at = f"{path}.values"
    if not values:
        errors.append(invalid(at, codes.get("values"), "at least one value is required"))
    elif len(values) > _MAX_EXIT_CODES:
        errors.append(too_many(at, len(values), _MAX_EXIT_CODES))
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(f"{at}[{index}]", value, "must not be 0 for the In operator"))
        if value in values[:index]:
            errors.append(duplicate(f"{at}[{index}]", value))
    if values != sorted(values):
        errors.append(invalid(at, values, "must be ordered"))
    return errors


def _pod_conditions_errors(patterns: list[Document], path: str) -> list[FieldError]:
    errors = [too_many(path, len(patterns), _MAX_PATTERNS)] if len(patterns) > _MAX_PATTERNS else []
    for index, pattern in enumerate(patterns):
        kind, status = pattern.get("type", ""), pattern.get("status", "")
        errors += each_invalid(f"{path}[{index}].type", kind, qualified_name_errors(kind))
        if status not in _STATUSES:
            errors.append(not_supported(f"{path}[{index}].status", Named(status), _STATUSES))
    return errors


def _success_rule_errors(rule: Document, completions: int, path: str) -> list[FieldError]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    errors: list[FieldError] = []
    total = 0
    if count is None and indexes is None:
        errors.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    if indexes is not None:
        at = f"{path}.succeededIndexes"
        if byte_length(indexes) > _MAX_INDEXES_BYTES:
            errors.append(too_long(at, _MAX_INDEXES_BYTES))
        try:
            total = indexes_count(indexes, completions)
        except IndexesError as error:
            errors.append(invalid(at, indexes, f"error parsing succeededIndexes: {error}"))
    if count is None:
        return errors
    at = f"{path}.succeededCount"
    errors += nonnegative_errors(count, at)
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        errors.append(invalid(at, count, detail))
    if indexes is not None and count > total:
        detail = (
            f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        )
        errors.append(invalid(at, count, detail))
    return errors


def _choices(values: tuple[str, ...]) -> str:
    """The values as Go prints a list of quoted texts."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"
