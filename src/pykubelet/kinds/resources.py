"""Validation of resource names, amounts, requests, limits and claims; quantities must parse.

Upstream: pkg/apis/core/validation/validation.go, pkg/apis/core/helper/helpers.go
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    duplicate,
    each_invalid,
    forbidden,
    go_quote,
    invalid,
    not_found,
    not_supported,
    required,
)
from pykubelet.api.names import dns1123_label_errors, qualified_name_errors
from pykubelet.api.pod_resources import (
    HUGE_PAGES_PREFIX,
    POD_LEVEL_RESOURCES,
    container_sums,
    is_huge_page,
    is_native,
    is_overcommit_allowed,
    is_pod_level,
)
from pykubelet.api.quantity import MAX_INT64, MIN_INT64, Format, Quantity, QuantityError, parse_quantity
from pykubelet.api.serializer import Document
from pykubelet.kinds.metadata import NOT_NEGATIVE

_ResourceNameRule = Callable[[str, str], list[FieldError]]
_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
COUNTED_RESOURCES = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_STANDARD_RESOURCES = (
    _CONTAINER_RESOURCES
    | COUNTED_RESOURCES
    | {f"{side}.{name}" for side in ("requests", "limits") for name in _CONTAINER_RESOURCES}
    | {"storage", "requests.storage"}
)
_QUOTA_PREFIX = "requests."
# Upstream multiplies numbers of at most this many digits by ten repeatedly, except for these powers.
_FEW_DIGITS = 18


def container_resources_errors(resources: Document, claim_names: frozenset[str], path: str) -> list[FieldError]:
    return _requirements_errors(resources, container_resource_name_errors, claim_names, path)


def _requirements_errors(
    resources: Document, name_rule: _ResourceNameRule, claim_names: frozenset[str], path: str
) -> list[FieldError]:
    limits, requests = (
        {name: parse_quantity(text) for name, text in resources.get(side, {}).items()}
        for side in ("limits", "requests")
    )
    errors: list[FieldError] = []
    for name, quantity in limits.items():
        errors += _quantity_errors(name, quantity, name_rule, f"{path}.limits[{name}]")
        errors += _huge_page_errors(name, quantity, f"{path}.limits[{name}]")
    for name, quantity in requests.items():
        errors += _quantity_errors(name, quantity, name_rule, f"{path}.requests[{name}]")
        errors += _limit_errors(name, quantity, limits, path)
        errors += _huge_page_errors(name, quantity, f"{path}.requests[{name}]")
    names = [*limits, *requests]
    if any(map(is_huge_page, names)) and not {"cpu", "memory"} & set(names):
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors + _claim_references_errors(resources.get("claims", ()), claim_names, f"{path}.claims")


def _quantity_errors(name: str, quantity: Quantity, name_rule: _ResourceNameRule, path: str) -> list[FieldError]:
    return name_rule(name, path) + amount_errors(name, quantity, path)


def amount_errors(name: str, quantity: Quantity, path: str) -> list[FieldError]:
    """Validates an amount of a resource: not negative, and an integer where the resource requires it."""
    errors: list[FieldError] = []
    if quantity.unscaled < 0:
        errors.append(invalid(path, str(quantity), NOT_NEGATIVE))
    if (name in COUNTED_RESOURCES or is_extended(name)) and quantity.milli_value() % 1000:
        errors.append(invalid(path, TypedString(quantity), "must be an integer"))
    return errors


def is_extended(name: str) -> bool:
    """Whether the resource is an extended one; its name must leave room for the prefix of quotas."""
    if is_native(name) or name.startswith(_QUOTA_PREFIX):
        return False
    return not qualified_name_errors(f"{_QUOTA_PREFIX}{name}")


def _huge_page_errors(name: str, quantity: Quantity, path: str) -> list[FieldError]:
    if not is_huge_page(name) or _is_divisible(name, quantity):
        return []
    return [invalid(path, str(quantity), f"{quantity} is not positive integer multiple of {name}")]


def _is_divisible(name: str, quantity: Quantity) -> bool:
    try:
        size = parse_quantity(name.removeprefix(HUGE_PAGES_PREFIX))
    except QuantityError:
        return False
    return size.sign() > 0 and size.milli_value() % 1000 == 0 and quantity.value() % size.value() == 0


def _limit_errors(name: str, quantity: Quantity, limits: Mapping[str, Quantity], path: str) -> list[FieldError]:
    limit = limits.get(name)
    if limit is None:
        if is_overcommit_allowed(name):
            return []
        return [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    if quantity != limit and not is_overcommit_allowed(name):
        return [invalid(f"{path}.requests", str(quantity), f"must be equal to {name} limit of {limit}")]
    if quantity > limit:
        return [invalid(f"{path}.requests", str(quantity), f"must be less than or equal to {name} limit of {limit}")]
    return []


def _claim_references_errors(claims: Sequence[Document], claim_names: frozenset[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = Counter[str]()
    for index, claim in enumerate(claims):
        at, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            errors.append(required(at))
            continue
        errors += _repeated_claim_errors(name, claim.get("request", ""), seen, at)
        if name not in claim_names:
            errors.append(not_found(at, name, _known_claims(claim_names)))
    return errors


@lru_cache(maxsize=1)
def _known_claims(names: frozenset[str]) -> str:
    """Lists the claims of the pod, once for all containers that name others."""
    known = f": {', '.join(sorted(names))}" if names else " which is empty"
    return f"must be one of the names in pod.spec.resourceClaims{known}"


def _repeated_claim_errors(name: str, request: str, seen: Counter[str], path: str) -> list[FieldError]:
    """Validates that a claim or a request of it is used once; adds the new ones to `seen`."""
    if name in seen:
        return [duplicate(path, name)]
    errors = each_invalid(f"{path}.request", request, dns1123_label_errors(request)) if request else []
    key = f"{name}/{request}" if request else name
    if key in seen:
        errors.append(duplicate(path, key))
    elif not request:
        errors += [duplicate(path, name)] * seen[f"{name}/"]
    if request and key not in seen:
        seen[f"{name}/"] += 1
    seen[key] += 1
    return errors


def container_resource_name_errors(name: str, path: str) -> list[FieldError]:
    """Validates the name of a resource that a container requests."""
    errors = resource_name_errors(name, path)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not is_huge_page(name):
            errors.append(invalid(path, TypedString(name), "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(path, TypedString(name), "doesn't follow extended resource name standard"))
    return errors


def resource_name_errors(name: str, path: str) -> list[FieldError]:
    errors = each_invalid(path, TypedString(name), qualified_name_errors(name))
    is_standard = name in _STANDARD_RESOURCES or name.startswith((HUGE_PAGES_PREFIX, "requests.hugepages-"))
    if errors or "/" in name or is_standard:
        return errors
    return [invalid(path, TypedString(name), "must be a standard resource type or fully qualified")]


def pod_resources_errors(spec: Document, claim_names: frozenset[str], path: str) -> list[FieldError]:
    """Validates the resources of a pod, also against those of its containers."""
    resources = spec.get("resources")
    if resources is None:
        return []
    if spec.get("os", {}).get("name") == "windows":
        return [forbidden(path, "may not be set for a windows pod")]
    errors: list[FieldError] = []
    if "claims" in resources:
        errors.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    errors += _requirements_errors(resources, _pod_name_errors, claim_names, path)
    return errors + _consistency_errors(spec, resources, path)


def _pod_name_errors(name: str, path: str) -> list[FieldError]:
    errors = resource_name_errors(name, path)
    if errors or is_pod_level(name):
        return errors
    return [not_supported(path, TypedString(name), POD_LEVEL_RESOURCES)]


def _consistency_errors(spec: Document, resources: Document, path: str) -> list[FieldError]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    errors: list[FieldError] = []
    for name, total in container_sums(spec, "requests").items():
        if name in requests and total > parse_quantity(requests[name]):
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            errors.append(invalid(f"{path}.requests[{name}]", requests[name], detail))
    for name, total in container_sums(spec, "limits").items():
        if is_huge_page(name) and name in limits and total > parse_quantity(limits[name]):
            detail = f"must be greater than or equal to aggregate container limits of {total}"
            errors.append(invalid(f"{path}.limits[{name}]", limits[name], detail))
    for index, container in enumerate(spec.get("containers", ())):
        for name, text in container.get("resources", {}).get("limits", {}).items():
            if name in limits and parse_quantity(text) > parse_quantity(limits[name]):
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid(f"{path}.containers[{index}][{name}].limits", text, detail))
    return errors


def claim_names_of(claims: Sequence[Document]) -> frozenset[str]:
    """The names of the pod's claims that containers may refer to."""
    return frozenset(claim["name"] for claim in claims if claim.get("name"))


def fraction_warnings(amounts: Mapping[str, str], resource: str, path: str) -> list[str]:
    """Warns about a fractional amount of a resource that is counted in bytes."""
    text = amounts.get(resource)
    if text is None or not _is_fractional(text):
        return []
    shown = go_quote(str(parse_quantity(text)))
    return [f"{path}[{resource}]: fractional byte value {shown} is invalid, must be an integer"]


@lru_cache(maxsize=1024)
def _is_fractional(text: str) -> bool:
    quantity = parse_quantity(text)
    thousandths = quantity.milli_value()
    if MIN_INT64 < thousandths < MAX_INT64:
        return thousandths % 1000 != 0
    # Upstream counts thousandths in an int64: larger amounts (10Pi) wrap around, or count as 0 (10P).
    power = quantity.scale + 3
    has_few_digits = quantity.format is not Format.BINARY_SI and len(str(abs(quantity.unscaled))) <= _FEW_DIGITS
    if power > _FEW_DIGITS or (has_few_digits and power not in {1, 2, 3, 6, 9}):
        return False
    return bool(((quantity.unscaled * 10**power - MIN_INT64) % 2**64 + MIN_INT64) % 1000)
