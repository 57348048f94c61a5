"""Finds the machine's own addresses, and tells whether a peer is this machine or one of its pods.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/net/interface.go
"""

import ipaddress
import re
import socket
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator
from pathlib import Path

from pykubelet.podnetwork.gateway import gateways

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

# Nothing is sent: the kernel only selects its source address. Documentation addresses of RFC 5737 and RFC 3849.
_FAR_AWAY = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_OWN_IPV4 = re.compile(r"\|-- (\S+)\s+/32 host LOCAL")


def node_address() -> str:
    """The machine's address that its pods can reach: of its default route, else its first global one; empty if none.

    The pods' gateway only if there is no other: nothing else reaches the machine by it.
    """
    if found := _address_of_default_route():
        return found
    usable, last = [str(own) for own in own_addresses() if is_usable(str(own))], gateways()
    return next((own for own in usable if own not in last), next(iter(usable), ""))


def own_addresses(proc_net: Path = Path("/proc/net")) -> tuple[IPAddress, ...]:
    """The addresses of all interfaces of this machine, loopback included, IPv4 first."""
    return tuple(dict.fromkeys((*_own_ipv4(proc_net / "fib_trie"), *_own_ipv6(proc_net / "if_inet6"))))


def is_local_peer(peer: str, own: Collection[IPAddress], pod_networks: Iterable[IPNetwork]) -> bool:
    """Whether a connection's peer is this machine, whose addresses are `own`, or a pod in one of the networks.

    A link-local peer is neither: its address is unique on one link only, and another link may have it too.
    """
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_link_local or address.is_unspecified:
        return False
    return address.is_loopback or address in own or any(address in network for network in pod_networks)


class ReportedAddresses:
    """The addresses that pods report; two pods may have one while it passes from one to the other."""

    def __init__(self) -> None:
        self._pods: dict[Hashable, frozenset[str]] = {}
        self._holders: Counter[str] = Counter()

    def __contains__(self, address: object) -> bool:
        return address in self._holders

    def put(self, pod: Hashable, addresses: frozenset[str]) -> None:
        """Replace the addresses of a pod; without any, it is forgotten."""
        old = self._pods.pop(pod, frozenset())
        if addresses:
            self._pods[pod] = addresses
        self._holders.update(addresses - old)
        for address in old - addresses:
            self._holders[address] -= 1
            if not self._holders[address]:
                del self._holders[address]


def is_usable(address: str) -> bool:
    """Whether an address can be a node's: a unicast address that others can reach."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    return not (ip.is_loopback or ip.is_multicast or ip.is_link_local or ip.is_unspecified)


def is_ours(address: str) -> bool:
    """Whether a usable address belongs to an interface of this machine."""
    if not is_usable(address):
        return False
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _address_of_default_route() -> str:
    for family, target in _FAR_AWAY:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as asked:
                asked.connect((target, 9))
                address = str(asked.getsockname()[0])
        except OSError:
            continue
        if is_usable(address):
            return address
    return ""


def _own_ipv4(fib_trie: Path) -> Iterator[IPAddress]:
    """The addresses of the kernel's local routing table: an address that one may only bind to is not in it."""
    for address in _OWN_IPV4.findall(_text(fib_trie)):
        yield ipaddress.IPv4Address(address)


def _own_ipv6(if_inet6: Path) -> Iterator[IPAddress]:
    for line in _text(if_inet6).splitlines():
        yield ipaddress.IPv6Address(bytes.fromhex(line.split(maxsplit=1)[0]))


def _text(path: Path) -> str:
    """The file's text; empty without it, as of a kernel that lacks one protocol."""
    try:
        return path.read_text()
    except OSError:
        return ""
