"""ValidatingAdmissionPolicyBinding: where a policy applies, with which parameters and actions.

Upstream: pkg/registry/admissionregistration/validatingadmissionpolicybinding/strategy.go,
pkg/apis/admissionregistration/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.names import dns1123_subdomain_errors, path_segment_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import VALIDATING_ADMISSION_POLICY_BINDINGS
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.admission_rules import default_match_resources, enum_items_errors, match_resources_errors
from pykubelet.kinds.columns import UNSET, at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, first_generation, next_generation
from pykubelet.kinds.metadata import generic_metadata_errors, label_selector_errors
from pykubelet.kinds.rules import OneOf

_DEFINITION = "admissionregistration.v1.ValidatingAdmissionPolicyBinding"
_ACTIONS = OneOf(("Audit", "Deny", "Warn"))
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_EXCLUSIVE = "name and selector are mutually exclusive"


def _default(document: Document) -> Document:
    normal = normal_form(document, _DEFINITION)
    matched = normal["spec"].get("matchResources")
    if matched is None:
        return normal
    return {**normal, "spec": {**normal["spec"], "matchResources": default_match_resources(matched)}}


def _validate(document: Document) -> list[FieldError]:
    spec = document["spec"]
    name = spec.get("policyName", "")
    named = each_invalid("spec.policyName", name, dns1123_subdomain_errors(name))
    return [
        *generic_metadata_errors(document["metadata"], namespaced=False),
        *(named if name else [required("spec.policyName")]),
        *(_param_ref_errors(spec["paramRef"], "spec.paramRef") if "paramRef" in spec else []),
        *match_resources_errors(spec.get("matchResources"), "spec.matchResources"),
        *_actions_errors(spec.get("validationActions", []), "spec.validationActions"),
    ]


def _param_ref_errors(ref: Document, path: str) -> list[FieldError]:
    name, selector, action = ref.get("name", ""), ref.get("selector"), ref.get("parameterNotFoundAction", "")
    errors: list[FieldError] = []
    if name:
        errors += each_invalid(f"{path}.name", name, path_segment_errors(name))
        if selector is not None:
            errors.append(forbidden(f"{path}.name", _EXCLUSIVE))
    if selector is not None:
        errors += label_selector_errors(selector, f"{path}.selector")
        if name:
            errors.append(forbidden(f"{path}.selector", _EXCLUSIVE))
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    if not action:
        errors.append(required(f"{path}.parameterNotFoundAction"))
    elif action not in _NOT_FOUND_ACTIONS:
        errors.append(not_supported(f"{path}.parameterNotFoundAction", TypedString(action), _NOT_FOUND_ACTIONS))
    return errors


def _actions_errors(actions: list[str], path: str) -> list[FieldError]:
    errors = enum_items_errors(actions, _ACTIONS, path)
    if "Deny" in actions and "Warn" in actions:
        detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"
        errors.append(invalid(path, actions, detail))
    return errors if actions else [*errors, required(path, "at least one validation action is required")]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, policy name, parameters, age."""
    spec = at(document, "spec")
    return [name_of(document), spec.get("policyName", ""), _shown(spec.get("paramRef")), created(document, age)]


def _shown(ref: Document | None) -> str:
    if ref is None:
        return UNSET
    if name := ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{name}"
    return _go_text(ref.get("selector") or {})


def _go_text(selector: Document) -> str:
    """A label selector as Go prints it."""
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.get("matchLabels", {}).items()))
    requirements = "".join(
        f"LabelSelectorRequirement{{Key:{each.get('key', '')},Operator:{each.get('operator', '')},"
        f"Values:[{' '.join(each.get('values', ()))}],}},"
        for each in selector.get("matchExpressions", ())
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},}}"
    )


KIND = Kind(
    resource=VALIDATING_ADMISSION_POLICY_BINDINGS,
    definition=_DEFINITION,
    categories=("api-extensions",),
    strategy=Strategy(
        default=_default,
        prepare_create=first_generation,
        validate_create=_validate,
        prepare_update=lambda new, old: next_generation(new, old, changed=new["spec"] != old["spec"]),
        validate_update=lambda new, _old: _validate(new),
        allows_unconditional_update=False,
    ),
    cells=_cells,
)
