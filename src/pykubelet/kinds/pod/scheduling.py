"""Validation of scheduling fields: affinity, tolerations, topology spread constraints, gates.

Upstream: pkg/apis/core/validation/validation.go
"""

from collections.abc import Sequence

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    duplicate,
    each_invalid,
    forbidden,
    invalid,
    items_errors,
    not_supported,
    required,
)
from pykubelet.api.names import (
    dns1123_label_errors,
    dns1123_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)
from pykubelet.api.serializer import Document
from pykubelet.kinds.metadata import label_name_errors, label_selector_errors, label_values_errors, operator_errors
from pykubelet.kinds.rules import OneOf, fields_errors, repeated_indexes

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SCHEDULE_ACTIONS = OneOf(("DoNotSchedule", "ScheduleAnyway"))
_SPREAD_RULES = dict.fromkeys(("nodeAffinityPolicy", "nodeTaintsPolicy"), OneOf(("Honor", "Ignore")))
_NEEDS_SELECTOR = "must not be specified when labelSelector is not set"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity_errors(affinity: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "nodeAffinity" in affinity:
        errors += _node_affinity_errors(affinity["nodeAffinity"], f"{path}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        if kind in affinity:
            errors += _pod_affinity_errors(affinity[kind], f"{path}.{kind}")
    return errors


def _node_affinity_errors(affinity: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if REQUIRED in affinity:
        errors += node_selector_errors(affinity[REQUIRED], f"{path}.{REQUIRED}")
    for index, term in enumerate(affinity.get(PREFERRED, ())):
        at = f"{path}.{PREFERRED}[{index}]"
        errors += _weight_errors(term, at)
        # A preference that matches nothing is harmless, so its values are not validated.
        errors += _node_term_errors(term.get("preference", {}), f"{at}.preference", check_values=False)
    return errors


def node_selector_errors(selector: Document, path: str) -> list[FieldError]:
    terms, at = selector.get("nodeSelectorTerms", ()), f"{path}.nodeSelectorTerms"
    if not terms:
        return [required(at, "must have at least one node selector term")]
    return [
        error
        for index, term in enumerate(terms)
        for error in _node_term_errors(term, f"{at}[{index}]", check_values=True)
    ]


def _node_term_errors(term: Document, path: str, *, check_values: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        at = f"{path}.matchExpressions[{index}]"
        errors += _label_requirement_errors(requirement, at)
        if check_values:
            errors += label_values_errors(requirement.get("values", ()), f"{at}.values")
    return errors + items_errors(term.get("matchFields", ()), _field_requirement_errors, f"{path}.matchFields")


def _label_requirement_errors(requirement: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if requirement.get("operator") not in {"Gt", "Lt"}:
        errors = operator_errors(requirement, path)
    elif len(requirement.get("values", ())) != 1:
        errors = [required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")]
    return errors + label_name_errors(requirement.get("key", ""), f"{path}.key")


def _field_requirement_errors(requirement: Document, path: str) -> list[FieldError]:
    key, operator = requirement.get("key", ""), requirement.get("operator", "")
    values: Sequence[str] = requirement.get("values", ())
    errors: list[FieldError] = []
    if operator not in {"In", "NotIn"}:
        errors.append(invalid(f"{path}.operator", TypedString(operator), "not a valid selector operator"))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", detail))
    if key != "metadata.name":
        return [*errors, invalid(f"{path}.key", key, "not a valid field selector key")]
    for index, value in enumerate(values):
        errors += each_invalid(f"{path}.values[{index}]", value, dns1123_subdomain_errors(value))
    return errors


def _weight_errors(term: Document, path: str) -> list[FieldError]:
    weight = term.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def _pod_affinity_errors(affinity: Document, path: str) -> list[FieldError]:
    errors = items_errors(affinity.get(REQUIRED, ()), _pod_term_errors, f"{path}.{REQUIRED}")
    for index, weighted in enumerate(affinity.get(PREFERRED, ())):
        at = f"{path}.{PREFERRED}[{index}]"
        errors += _weight_errors(weighted, at)
        errors += _pod_term_errors(weighted.get("podAffinityTerm", {}), f"{at}.podAffinityTerm")
    return errors


def _pod_term_errors(term: Document, path: str) -> list[FieldError]:
    selector, topology_key = term.get("labelSelector"), term.get("topologyKey", "")
    errors = label_selector_errors(selector, f"{path}.labelSelector")
    errors += label_selector_errors(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for namespace in term.get("namespaces", ()):
        errors += each_invalid(f"{path}.namespace", namespace, dns1123_label_errors(namespace))
    errors += selector_keys_errors(term.get("matchLabelKeys", ()), term.get("mismatchLabelKeys", ()), selector, path)
    if not topology_key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + label_name_errors(topology_key, f"{path}.topologyKey")


def selector_keys_errors(
    match_keys: Sequence[str], mismatch_keys: Sequence[str], selector: Document | None, path: str
) -> list[FieldError]:
    """Validates keys whose values are merged from the pod's labels into the selector."""
    errors = _label_keys_errors(match_keys, selector, f"{path}.matchLabelKeys")
    errors += _label_keys_errors(mismatch_keys, selector, f"{path}.mismatchLabelKeys")
    if selector is not None:
        positions = {key: index for index, key in enumerate(match_keys)}
        known = set(selector.get("matchLabels", {}))
        for requirement in selector.get("matchExpressions", ()):
            key = requirement.get("key", "")
            if key in positions and key in known:
                at = f"{path}[{positions[key]}]"
                errors.append(invalid(at, key, "exists in both matchLabelKeys and labelSelector"))
            known.add(key)
    mismatched = set(mismatch_keys)
    for index, key in enumerate(match_keys):
        if key in mismatched:
            at = f"{path}.matchLabelKeys[{index}]"
            errors.append(invalid(at, key, "exists in both matchLabelKeys and mismatchLabelKeys"))
    return errors


def _label_keys_errors(keys: Sequence[str], selector: Document | None, path: str) -> list[FieldError]:
    if not keys:
        return []
    if selector is None:
        return [forbidden(path, _NEEDS_SELECTOR)]
    return items_errors(keys, label_name_errors, path)


def tolerations_errors(tolerations: Sequence[Document], path: str) -> list[FieldError]:
    """Validates the tolerations of a pod or a RuntimeClass."""
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        at = f"{path}[{index}]"
        key, operator, effect = (toleration.get(name, "") for name in ("key", "operator", "effect"))
        if key:
            errors += label_name_errors(key, f"{at}.key")
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{at}.operator", TypedString(operator), detail))
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{at}.effect", TypedString(effect), detail))
        errors += _operator_errors(operator, toleration.get("value", ""), f"{at}.operator")
        if effect and effect not in _EFFECTS:
            errors.append(not_supported(f"{at}.effect", TypedString(effect), _EFFECTS))
    return errors


def _operator_errors(operator: str, value: str, path: str) -> list[FieldError]:
    if operator in {"Equal", ""}:
        found = label_value_errors(value)
        return [invalid(path, value, ";".join(found))] if found else []
    if operator == "Exists":
        return [invalid(path, value, "value must be empty when `operator` is 'Exists'")] if value else []
    return [not_supported(path, TypedString(operator), ("Equal", "Exists"))]


def readiness_gates_errors(gates: Sequence[Document], path: str) -> list[FieldError]:
    return items_errors(
        gates, lambda gate, at: label_name_errors(gate.get("conditionType", ""), f"{at}.conditionType"), path
    )


def scheduling_gates_errors(gates: Sequence[Document], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        at, name = f"{path}[{index}]", gate.get("name", "")
        errors += each_invalid(at, name, qualified_name_errors(name))
        if name in seen:
            errors.append(duplicate(at, name))
        seen.add(name)
    return errors


def topology_spread_errors(constraints: Sequence[Document], path: str, *, merged_keys: bool) -> list[FieldError]:
    """Validates the constraints; `merged_keys`: match label keys become part of the selector."""
    errors: list[FieldError] = []
    repeated_later = _repeated_later(constraints)
    for index, constraint in enumerate(constraints):
        at, key, action = f"{path}[{index}]", constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        errors += _positive_errors(constraint.get("maxSkew", 0), f"{at}.maxSkew")
        if not key:
            errors.append(required(f"{at}.topologyKey", "can not be empty"))
        errors += _SCHEDULE_ACTIONS.errors(action, f"{at}.whenUnsatisfiable")
        if index in repeated_later:
            errors.append(duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        errors += _min_domains_errors(constraint.get("minDomains"), action, f"{at}.minDomains")
        errors += fields_errors(constraint, _SPREAD_RULES, at)
        match_keys, selector = constraint.get("matchLabelKeys", ()), constraint.get("labelSelector")
        if merged_keys:
            errors += selector_keys_errors(match_keys, (), selector, at)
        else:
            errors += _spread_keys_errors(match_keys, selector, f"{at}.matchLabelKeys")
        errors += label_selector_errors(selector, f"{at}.labelSelector")
    return errors


def _repeated_later(constraints: Sequence[Document]) -> set[int]:
    """The indexes of constraints whose key and action appear again in a later one."""
    pairs = [(each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")) for each in reversed(constraints)]
    return {len(pairs) - 1 - index for index in repeated_indexes(pairs)}


def _positive_errors(value: int, path: str) -> list[FieldError]:
    return [] if value > 0 else [invalid(path, value, "must be greater than zero")]


def _min_domains_errors(count: int | None, action: str, path: str) -> list[FieldError]:
    if count is None:
        return []
    errors = _positive_errors(count, path)
    if action != "DoNotSchedule":
        errors.append(invalid(path, count, f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"))
    return errors


def _spread_keys_errors(keys: Sequence[str], selector: Document | None, path: str) -> list[FieldError]:
    if not keys:
        return []
    errors = [forbidden(path, _NEEDS_SELECTOR)] if selector is None else []
    selector = selector or {}
    known = {*selector.get("matchLabels", {}), *(each.get("key", "") for each in selector.get("matchExpressions", ()))}
    for index, key in enumerate(keys):
        errors += label_name_errors(key, f"{path}[{index}]")
        if key in known:
            errors.append(invalid(f"{path}[{index}]", key, "exists in both matchLabelKeys and labelSelector"))
    return errors
