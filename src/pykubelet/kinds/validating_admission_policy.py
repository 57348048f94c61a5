"""ValidatingAdmissionPolicy: CEL expressions that writes must satisfy.

Upstream: pkg/registry/admissionregistration/validatingadmissionpolicy/strategy.go,
pkg/apis/admissionregistration/validation/validation.go
"""

import re
from collections.abc import Callable
from typing import Any

from pykubelet.api.cel.composition import PolicyCompiler
from pykubelet.api.cel.parser import RESERVED
from pykubelet.api.field_errors import FieldError, duplicate, each_invalid, invalid, items_errors, required, too_long
from pykubelet.api.names import byte_length, dns1035_label_errors, dns1123_subdomain_errors, qualified_name_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import VALIDATING_ADMISSION_POLICIES
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.admission_rules import (
    FAILURE_POLICIES,
    default_match_resources,
    match_conditions_errors,
    match_resources_errors,
)
from pykubelet.kinds.columns import UNSET, at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, keep_spec, keep_status, without_status
from pykubelet.kinds.metadata import generic_metadata_errors
from pykubelet.kinds.pod_disruption_budget import conditions_errors
from pykubelet.kinds.rules import OneOf, repeated_indexes

_DEFINITION = "admissionregistration.v1.ValidatingAdmissionPolicy"
_REASONS = OneOf(("Forbidden", "Invalid", "RequestEntityTooLarge"))
_IDENTIFIER = re.compile("[_a-zA-Z][_a-zA-Z0-9]*")
_NO_IDENTIFIERS = RESERVED | {"true", "false", "null", "in"}
_MAX_AUDIT_ANNOTATIONS = 20
_MAX_VALUE_EXPRESSION_BYTES = 5 * 1024
# Compiling so many takes half a second, in which nothing else is answered.
_MAX_EXPRESSION_BYTES = 128 * 1024
_EXPRESSIONS = {
    "matchConditions": ("expression",),
    "variables": ("expression",),
    "validations": ("expression", "messageExpression"),
    "auditAnnotations": ("valueExpression",),
}
_NEITHER = "validations or auditAnnotations must contain at least one item"


def _default(document: Document) -> Document:
    normal = normal_form(document, _DEFINITION)
    spec = {"failurePolicy": "Fail", **normal["spec"]}
    if "matchConstraints" in spec:
        spec["matchConstraints"] = default_match_resources(spec["matchConstraints"])
    return {**normal, "spec": spec}


def _validate_create(document: Document) -> list[FieldError]:
    return _errors(document, checks_conditions=True)


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    # Conditions that were valid stay valid.
    names = ("paramKind", "matchConditions")
    return _errors(new, checks_conditions=any(new["spec"].get(name) != old["spec"].get(name) for name in names))


def _errors(document: Document, *, checks_conditions: bool) -> list[FieldError]:
    spec, metadata = document["spec"], document["metadata"]
    has_params = "paramKind" in spec
    if _expression_bytes(spec) > _MAX_EXPRESSION_BYTES:
        return [too_long("spec", _MAX_EXPRESSION_BYTES)]
    errors = generic_metadata_errors(metadata, namespaced=False)
    errors += FAILURE_POLICIES.errors(spec.get("failurePolicy"), "spec.failurePolicy")
    if has_params:
        errors += _param_kind_errors(spec["paramKind"], "spec.paramKind")
    errors += _match_constraints_errors(spec.get("matchConstraints"), "spec.matchConstraints")
    compiler = PolicyCompiler(has_params=has_params, composes=bool(spec.get("variables")))
    if checks_conditions:
        conditions = spec.get("matchConditions", ())
        errors += match_conditions_errors(conditions, "spec.matchConditions", compiled=compiler.condition)
    errors += items_errors(spec.get("variables", ()), _variable_rule(compiler), "spec.variables")
    annotations = spec.get("auditAnnotations", ())
    if not spec.get("validations") and not annotations:
        return [*errors, required("spec.validations", _NEITHER), required("spec.auditAnnotations", _NEITHER)]
    errors += items_errors(spec.get("validations", ()), _validation_rule(compiler), "spec.validations")
    return errors + _annotations_errors(annotations, metadata.get("name", ""), compiler)


def _expression_bytes(spec: Document) -> int:
    """The size of all expressions together."""
    return sum(
        byte_length(item.get(field, ""))
        for name, fields in _EXPRESSIONS.items()
        for item in spec.get(name, ())
        for field in fields
    )


def _param_kind_errors(kind: Document, path: str) -> list[FieldError]:
    return _api_version_errors(kind.get("apiVersion", ""), f"{path}.apiVersion") + _kind_errors(
        kind.get("kind", ""), f"{path}.kind"
    )


def _api_version_errors(api_version: str, path: str) -> list[FieldError]:
    if not api_version:
        return [required(path)]
    if api_version.count("/") > 1:
        return [invalid(path, api_version, f"unexpected GroupVersion string: {api_version}")]
    group, _, version = api_version.rpartition("/")
    errors = _joined(path, group, dns1123_subdomain_errors(group)) if group else []
    if not version:
        return [*errors, invalid(path, api_version, "version must be specified")]
    return errors + _joined(path, version, dns1035_label_errors(version))


def _kind_errors(kind: str, path: str) -> list[FieldError]:
    if not kind:
        return [required(path)]
    details = ",".join(dns1035_label_errors(kind.lower()))
    return [invalid(path, kind, f"may have mixed case, but should otherwise match: {details}")] if details else []


def _joined(path: str, value: str, details: list[str]) -> list[FieldError]:
    """One error with all details."""
    return [invalid(path, value, ",".join(details))] if details else []


def _match_constraints_errors(stated: Document | None, path: str) -> list[FieldError]:
    if stated is None:
        return [required(path)]
    rules = [] if stated.get("resourceRules") else [required(f"{path}.resourceRules")]
    return match_resources_errors(stated, path) + rules


Rule = Callable[[Document, str], list[FieldError]]


def _variable_rule(compiler: PolicyCompiler) -> Rule:
    def errors(variable: Document, path: str) -> list[FieldError]:
        name, expression = variable.get("name", ""), variable.get("expression", "")
        found: list[FieldError] = []
        if not name.strip():
            found.append(required(f"{path}.name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(name) or name in _NO_IDENTIFIERS:
            found.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
        if not expression.strip():
            found.append(required(f"{path}.expression", "expression is not specified"))
        elif problem := compiler.add_variable(name, expression).error:
            found.append(invalid(f"{path}.expression", expression, problem))
        return found

    return errors


def _validation_rule(compiler: PolicyCompiler) -> Rule:
    def errors(validation: Document, path: str) -> list[FieldError]:
        expression, message = validation.get("expression", ""), validation.get("message", "")
        found: list[FieldError] = []
        if not expression.strip():
            found.append(required(f"{path}.expression", "expression is not specified"))
        elif problem := compiler.validation(expression).error:
            found.append(invalid(f"{path}.expression", expression, problem))
        if stated := validation.get("messageExpression", ""):
            problem = compiler.message(stated).error if stated.strip() else "must be non-empty if specified"
            found += [invalid(f"{path}.messageExpression", stated, problem)] if problem else []
        if message and not message.strip():
            found.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
        elif any(end in message.strip() for end in "\r\n"):
            found.append(invalid(f"{path}.message", message, "must not contain line breaks"))
        return found + _REASONS.errors(validation.get("reason"), f"{path}.reason")

    return errors


def _annotations_errors(annotations: Any, name: str, compiler: PolicyCompiler) -> list[FieldError]:
    path, errors = "spec.auditAnnotations", []
    if len(annotations) > _MAX_AUDIT_ANNOTATIONS:
        shown = [
            {"Key": each.get("key", ""), "ValueExpression": each.get("valueExpression", "")} for each in annotations
        ]
        detail = f"must not have more than {_MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        errors.append(invalid(path, shown, detail))
    repeated = repeated_indexes(each.get("key", "") for each in annotations)
    for index, each in enumerate(annotations):
        errors += _annotation_errors(each, name, compiler, f"{path}[{index}]")
        if index in repeated:
            errors.append(duplicate(f"{path}[{index}].key", each.get("key", "")))
    return errors


def _annotation_errors(annotation: Document, name: str, compiler: PolicyCompiler, path: str) -> list[FieldError]:
    key, stated = annotation.get("key", ""), annotation.get("valueExpression", "")
    if name:
        full, at_key = f"{name}/{key}", f"{path}.key"
        errors = each_invalid(at_key, full, qualified_name_errors(full))
    else:
        errors = [invalid(f"{path}.key", key, "requires metadata.name be non-empty")]
    expression = stated.strip()
    if not expression:
        errors.append(required(f"{path}.valueExpression", "valueExpression is not specified"))
    elif byte_length(expression) > _MAX_VALUE_EXPRESSION_BYTES:
        detail = f"must not exceed {_MAX_VALUE_EXPRESSION_BYTES} bytes in length"
        errors.append(required(f"{path}.valueExpression", detail))
    elif problem := compiler.audit_annotation(expression).error:
        errors.append(invalid(f"{path}.valueExpression", stated, problem))
    return errors


def _validate_status(new: Document, _old: Document) -> list[FieldError]:
    status = new["status"]
    warnings = (status.get("typeChecking") or {}).get("expressionWarnings", ())
    errors = items_errors(warnings, _warning_errors, "status.typeChecking.expressionWarnings")
    return errors + conditions_errors(status.get("conditions", ()), "status.conditions")


def _warning_errors(warning: Document, path: str) -> list[FieldError]:
    errors = [] if warning.get("warning") else [required(f"{path}.warning")]
    return errors if warning.get("fieldRef", "").strip() else [*errors, required(f"{path}.fieldRef")]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, validations, parameter kind, age."""
    spec = at(document, "spec")
    kind = spec.get("paramKind")
    shown = UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"
    return [name_of(document), len(spec.get("validations") or ()), shown, created(document, age)]


KIND = Kind(
    resource=VALIDATING_ADMISSION_POLICIES,
    definition=_DEFINITION,
    categories=("api-extensions",),
    subresources=("status",),
    strategy=Strategy(
        default=_default,
        prepare_create=without_status(f"{_DEFINITION}Status"),
        validate_create=_validate_create,
        prepare_update=keep_status,
        validate_update=_validate_update,
        prepare_status=keep_spec,
        validate_status=_validate_status,
        allows_unconditional_update=False,
    ),
    cells=_cells,
)
