"""Rules of resources, match resources and match conditions, which webhooks and policies share.

Upstream: pkg/apis/admissionregistration/validation/validation.go, pkg/apis/admissionregistration/v1/defaults.go
"""

from collections.abc import Callable, Mapping, Sequence

from pykubelet.api.cel.admission import AdmissionExpression, compile_condition
from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    duplicate,
    each_invalid,
    invalid,
    items_errors,
    not_supported,
    required,
    too_many,
)
from pykubelet.api.names import path_segment_errors, qualified_name_errors
from pykubelet.api.serializer import Document
from pykubelet.kinds.metadata import label_selector_errors
from pykubelet.kinds.rules import OneOf, repeated_indexes

FAILURE_POLICIES = OneOf(("Fail", "Ignore"))
MATCH_POLICIES = OneOf(("Equivalent", "Exact"))
_SCOPES = OneOf(("*", "Cluster", "Namespaced"))
_OPERATIONS = OneOf(("*", "CONNECT", "CREATE", "DELETE", "UPDATE"))
_MAX_MATCH_CONDITIONS = 64
_ANY = "*"
_DEFAULT_MATCH: Document = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}


def default_rules(rules: Sequence[Document]) -> list[Document]:
    """Sets the scope of rules that have none."""
    return [{"scope": _ANY, **rule} for rule in rules]


def default_match_resources(stated: Document) -> Document:
    """Sets the match policy, the selectors and the scopes of a policy's or binding's match resources."""
    lists: Document = {
        name: default_rules(stated[name]) for name in ("resourceRules", "excludeResourceRules") if name in stated
    }
    return {**_DEFAULT_MATCH, **stated, **lists}


def match_resources_errors(stated: Document | None, path: str) -> list[FieldError]:
    """Validates the match resources of a policy or a binding."""
    if stated is None:
        return []
    return [
        *MATCH_POLICIES.errors(stated.get("matchPolicy"), f"{path}.matchPolicy"),
        *label_selector_errors(stated.get("namespaceSelector"), f"{path}.namespaceSelector"),
        *label_selector_errors(stated.get("objectSelector"), f"{path}.objectSelector"),
        *items_errors(stated.get("resourceRules", ()), _named_rule_errors, f"{path}.resourceRules"),
        *items_errors(stated.get("excludeResourceRules", ()), _named_rule_errors, f"{path}.excludeResourceRules"),
    ]


def _named_rule_errors(rule: Document, path: str) -> list[FieldError]:
    names, at = rule.get("resourceNames", ()), f"{path}.resourceNames"
    repeated = repeated_indexes(names)
    errors: list[FieldError] = []
    for index, name in enumerate(names):
        errors += each_invalid(f"{at}[{index}]", name, path_segment_errors(name))
        if index in repeated:
            errors.append(duplicate(f"{at}[{index}]", name))
    return errors + rule_errors(rule, path)


def rule_errors(rule: Document, path: str) -> list[FieldError]:
    """Validates a rule with its operations, groups, versions, resources and scope."""
    operations, at = rule.get("operations", ()), f"{path}.operations"
    errors = _list_errors(operations, at, "other operations")
    errors += items_errors(operations, _OPERATIONS.errors, at)
    errors += _list_errors(rule.get("apiGroups", ()), f"{path}.apiGroups", "other API groups")
    errors += _list_errors(rule.get("apiVersions", ()), f"{path}.apiVersions", "other API versions")
    for index, version in enumerate(rule.get("apiVersions", ())):
        if not version:
            errors.append(required(f"{path}.apiVersions[{index}]"))
    errors += _resources_errors(rule.get("resources", ()), f"{path}.resources")
    return errors + _SCOPES.errors(rule.get("scope"), f"{path}.scope")


def _list_errors(values: Sequence[str], path: str, others: str) -> list[FieldError]:
    if not values:
        return [required(path)]
    if len(values) > 1 and _ANY in values:
        return [invalid(path, list(values), f"if '*' is present, must not specify {others}")]
    return []


def _resources_errors(resources: Sequence[str], path: str) -> list[FieldError]:
    errors = [] if resources else [required(path)]
    with_any_subresource: set[str] = set()
    of_any_resource: set[str] = set()
    for index, name in enumerate(resources):
        at = f"{path}[{index}]"
        resource, slash, subresource = name.partition("/")
        if not name:
            errors.append(required(at))
        if not slash:
            continue
        if resource in with_any_subresource:
            errors.append(invalid(at, name, f"if '{resource}/*' is present, must not specify {name}"))
        if subresource in of_any_resource:
            errors.append(invalid(at, name, f"if '*/{subresource}' is present, must not specify {name}"))
        if subresource == _ANY:
            with_any_subresource.add(resource)
        if resource == _ANY:
            of_any_resource.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, list(resources), "if '*/*' is present, must not specify other resources"))
    # As upstream, only the last name without a subresource decides.
    plain = [name for name in resources if name and "/" not in name]
    if _ANY in plain and plain[-1] != _ANY:
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, list(resources), detail))
    return errors


def match_conditions_errors(
    conditions: Sequence[Document], path: str, *, compiled: Callable[[str], AdmissionExpression] = compile_condition
) -> list[FieldError]:
    """Validates match conditions, which `compiled` compiles."""
    errors: list[FieldError] = []
    if len(conditions) > _MAX_MATCH_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MAX_MATCH_CONDITIONS))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        at, name = f"{path}[{index}]", condition.get("name", "")
        errors += _condition_errors(condition, at, compiled)
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        elif name:
            seen.add(name)
    return errors


def _condition_errors(
    condition: Mapping[str, str], path: str, compiled: Callable[[str], AdmissionExpression]
) -> list[FieldError]:
    expression, name = condition.get("expression", "").strip(), condition.get("name", "")
    errors: list[FieldError] = []
    if not expression:
        errors.append(required(f"{path}.expression"))
    elif problem := compiled(expression).error:
        errors.append(invalid(f"{path}.expression", expression, problem))
    named = each_invalid(f"{path}.name", name, qualified_name_errors(name))
    return errors + (named if name else [required(f"{path}.name")])


def enum_items_errors(values: Sequence[str], supported: OneOf, path: str) -> list[FieldError]:
    """Validates a list of unique values of an enum."""
    repeated = repeated_indexes(values)
    errors: list[FieldError] = []
    for index, value in enumerate(values):
        if value not in supported.values:
            errors.append(not_supported(f"{path}[{index}]", TypedString(value), supported.values))
        if index in repeated:
            errors.append(duplicate(f"{path}[{index}]", TypedString(value)))
    return errors
