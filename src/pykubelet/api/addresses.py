"""IP addresses and networks as the older fields of the API take them: zeros may lead each part.

In: text. Out: the address or network, or None if the text is none.

Upstream: ParseIPSloppy and ParseCIDRSloppy in vendor/k8s.io/utils/net
"""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from pykubelet.api.names import cidr_errors, ip_errors

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address | None:
    """The address; one of version 4 that is written as one of version 6 stays what it is written as."""
    if ip_errors(text):
        return None
    if ":" not in text:
        return ip_address(_without_leading_zeros(text))
    *groups, last = text.split(":")
    last = _without_leading_zeros(last) if "." in last else _short_group(last)
    return ip_address(":".join([*map(_short_group, groups), last]))


def parse_network(text: str) -> Network | None:
    """The network that an address and a prefix length lie in."""
    if cidr_errors(text):
        return None
    address, _, length = text.partition("/")
    return ip_network((str(parse_address(address)), int(length)), strict=False)


def unmapped(address: Address) -> Address:
    """The address that Go treats as the same: of version 4, however it is written."""
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def _without_leading_zeros(text: str) -> str:
    return ".".join(str(int(part)) for part in text.split("."))


def _short_group(group: str) -> str:
    return group[-4:] if group else group
