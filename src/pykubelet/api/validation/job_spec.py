"""Complaints about the spec of a job, on its own or in a cron job's template.

In: a spec whose template went through `default_pod_template_spec`. Out: complaints in the API server's order.

Upstream: validateJobSpec in pkg/apis/batch/validation/validation.go
"""

import re

from pykubelet.api.names import byte_length, dns1123_subdomain_errors, regex_error
from pykubelet.api.validation.field_errors import (
    FieldError,
    Named,
    each_invalid,
    invalid,
    not_supported,
    required,
    too_long,
)
from pykubelet.api.validation.internal_form import internal_form
from pykubelet.api.validation.job_policies import failure_policy_errors, success_policy_errors
from pykubelet.api.validation.metadata import nonnegative_errors
from pykubelet.api.validation.pod_template import pod_template_errors
from pykubelet.api.wire import Document

INDEXED, NON_INDEXED = "Indexed", "NonIndexed"
_COMPLETION_MODES = (NON_INDEXED, INDEXED)
_REPLACEMENT_POLICIES = ("Failed", "TerminatingOrFailed")
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
# These bound the length of the texts that name a job's indexes.
_MAX_PARALLELISM = 100_000
_MAX_FAILED_INDEXES = 100_000
_MANY_COMPLETIONS = 100_000
_MAX_PARALLELISM_OF_MANY = 10_000
_MAX_FAILED_INDEXES_OF_MANY = 10_000


def job_spec_errors(spec: Document, path: str) -> list[FieldError]:
    """What is wrong with the spec, its selector left out."""
    errors: list[FieldError] = []
    for name in _COUNTS:
        if (count := spec.get(name)) is not None:
            errors += nonnegative_errors(count, f"{path}.{name}")
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
    """Whether the value is a domain, a slash and a path, such as `acme.io/foo`."""
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
    errors: list[FieldError] = []
    if mode is not None and mode not in _COMPLETION_MODES:
        errors.append(not_supported(f"{path}.completionMode", Named(mode), _COMPLETION_MODES))
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


def _success_errors(spec: Document, path: str) -> list[FieldError]:
    if spec.get("completionMode") == INDEXED:
        return success_policy_errors(spec, path)
    value = internal_form(spec["successPolicy"], "batch.SuccessPolicy")
    return [invalid(path, value, "requires indexed completion mode")]


def _replacement_errors(spec: Document, path: str) -> list[FieldError]:
    policy = spec.get("podReplacementPolicy")
    supported = ("Failed",) if "podFailurePolicy" in spec else _REPLACEMENT_POLICIES
    return [] if policy is None or policy in supported else [not_supported(path, Named(policy), supported)]


def _restart_policy_errors(spec: Document, path: str) -> list[FieldError]:
    policy = spec["template"]["spec"].get("restartPolicy", "")
    if policy in {"", "Always"}:
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in {"OnFailure", "Never"}:
        return [not_supported(path, Named(policy), ("OnFailure", "Never"))]
    if "podFailurePolicy" in spec and policy != "Never":
        return [invalid(path, Named(policy), 'only "Never" is supported when podFailurePolicy is specified')]
    return []
