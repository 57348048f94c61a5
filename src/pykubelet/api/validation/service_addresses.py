"""Complaints about the addresses of a service inside its cluster.

Upstream: ValidateServiceClusterIPsRelatedFields, validateUpgradeDowngradeClusterIPs and
validateUpgradeDowngradeIPFamilies in pkg/apis/core/validation/validation.go
"""

from pykubelet.api.names import ip_errors
from pykubelet.api.validation.field_errors import (
    FieldError,
    Named,
    duplicate,
    each_invalid,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.wire import Document

NO_ADDRESS = "None"
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_FIXED = "may not change once set"


def is_headless(spec: Document) -> bool:
    """Whether the service has no address, only endpoints."""
    return bool(spec.get("clusterIPs") == [NO_ADDRESS])


def family_of(address: str) -> str:
    """Which of both families an address belongs to."""
    return "IPv6" if ":" in address else "IPv4"


def address_errors(spec: Document, before: Document) -> list[FieldError]:
    """What is wrong with addresses and families; `before` is the spec as it was, empty for a new service."""
    if spec["type"] == "ExternalName":
        return []
    at = "spec.clusterIPs"
    first, addresses, families = spec.get("clusterIP", ""), spec.get("clusterIPs", []), spec.get("ipFamilies", ())
    errors: list[FieldError] = []
    if first and not addresses:
        errors.append(required(at))
    elif first and addresses[0] != first:
        errors.append(invalid(at, addresses, "first value must match `clusterIP`"))
    elif addresses and not first:
        errors.append(invalid(at, addresses, "must be empty when `clusterIP` is not specified"))
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            errors.append(not_supported(f"spec.ipFamilies[{index}]", Named(family), _FAMILIES))
        if family in families[:index]:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", Named(family)))
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", Named(policy), _FAMILY_POLICIES))
    syntax_errors = _syntax_errors(addresses, before.get("clusterIPs", ()))
    errors += syntax_errors
    if len(addresses) > 2:
        errors.append(invalid(at, addresses, "may only hold up to 2 values"))
    return errors if syntax_errors else errors + _family_errors(spec)


def _syntax_errors(addresses: list[str], known: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, address in enumerate(addresses):
        if index == 0 and address == NO_ADDRESS:
            if len(addresses) > 1:
                errors.append(invalid("spec.clusterIPs", addresses, "'None' must be the first and only value"))
        elif address not in known:
            errors += each_invalid(f"spec.clusterIPs[{index}]", address, ip_errors(address))
    return errors


def _family_errors(spec: Document) -> list[FieldError]:
    addresses, families = spec.get("clusterIPs", []), spec.get("ipFamilies", ())
    errors: list[FieldError] = []
    if len(addresses) > 1 and len({family_of(address) for address in addresses}) < 2:
        errors.append(invalid("spec.clusterIPs", addresses, "may specify no more than one IP for each IP family"))
    if is_headless(spec):
        return errors
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _FAMILIES and family_of(address) != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"spec.clusterIPs[{index}]", address, detail))
    return errors


def address_change_errors(new: Document, old: Document) -> list[FieldError]:
    """What is wrong with a change of addresses and families: the first of each stays."""
    if "ExternalName" in {new["type"], old["type"]}:
        return []
    if is_headless(new) and is_headless(old):
        return []
    errors = _cluster_ips_change_errors(new, old)
    return errors if is_headless(new) != is_headless(old) else errors + _families_change_errors(new, old)


def _cluster_ips_change_errors(new: Document, old: Document) -> list[FieldError]:
    at, after, before = "spec.clusterIPs", new.get("clusterIPs", []), old.get("clusterIPs", [])
    shown = after or None
    if len(after) == len(before):
        changed = [index for index, address in enumerate(before) if address != after[index]]
        return [invalid(f"{at}[{index}]", shown, _FIXED) for index in changed]
    errors: list[FieldError] = []
    if not after:
        errors.append(invalid(f"{at}[0]", shown, "primary clusterIP can not be unset"))
    elif before and after[0] != before[0]:
        errors.append(invalid(f"{at}[0]", shown, _FIXED))
    if len(before) > len(after) == 1:
        errors += _released_errors(new, "clusterIP")
    return errors


def _families_change_errors(new: Document, old: Document) -> list[FieldError]:
    at, after, before = "spec.ipFamilies[0]", new.get("ipFamilies", []), old.get("ipFamilies", [])
    addresses = new.get("clusterIPs") or None
    if len(after) == len(before):
        return [invalid(at, after, _FIXED) for index, family in enumerate(before) if family != after[index]]
    errors: list[FieldError] = []
    if len(before) > len(after) and not addresses:
        errors.append(invalid(at, after or None, "primary ipFamily can not be unset"))
    if after and before and after[0] != before[0]:
        errors.append(invalid(at, addresses, _FIXED))
    if len(before) > len(after) == 1:
        errors += _released_errors(new, "ipFamily")
    return errors


def _released_errors(spec: Document, what: str) -> list[FieldError]:
    policy = spec.get("ipFamilyPolicy")
    if policy == "SingleStack":
        return []
    shown = None if policy is None else Named(policy)
    return [invalid("spec.ipFamilyPolicy", shown, f"must be set to 'SingleStack' when releasing the secondary {what}")]
