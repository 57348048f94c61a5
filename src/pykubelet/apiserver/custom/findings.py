"""What a schema has against a value: findings, and the complaints that the API makes of them.

Upstream: vendor/k8s.io/kube-openapi/pkg/validation/errors/schema.go,
kubeOpenAPIResultToFieldErrors in staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/validation.go
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pykubelet.api.validation.field_errors import (
    ErrorType,
    FieldError,
    go_json,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)

NO_PATH = "<nil>"
"""What Go prints for a complaint about no field in particular."""


class Finding(NamedTuple):
    """One thing that is wrong; the message tells findings apart."""

    code: str
    at: str
    message: str
    value: Any = None
    allowed: Any = None


def wrong_type(at: str, wanted: str, found: str) -> Finding:
    """The value is of another type, or has not the format of its type."""
    return Finding("type", at, f"{at} in body must be of type {wanted}: {go_quote(found)}", found)


def missing(at: str) -> Finding:
    """A required field is not there."""
    return Finding("required", at, f"{at} in body is required")


def not_in_enum(at: str, value: Any, allowed: Sequence[Any]) -> Finding:
    """The value is none of a few."""
    shown = " ".join(each if isinstance(each, str) else go_json(each) for each in allowed)
    return Finding("enum", at, f"{at} in body should be one of [{shown}]", value, allowed)


def broken_rule(at: str, value: Any, rule: str) -> Finding:
    """The value breaks the rule that is said."""
    return Finding("rule", at, f"{at} in body {rule}", value)


def too_large(code: str, at: str, value: Any, limit: int, rule: str) -> Finding:
    """There is more of the value than a limit allows: `long` for texts, `many` for items and properties."""
    return Finding(code, at, f"{at} in body {rule}", value, limit)


def broken_junctor(at: str, text: str) -> Finding:
    """Not the right number of alternatives hold."""
    return Finding("junctor", at, f"{go_quote(at)} {text}")


def forbidden_property(at: str, key: str) -> Finding:
    """There is a key that may not be."""
    return Finding("rule", at, f"{at}.{key} in body is a forbidden property", key)


def as_field_errors(findings: Iterable[Finding], path: str) -> list[FieldError]:
    """The findings as complaints about fields under a path (empty for the object itself)."""
    return [_field_error(finding, path) for finding in findings]


def _field_error(finding: Finding, path: str) -> FieldError:
    if finding.code == "junctor":
        return invalid(path or NO_PATH, "", finding.message)
    inner = finding.at.removeprefix(".")
    at = f"{path}.{inner}" if path and inner else path or inner or NO_PATH
    match finding.code:
        case "required":
            return required(at)
        case "enum":
            allowed = [each if isinstance(each, str) else go_json(each) for each in finding.allowed]
            return not_supported(at, finding.value, allowed)
        case "long":
            return too_long(at, finding.allowed)
        case "many":
            return too_many(at, finding.value, finding.allowed)
        case "type":
            return FieldError(ErrorType.TYPE_INVALID, at, finding.value, finding.message)
        case _:
            return invalid(at, "" if finding.value is None else _plain(finding.value), finding.message)


def _plain(value: Any) -> Any:
    """A whole number of any type is shown without a fraction."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
