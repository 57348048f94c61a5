"""ResourceQuota: limits on all objects of a namespace together.

Upstream: pkg/registry/core/resourcequota/strategy.go, pkg/apis/core/validation/validation.go,
pkg/apis/core/helper/helpers.go
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pykubelet.api.field_errors import FieldError, TypedString, invalid, required
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of, quantity_text
from pykubelet.kinds.kind import Kind, Strategy, normalized, restore_spec, restore_status
from pykubelet.kinds.metadata import IMMUTABLE, metadata_errors, metadata_update_errors
from pykubelet.kinds.resources import COUNTED_RESOURCES, amount_errors, resource_name_errors

_COMPUTE = frozenset(
    f"{side}{name}" for side in ("", "limits.", "requests.") for name in ("cpu", "memory", "ephemeral-storage")
)
_QUOTA_RESOURCES = _COMPUTE | COUNTED_RESOURCES | {"requests.storage"}
_POD_RESOURCES = frozenset({"pods"}) | {name for name in _COMPUTE if "ephemeral" not in name}
_POD_SCOPES = ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
_SCOPES = {
    **dict.fromkeys(_POD_SCOPES, _POD_RESOURCES),
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_ONLY = frozenset({"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"})


def _validate(quota: Document) -> list[FieldError]:
    return metadata_errors(quota["metadata"]) + _spec_errors(quota["spec"])


def _spec_errors(spec: Document) -> list[FieldError]:
    scopes = spec.get("scopes", [])
    errors = _amounts_errors(spec.get("hard", {}), "spec.hard")
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        errors += _scope_errors(scope, spec, "spec.scopes", scopes)
    errors += _conflicts_errors(scopes, spec, "spec.scopes")
    return errors + _selector_errors(spec) if "scopeSelector" in spec else errors


def _amounts_errors(amounts: Mapping[str, str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, amount in amounts.items():
        at = f"{path}[{name}]"
        errors += resource_name_errors(name, at)
        if "/" not in name and not _is_quota_resource(name):
            errors.append(invalid(at, TypedString(name), "must be a standard resource for quota"))
        errors += amount_errors(name, parse_quantity(amount), at)
    return errors


def _is_quota_resource(name: str) -> bool:
    return name in _QUOTA_RESOURCES or name.startswith(("hugepages-", "requests.hugepages-"))


def _scope_errors(scope: str, spec: Document, path: str, shown: object) -> list[FieldError]:
    """Reports limited resources that the scope does not cover."""
    fit = _SCOPES.get(scope, _QUOTA_RESOURCES)
    hard = spec.get("hard", {})
    unfit = [name for name in _QUOTA_RESOURCES if name in hard and name not in fit]
    return [invalid(path, shown, "unsupported scope applied to resource") for _ in unfit]


def _conflicts_errors(scopes: Sequence[str], spec: Document, path: str) -> list[FieldError]:
    return [invalid(path, spec.get("scopes"), "conflicting scopes") for pair in _CONFLICTS if pair <= set(scopes)]


def _selector_errors(spec: Document) -> list[FieldError]:
    at, requirements = "spec.scopeSelector.matchExpressions", spec["scopeSelector"].get("matchExpressions", [])
    shown = {"MatchExpressions": [_requirement_value(each) for each in requirements] or None}
    errors: list[FieldError] = []
    for requirement in requirements:
        scope = requirement["scopeName"]
        if scope not in _SCOPES:
            errors.append(invalid(f"{at}.scopeName", TypedString(scope), "unsupported scope"))
        errors += _scope_errors(scope, spec, at, shown)
        errors += _operator_errors(requirement, at)
    return errors + _conflicts_errors([each["scopeName"] for each in requirements], spec, at)


def _requirement_value(requirement: Document) -> Document:
    return {name[:1].upper() + name[1:]: requirement.get(name) for name in ("scopeName", "operator", "values")}


def _operator_errors(requirement: Document, path: str) -> list[FieldError]:
    operator, values = requirement["operator"], requirement.get("values", [])
    errors: list[FieldError] = []
    if requirement["scopeName"] in _EXISTS_ONLY and operator != "Exists":
        detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
        errors.append(invalid(f"{path}.operator", TypedString(operator), detail))
    if operator in {"In", "NotIn"}:
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(required(f"{path}.values", detail))
    elif operator not in {"Exists", "DoesNotExist"}:
        errors.append(invalid(f"{path}.operator", TypedString(operator), "not a valid selector operator"))
    elif values:
        detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        errors.append(invalid(f"{path}.values", values, detail))
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"]) + _spec_errors(new["spec"])
    scopes = new["spec"].get("scopes", [])
    if set(scopes) != set(old["spec"].get("scopes", ())):
        errors.append(invalid("spec.scopes", scopes or None, IMMUTABLE))
    return errors


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    for side in ("hard", "used"):
        errors += _amounts_errors(new["status"].get(side, {}), f"status.{side}")
    return errors


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, request, limit, age; requests and limits show used/hard of each resource."""
    hard, used = at(document, "status", "hard"), at(document, "status", "used")
    texts: dict[bool, list[str]] = {False: [], True: []}
    for resource in sorted(hard):
        is_limit = resource.startswith("limits.")
        texts[is_limit].append(f"{resource}: {quantity_text(used.get(resource))}/{quantity_text(hard[resource])}")
    return [name_of(document), ", ".join(texts[False]), ", ".join(texts[True]), created(document, age)]


KIND = Kind(
    resource=Resource("", "v1", "resourcequotas", "ResourceQuota"),
    definition="core.v1.ResourceQuota",
    short_names=("quota",),
    subresources=("status",),
    strategy=Strategy(
        default=normalized("core.v1.ResourceQuota"),
        prepare_create=lambda quota: {**quota, "status": {}},
        validate_create=_validate,
        prepare_update=restore_status,
        validate_update=_validate_update,
        prepare_status=restore_spec,
        validate_status=_validate_status,
    ),
    cells=_cells,
)
