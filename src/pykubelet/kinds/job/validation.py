"""Validation of a Job's spec, alone or in a CronJob's template, and of sets of completion indexes.

The pod template must have its defaults. Indexes are increasing numbers and ranges, such as `1,3-5,7`.

Upstream: pkg/apis/batch/validation/validation.go
"""

import re
from collections.abc import Set as AbstractSet
from contextlib import suppress

from pykubelet.api.field_errors import (
    OMITTED,
    FieldError,
    TypedString,
    duplicate,
    each_invalid,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from pykubelet.api.names import byte_length, dns1123_subdomain_errors, qualified_name_errors, regex_error
from pykubelet.api.quantity import parse_int64
from pykubelet.api.serializer import Document
from pykubelet.kinds.go_values import internal_form
from pykubelet.kinds.metadata import nonnegative_errors
from pykubelet.kinds.pod_template import pod_template_errors
from pykubelet.kinds.replicas import counts_errors
from pykubelet.kinds.rules import OneOf, repeated_indexes

Interval = tuple[int, int]
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = OneOf(("False", "True", "Unknown"))
_MAX_RULES = 20
_MAX_EXIT_CODES = 255
_MAX_PATTERNS = 20
_MAX_INDEXES_BYTES = 64 * 1024
INDEXED, NON_INDEXED = "Indexed", "NonIndexed"
_COMPLETION_MODES = OneOf((NON_INDEXED, INDEXED))
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
)
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_MAX_MANAGED_BY_BYTES = 63
# These limits bound the length of completedIndexes and failedIndexes.
_MAX_PARALLELISM = 100_000
_MAX_FAILED_INDEXES = 100_000
_MANY_COMPLETIONS = 100_000
_MAX_PARALLELISM_OF_MANY = 10_000
_MAX_FAILED_INDEXES_OF_MANY = 10_000


class IndexesError(ValueError):
    """The text is not a set of indexes; the message is Kubernetes' own."""


def job_spec_errors(spec: Document, path: str) -> list[FieldError]:
    """Validates the spec without its selector."""
    errors = counts_errors(spec, path, _COUNTS)
    if (failed := spec.get("maxFailedIndexes")) is not None:
        errors += nonnegative_errors(failed, f"{path}.maxFailedIndexes")
        if spec.get("backoffLimitPerIndex") is None:
            errors.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if (manager := spec.get("managedBy")) is not None:
        errors += _managed_by_errors(manager, f"{path}.managedBy")
    errors += _completion_errors(spec, path)
    if "podFailurePolicy" in spec:
        errors += failure_policy_errors(spec, f"{path}.podFailurePolicy")
    if "successPolicy" in spec:
        errors += _success_errors(spec, f"{path}.successPolicy")
    errors += _replacement_errors(spec, f"{path}.podReplacementPolicy")
    errors += pod_template_errors(spec["template"], f"{path}.template")
    return errors + _restart_policy_errors(spec, f"{path}.template.spec.restartPolicy")


def _managed_by_errors(manager: str, path: str) -> list[FieldError]:
    errors = domain_prefixed_path_errors(manager, path)
    return [*errors, too_long(path, _MAX_MANAGED_BY_BYTES)] if byte_length(manager) > _MAX_MANAGED_BY_BYTES else errors


def domain_prefixed_path_errors(value: str, path: str) -> list[FieldError]:
    """Validates a domain, a slash and a path, such as `acme.io/foo`."""
    if not value:
        return [required(path)]
    domain, _, rest = value.partition("/")
    if not domain or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = each_invalid(path, domain, dns1123_subdomain_errors(domain))
    if not re.fullmatch(_HTTP_PATH, rest):
        errors.append(invalid(path, rest, regex_error("Invalid path", _HTTP_PATH)))
    return errors


def _completion_errors(spec: Document, path: str) -> list[FieldError]:
    mode = spec.get("completionMode")
    errors = _COMPLETION_MODES.errors(mode, f"{path}.completionMode")
    if mode == INDEXED:
        errors += _indexed_errors(spec, path)
    if mode is None or mode == NON_INDEXED:
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if (count := spec.get(name)) is not None:
                errors.append(invalid(f"{path}.{name}", count, "requires indexed completion mode"))
    return errors


def _indexed_errors(spec: Document, path: str) -> list[FieldError]:
    completions, parallelism, failed = (spec.get(name) for name in ("completions", "parallelism", "maxFailedIndexes"))
    errors: list[FieldError] = []
    if completions is None:
        errors.append(required(f"{path}.completions", f"when completion mode is {INDEXED}"))
    if parallelism is not None and parallelism > _MAX_PARALLELISM:
        detail = f"must be less than or equal to {_MAX_PARALLELISM} when completion mode is {INDEXED}"
        errors.append(invalid(f"{path}.parallelism", parallelism, detail))
    if completions is not None and failed is not None and failed > completions:
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MAX_FAILED_INDEXES:
        detail = f"must be less than or equal to {_MAX_FAILED_INDEXES}"
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, detail))
    if completions is None or completions <= _MANY_COMPLETIONS or spec.get("backoffLimitPerIndex") is None:
        return errors
    condition = f"when completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
    if failed is None:
        detail = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        errors.append(required(f"{path}.maxFailedIndexes", detail))
    if parallelism is not None and parallelism > _MAX_PARALLELISM_OF_MANY:
        detail = f"must be less than or equal to {_MAX_PARALLELISM_OF_MANY} {condition}"
        errors.append(invalid(f"{path}.parallelism", parallelism, detail))
    if failed is not None and failed > _MAX_FAILED_INDEXES_OF_MANY:
        detail = f"must be less than or equal to {_MAX_FAILED_INDEXES_OF_MANY} {condition}"
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, detail))
    return errors


def failure_policy_errors(spec: Document, path: str) -> list[FieldError]:
    """Validates the pod failure policy."""
    rules = spec["podFailurePolicy"].get("rules", ())
    errors = [too_many(f"{path}.rules", len(rules), _MAX_RULES)] if len(rules) > _MAX_RULES else []
    pod = spec["template"]["spec"]
    containers = {
        container.get("name", "") for kind in ("containers", "initContainers") for container in pod.get(kind, ())
    }
    for index, rule in enumerate(rules):
        errors += _failure_rule_errors(spec, rule, containers, f"{path}.rules[{index}]")
    return errors


def _failure_rule_errors(spec: Document, rule: Document, containers: AbstractSet[str], path: str) -> list[FieldError]:
    action, codes, conditions = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions", ())
    errors: list[FieldError] = []
    if not action:
        errors.append(required(f"{path}.action", f"valid values: {_choices(_ACTIONS)}"))
    elif action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            errors.append(invalid(f"{path}.action", TypedString(action), "requires the backoffLimitPerIndex to be set"))
    elif action not in _ACTIONS:
        errors.append(not_supported(f"{path}.action", TypedString(action), _ACTIONS))
    if codes is not None:
        errors += _exit_codes_errors(codes, containers, f"{path}.onExitCodes")
    if conditions:
        errors += _pod_conditions_errors(conditions, f"{path}.onPodConditions")
    if codes is not None and conditions:
        errors.append(invalid(path, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        errors.append(invalid(path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _choices(values: tuple[str, ...]) -> str:
    """The values as Go prints a list of quoted strings."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _exit_codes_errors(codes: Document, containers: AbstractSet[str], path: str) -> list[FieldError]:
    operator, container, values = codes.get("operator", ""), codes.get("containerName"), codes.get("values", [])
    errors: list[FieldError] = []
    if not operator:
        errors.append(required(f"{path}.operator", f"valid values: {_choices(_OPERATORS)}"))
    elif operator not in _OPERATORS:
        errors.append(not_supported(f"{path}.operator", TypedString(operator), _OPERATORS))
    if container is not None and container not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", container, detail))
    at = f"{path}.values"
    if not values:
        errors.append(invalid(at, codes.get("values"), "at least one value is required"))
    elif len(values) > _MAX_EXIT_CODES:
        errors.append(too_many(at, len(values), _MAX_EXIT_CODES))
    repeated = repeated_indexes(values)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(f"{at}[{index}]", value, "must not be 0 for the In operator"))
        if index in repeated:
            errors.append(duplicate(f"{at}[{index}]", value))
    if values != sorted(values):
        errors.append(invalid(at, values, "must be ordered"))
    return errors


def _pod_conditions_errors(patterns: list[Document], path: str) -> list[FieldError]:
    errors = [too_many(path, len(patterns), _MAX_PATTERNS)] if len(patterns) > _MAX_PATTERNS else []
    for index, pattern in enumerate(patterns):
        kind, status = pattern.get("type", ""), pattern.get("status", "")
        errors += each_invalid(f"{path}[{index}].type", kind, qualified_name_errors(kind))
        errors += _STATUSES.errors(status, f"{path}[{index}].status")
    return errors


def _success_errors(spec: Document, path: str) -> list[FieldError]:
    if spec.get("completionMode") == INDEXED:
        return success_policy_errors(spec, path)
    value = internal_form(spec["successPolicy"], "batch.SuccessPolicy")
    return [invalid(path, value, "requires indexed completion mode")]


def success_policy_errors(spec: Document, path: str) -> list[FieldError]:
    """Validates the success policy of an indexed Job."""
    rules = spec["successPolicy"].get("rules", ())
    errors: list[FieldError] = []
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(f"{path}.rules", detail))
    if len(rules) > _MAX_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        # An indexed Job without completions is reported elsewhere.
        errors += _success_rule_errors(rule, spec.get("completions", 0), f"{path}.rules[{index}]")
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


def indexes_count(text: str, completions: int) -> int:
    """Counts the indexes of a set; IndexesError if the text is invalid or not in order."""
    total, last = 0, -1
    for number, part in enumerate(text.split(",") if text else ()):
        first, end = _interval(part, completions)
        if number and last >= first:
            raise IndexesError(f"non-increasing order, previous: {last}, current: {first}")
        total += end - first + 1
        last = end
    return total


def _interval(part: str, completions: int) -> Interval:
    limits = part.split("-")
    if len(limits) > 2:
        raise IndexesError(
            f"the fragment {go_quote(part)} violates the requirement that an index interval can have at most two parts separated by '-'"
        )
    first, *rest = (_index(limit, completions) for limit in limits)
    if not rest:
        return first, first
    if first >= rest[0]:
        raise IndexesError(f"non-increasing order, previous: {first}, current: {rest[0]}")
    return first, rest[0]


def _index(text: str, completions: int) -> int:
    number = parse_int64(text)
    if number is None:
        raise IndexesError(f"cannot convert string to integer for index: {go_quote(text)}")
    if number >= completions:
        raise IndexesError(f"too large index: {go_quote(text)}")
    return number


def _replacement_errors(spec: Document, path: str) -> list[FieldError]:
    policy = spec.get("podReplacementPolicy")
    supported = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    return [] if policy is None or policy in supported else [not_supported(path, TypedString(policy), supported)]


def _restart_policy_errors(spec: Document, path: str) -> list[FieldError]:
    policy = spec["template"]["spec"].get("restartPolicy", "")
    if policy in {"", "Always"}:
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in {"OnFailure", "Never"}:
        return [not_supported(path, TypedString(policy), ("OnFailure", "Never"))]
    if "podFailurePolicy" in spec and policy != "Never":
        return [invalid(path, TypedString(policy), 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def overlap(one: str, other: str, completions: int) -> int | None:
    """The first index that is in both sets; invalid parts are skipped."""
    ours, theirs = _valid_intervals(one, completions), _valid_intervals(other, completions)
    left, right = 0, 0
    while left < len(ours) and right < len(theirs):
        (first, end), (other_first, other_end) = ours[left], theirs[right]
        if first <= other_end and other_first <= end:
            return max(first, other_first)
        if first <= other_first:
            left += 1
        else:
            right += 1
    return None


def _valid_intervals(text: str, completions: int) -> list[Interval]:
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        with suppress(IndexesError):
            found.append(_interval(part, completions))
    return found
