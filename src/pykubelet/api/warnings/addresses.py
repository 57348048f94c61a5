"""Warnings about IP addresses and networks that are not written in the one form they should have.

Upstream: GetWarningsForIP and GetWarningsForCIDR in apimachinery/pkg/util/validation/ip.go
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from pykubelet.api.addresses import Address, Network, parse_address, parse_network, unmapped
from pykubelet.api.validation.field_errors import go_quote

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PLAIN_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")
_PREFIX_LENGTH = re.compile("0|[1-9][0-9]{0,2}")
_ONE_DAY = "will be considered invalid in a future Kubernetes release"
# Within version 6 the addresses of version 4 are the last 32 of its 128 bits.
_IPV4_STARTS_AT = 96


def ip_warnings(text: str, path: str) -> list[str]:
    """About an address; nothing about a text that is none."""
    # Nearly all addresses are this plain, and every status of a pod has some.
    if _PLAIN_IPV4.fullmatch(text):
        return []
    address = parse_address(text)
    if address is None:
        return []
    plain, strict = unmapped(address), _strict_address(text)
    if strict is None or plain is not address:
        use = f"use {go_quote(str(plain))}"
        return [f"{path}: non-standard IP address {go_quote(text)} {_ONE_DAY}: {use}"]
    if str(strict) == text:
        return []
    return [f"{path}: IPv6 address {go_quote(text)} should be in RFC 5952 canonical format ({go_quote(str(strict))})"]


def cidr_warnings(text: str, path: str) -> list[str]:
    """About a network; nothing about a text that is none."""
    network = parse_network(text)
    if network is None:
        return []
    written, _, length = text.partition("/")
    address = parse_address(written)
    assert address is not None
    shown = go_quote(_shown(network))
    warnings: list[str] = []
    if address != network.network_address:
        single = go_quote(f"{unmapped(address)}/{network.max_prefixlen}")
        warnings.append(
            f"{path}: CIDR value {go_quote(text)} is ambiguous in this context (should be {shown} or {single}?)"
        )
    strict = _strict_address(written)
    if strict is None or unmapped(address) is not address or not _PREFIX_LENGTH.fullmatch(length):
        warnings.append(f"{path}: non-standard CIDR value {go_quote(text)} {_ONE_DAY}: use {shown}")
    if not warnings and (canonical := f"{strict}/{length}") != text:
        warnings.append(
            f"{path}: IPv6 CIDR value {go_quote(text)} should be in RFC 5952 canonical format ({go_quote(canonical)})"
        )
    return warnings


def _strict_address(text: str) -> Address | None:
    """The address without leniency about zeros in front."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def _shown(network: Network) -> str:
    """The network as Go shows it: of version 4 if its address is, however it is written."""
    address, length = unmapped(network.network_address), network.prefixlen
    if isinstance(network.network_address, IPv6Address) and isinstance(address, IPv4Address):
        length = max(0, length - _IPV4_STARTS_AT)
    return str(ip_network((address, length), strict=False))
