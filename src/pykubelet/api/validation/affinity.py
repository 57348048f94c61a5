"""Complaints about affinity: to nodes, to pods, and away from pods.

Upstream: validateAffinity and what it calls in pkg/apis/core/validation/validation.go
"""

from collections.abc import Sequence

from pykubelet.api.names import dns1123_label_errors, dns1123_subdomain_errors
from pykubelet.api.validation.field_errors import FieldError, Named, each_invalid, invalid, required
from pykubelet.api.validation.metadata import (
    label_name_errors,
    label_selector_errors,
    label_values_errors,
    operator_errors,
)
from pykubelet.api.validation.scheduling import selector_keys_errors
from pykubelet.api.wire import Document

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity_errors(affinity: Document, path: str) -> list[FieldError]:
    """What is wrong with the affinity of a pod."""
    errors: list[FieldError] = []
    if "nodeAffinity" in affinity:
        errors += _node_affinity_errors(affinity["nodeAffinity"], f"{path}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        if kind in affinity:
            errors += _pod_affinity_errors(affinity[kind], f"{path}.{kind}")
    return errors


def _node_affinity_errors(affinity: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if _REQUIRED in affinity:
        errors += node_selector_errors(affinity[_REQUIRED], f"{path}.{_REQUIRED}")
    for index, term in enumerate(affinity.get(_PREFERRED, ())):
        at = f"{path}.{_PREFERRED}[{index}]"
        errors += _weight_errors(term, at)
        # A preference that can match nothing is pointless but harmless, so its values are not looked at.
        errors += _node_term_errors(term.get("preference", {}), f"{at}.preference", check_values=False)
    return errors


def node_selector_errors(selector: Document, path: str) -> list[FieldError]:
    """What is wrong with a choice of nodes."""
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
    for index, requirement in enumerate(term.get("matchFields", ())):
        errors += _field_requirement_errors(requirement, f"{path}.matchFields[{index}]")
    return errors


def _label_requirement_errors(requirement: Document, path: str) -> list[FieldError]:
    if requirement.get("operator") not in {"Gt", "Lt"}:
        errors = operator_errors(requirement, path)
    elif len(requirement.get("values", ())) != 1:
        detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        errors = [required(f"{path}.values", detail)]
    else:
        errors = []
    return errors + label_name_errors(requirement.get("key", ""), f"{path}.key")


def _field_requirement_errors(requirement: Document, path: str) -> list[FieldError]:
    key, operator = requirement.get("key", ""), requirement.get("operator", "")
    values: Sequence[str] = requirement.get("values", ())
    errors: list[FieldError] = []
    if operator not in {"In", "NotIn"}:
        errors.append(invalid(f"{path}.operator", Named(operator), "not a valid selector operator"))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", detail))
    if key != "metadata.name":
        return [*errors, invalid(f"{path}.key", key, "not a valid field selector key")]
    for index, value in enumerate(values):
        errors += each_invalid(f"{path}.values[{index}]", value, dns1123_subdomain_errors(value))
    return errors


def _pod_affinity_errors(affinity: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, term in enumerate(affinity.get(_REQUIRED, ())):
        errors += _pod_term_errors(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.get(_PREFERRED, ())):
        at = f"{path}.{_PREFERRED}[{index}]"
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


def _weight_errors(term: Document, path: str) -> list[FieldError]:
    weight = term.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]
