"""Chooses the addresses of the machine that serve node ports.

Upstream: pkg/proxy/util/nodeport_addresses.go
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from pykubelet.podnetwork.node_address import IPAddress, own_addresses
from pykubelet.proxy.serviceport import IPFamily, is_loopback, of_family

PRIMARY = "primary"
"""Stands for the node's own addresses, as its object names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePortAddresses:
    """The addresses in `cidrs`; without any, the node's InternalIPs, or `machine_ip` if these are only loopback.

    Loopback is never included: packets to it cannot leave to an endpoint.
    """

    machine_ip: str = ""
    cidrs: tuple[IPv4Network | IPv6Network, ...] = ()
    own: Callable[[], Sequence[IPAddress]] = own_addresses

    def choose(self, internal_ips: Iterable[str] = ()) -> list[str]:
        """The addresses of a node with these InternalIPs. Reads the machine's addresses, which blocks for microseconds."""
        if self.cidrs:
            found = [one for one in self.own() if not one.is_loopback and not one.is_link_local]
            return [str(one) for one in found if any(one in cidr for cidr in self.cidrs)]
        named = list(internal_ips)
        usable = [address for family in IPFamily for address in of_family(named, family) if not is_loopback(address)]
        return usable or [self.machine_ip]


def parse_nodeport_addresses(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """The ranges of a comma-separated list; empty for `primary`. ValueError if it is malformed."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if PRIMARY in parts:
        if len(parts) > 1:
            raise ValueError(f"{PRIMARY} stands alone")
        return ()
    return tuple(ip_network(part) for part in parts)
