"""Complaints about the addresses of endpoints: their form, and ranges that no endpoint can be in.

Upstream: ValidateEndpointIP in pkg/apis/core/validation/validation.go, and IsValidIP and IsFullyQualifiedDomainName in
staging/src/k8s.io/apimachinery/pkg/util/validation
"""

import re
from ipaddress import IPv4Address, IPv6Address

from pykubelet.api.addresses import Address, parse_address, unmapped
from pykubelet.api.names import dns1123_label_errors, dns1123_subdomain_errors, ip_errors
from pykubelet.api.validation.field_errors import FieldError, each_invalid, go_quote, invalid, required


def endpoint_ip_errors(text: str, path: str) -> list[FieldError]:
    """Whether an endpoint can have this address."""
    address = parse_address(text)
    if address is None:
        return [invalid(path, text, "must be a valid IP address")]
    found = unmapped(address)
    problems = {
        f"may not be unspecified ({text})": found.is_unspecified,
        "may not be in the loopback range (127.0.0.0/8, ::1/128)": found.is_loopback,
        "may not be in the link-local range (169.254.0.0/16, fe80::/10)": found.is_link_local,
        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)": _is_link_local_multicast(found),
    }
    return [invalid(path, text, problem) for problem, is_there in problems.items() if is_there]


def canonical_ip_errors(text: str, path: str) -> list[FieldError]:
    """Whether the text is an address in the one form that newer fields take."""
    address = parse_address(text)
    if address is None:
        return each_invalid(path, text, ip_errors(text))
    errors: list[FieldError] = []
    if any(len(part) > 1 and part.startswith("0") for part in _dotted_parts(text)):
        errors.append(invalid(path, text, "must not have leading 0s"))
    elif isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        errors.append(invalid(path, text, "must not be an IPv4-mapped IPv6 address"))
    if errors or text == str(address):
        return errors
    return [invalid(path, text, f"must be in canonical form ({go_quote(str(address))})")]


def domain_name_errors(name: str, path: str) -> list[FieldError]:
    """Whether the text is a domain name of two labels at least."""
    if not name:
        return [required(path)]
    name = name.removesuffix(".")
    if problems := dns1123_subdomain_errors(name):
        return [invalid(path, name, ",".join(problems))]
    if "." not in name:
        return [invalid(path, name, "should be a domain with at least two segments separated by dots")]
    for label in name.split("."):
        if problems := dns1123_label_errors(label):
            return [invalid(path, label, ",".join(problems))]
    return []


def _dotted_parts(text: str) -> list[str]:
    return re.findall("[0-9]+", text.rpartition(":")[2]) if "." in text else []


def _is_link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.packed[:3] == b"\xe0\x00\x00"
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02
