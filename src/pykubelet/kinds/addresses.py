"""IP addresses and CIDR blocks: validation of endpoint addresses, warnings about unusual spellings.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go,
staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go, pkg/apis/core/validation/validation.go
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from pykubelet.api.field_errors import FieldError, each_invalid, go_quote, invalid, required
from pykubelet.api.names import (
    Address,
    Network,
    cidr_errors,
    dns1123_label_errors,
    dns1123_subdomain_errors,
    ip_errors,
    parse_address,
    parse_network,
    unmap_ipv4,
)
from pykubelet.api.serializer import Document
from pykubelet.kinds.columns import at

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PLAIN_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")
_PREFIX_LENGTH = re.compile("0|[1-9][0-9]{0,2}")
_INVALID_LATER = "will be considered invalid in a future Kubernetes release"
# IPv4 addresses are the last 32 of the 128 bits of IPv4-mapped IPv6 addresses.
_IPV4_STARTS_AT = 96


def endpoint_ip_errors(text: str, path: str) -> list[FieldError]:
    """Validates the address of an endpoint: no unspecified, loopback or link-local address."""
    address = parse_address(text)
    if address is None:
        return [invalid(path, text, "must be a valid IP address")]
    plain = unmap_ipv4(address)
    problems = {
        f"may not be unspecified ({text})": plain.is_unspecified,
        "may not be in the loopback range (127.0.0.0/8, ::1/128)": plain.is_loopback,
        "may not be in the link-local range (169.254.0.0/16, fe80::/10)": plain.is_link_local,
        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)": _is_link_local_multicast(plain),
    }
    return [invalid(path, text, problem) for problem, applies in problems.items() if applies]


def _is_link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.packed[:3] == b"\xe0\x00\x00"
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def canonical_ip_errors(text: str, path: str) -> list[FieldError]:
    """Validates an address that must be in canonical form, as newer fields require."""
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


def canonical_cidr_errors(text: str, path: str) -> list[FieldError]:
    """Validates a range that must be in canonical form, without bits after its prefix."""
    network = parse_network(text)
    if network is None:
        return each_invalid(path, text, cidr_errors(text))
    written, _, length = text.partition("/")
    address = parse_address(written)
    if any(len(part) > 1 and part.startswith("0") for part in (*_dotted_parts(written), length)):
        detail = "must not have leading 0s in IP or prefix length"
    elif isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        detail = "must not have an IPv4-mapped IPv6 address"
    elif address != network.network_address:
        detail = "must not have bits set beyond the prefix length"
    elif text != str(network):
        detail = f"must be in canonical form ({go_quote(str(network))})"
    else:
        return []
    return [invalid(path, text, detail)]


def _dotted_parts(text: str) -> list[str]:
    return re.findall("[0-9]+", text.rpartition(":")[2]) if "." in text else []


def domain_name_errors(name: str, path: str) -> list[FieldError]:
    """Validates a domain name of at least two labels."""
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


def ip_warnings(text: str, path: str) -> list[str]:
    """Warns about an address in an unusual form; returns nothing for a text that is not an address."""
    # Nearly all addresses are plain IPv4, and every pod status has some.
    if _PLAIN_IPV4.fullmatch(text):
        return []
    address = parse_address(text)
    if address is None:
        return []
    plain, strict = unmap_ipv4(address), _strict_address(text)
    if strict is None or plain is not address:
        return [f"{path}: non-standard IP address {go_quote(text)} {_INVALID_LATER}: use {go_quote(str(plain))}"]
    if str(strict) == text:
        return []
    return [f"{path}: IPv6 address {go_quote(text)} should be in RFC 5952 canonical format ({go_quote(str(strict))})"]


def _strict_address(text: str) -> Address | None:
    """Parses an address, rejecting leading zeros."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def cidr_warnings(text: str, path: str) -> list[str]:
    """Warns about a CIDR block in an unusual form; returns nothing for a text that is not a CIDR block."""
    network = parse_network(text)
    if network is None:
        return []
    written, _, length = text.partition("/")
    address = parse_address(written)
    assert address is not None
    shown = go_quote(_network_text(network))
    value, warnings = go_quote(text), list[str]()
    if address != network.network_address:
        single = go_quote(f"{unmap_ipv4(address)}/{network.max_prefixlen}")
        warnings.append(f"{path}: CIDR value {value} is ambiguous in this context (should be {shown} or {single}?)")
    strict = _strict_address(written)
    if strict is None or unmap_ipv4(address) is not address or not _PREFIX_LENGTH.fullmatch(length):
        warnings.append(f"{path}: non-standard CIDR value {value} {_INVALID_LATER}: use {shown}")
    if not warnings and (canonical := f"{strict}/{length}") != text:
        canonical = go_quote(canonical)
        warnings.append(f"{path}: IPv6 CIDR value {value} should be in RFC 5952 canonical format ({canonical})")
    return warnings


def _network_text(network: Network) -> str:
    """The network as Go prints it: as IPv4 if its address is an IPv4 or IPv4-mapped address."""
    address, length = unmap_ipv4(network.network_address), network.prefixlen
    if isinstance(network.network_address, IPv6Address) and isinstance(address, IPv4Address):
        length = max(0, length - _IPV4_STARTS_AT)
    return str(ip_network((address, length), strict=False))


def load_balancer_warnings(document: Document, _old: Document) -> list[str]:
    """Warns about the addresses in the status of a Service or an Ingress."""
    ingress = document.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    return ips_warnings([each.get("ip", "") for each in ingress], "status.loadBalancer.ingress")


def ips_warnings(texts: list[str] | tuple[str, ...], path: str) -> list[str]:
    return [warning for index, text in enumerate(texts) for warning in ip_warnings(text, f"{path}[{index}]")]


def load_balancer_addresses(document: Document) -> str:
    """The addresses in the status of a Service or an Ingress as one table cell."""
    points = at(document, "status", "loadBalancer").get("ingress") or ()
    return ",".join(sorted({each.get("ip") or each.get("hostname") or "" for each in points} - {""}))
