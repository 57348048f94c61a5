"""Creates, removes and enters networks of pods in the network namespace of the calling thread; blocks.

A pod's `eth0` and its peer on the node are a veth pair. Both ends have addresses without a subnet (/32), and everything is
routed: there is no bridge, so replies to a Service pass the node's connection tracking without br_netfilter. The node has
the first address of the range on each link and is the pods' gateway. Probes come from that address.

Everything is in the kernel and in the folder of the namespaces, so it survives the node's agent. Removing a namespace removes
its links, addresses and routes. The holder (`holder.py`) imports this module too, so it imports little.
"""

import ipaddress
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path

from pykubelet.podnetwork.gateway import add_gateway, remove_gateway
from pykubelet.podnetwork.namespaces import NetworkNamespaces
from pykubelet.podnetwork.netlink import LINK_NAME_BYTES, LOOPBACK_INDEX, POD_LINKS, Netlink

_LINK_PREFIX, _POD_LINK, _POD_LINK_INDEX = "veth", "eth0", 2
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_LINKS = Path("/proc/sys/net/ipv4/conf")
_IPV6_LINKS = Path("/proc/sys/net/ipv6/conf")
_UNPRIVILEGED_PORTS = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")


class NetworkOperations:
    """The networks of pods, by the names of their namespaces in `folder`; `pod_cidr` may be empty if none is created."""

    def __init__(self, folder: Path, pod_cidr: str) -> None:
        self.namespaces = NetworkNamespaces(folder)
        self._range = ipaddress.IPv4Network(pod_cidr) if pod_cidr else None
        self.addresses: dict[str, str] = {}
        """The addresses of networks by name."""
        self._last = ""

    @property
    def gateway(self) -> str:
        """The node's address for pods: the first one of the range."""
        assert self._range is not None
        return str(self._range[1])

    def take_over(self, known: Mapping[str, str], last: str) -> list[str]:
        """Take over networks of earlier agents, `known` with their addresses, and remove others; returns those that are gone.

        `last` is the newest address.
        """
        self._last, self.addresses = last, {}
        links = {name for _, name in socket.if_nameindex()}
        for name in self.namespaces.names():
            if name not in known:
                self.namespaces.remove(name)
            elif _link_name(name) in links and self.namespaces.is_complete(name):
                self.addresses[name] = known[name]
        lost = [name for name in known if name not in self.addresses]
        for name in lost:
            self.namespaces.remove(name)
        return lost

    def forward(self) -> None:
        """Turn on forwarding of packets and add the pods' gateway; OSError if this user may not.

        The links of pods of earlier versions join those by whose group rules recognise them, and lose IPv6.
        """
        _FORWARDING.write_text("1")
        self.namespaces.make_folder()
        add_gateway(self.gateway)
        host = Netlink()
        try:
            for name in self.addresses:
                host.join_group(socket.if_nametoindex(_link_name(name)), POD_LINKS)
                _disable_ipv6(_link_name(name))
        finally:
            host.close()

    def release(self) -> None:
        """Remove the gateway where only the node needs it; the links of pods have it too."""
        remove_gateway(self.gateway)

    def attach(self, name: str, is_on_loopback: bool = False) -> str:
        """Create a network; returns the pod's address. OSError leaves nothing behind."""
        host = Netlink()
        try:
            self.addresses[name] = self._connect(name, host)
            if is_on_loopback:
                # Packets from 127.0.0.1 may leave through this link. The table drops those that come to 127.0.0.0/8.
                (_LINKS / _link_name(name) / "route_localnet").write_text("1")
        except OSError:
            self.addresses.pop(name, None)
            self.namespaces.remove(name)
            raise
        finally:
            host.close()
        self._last = self.addresses[name]
        return self._last

    def detach(self, name: str) -> None:
        """Remove a network if it exists."""
        self.namespaces.remove(name)
        self.addresses.pop(name, None)

    def open_socket(self, name: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """A socket in a pod's network, or with an empty name in that of the node; it stays in it wherever it is used."""
        if not name:
            return socket.socket(family, kind, protocol)
        with self.namespaces.entered(name):
            return socket.socket(family, kind, protocol)

    def _connect(self, name: str, host: Netlink) -> str:
        gateway = self.gateway
        with self.namespaces.created(name):
            allow_all_ports()
            inside = Netlink()
        try:
            with self.namespaces.path(name).open("rb") as namespace:
                link = _link_name(name)
                host.create_veth(link, peer=_POD_LINK, peer_index=_POD_LINK_INDEX, namespace=namespace.fileno())
            _disable_ipv6(link)
            index = socket.if_nametoindex(link)
            host.add_address(gateway, index)
            address = self._route(host, index, gateway)
            for one in (LOOPBACK_INDEX, _POD_LINK_INDEX):
                inside.set_up(one)
            inside.add_address(address, _POD_LINK_INDEX)
            inside.add_route(gateway, _POD_LINK_INDEX, source=address)
            inside.add_default_route(gateway, _POD_LINK_INDEX)
        finally:
            inside.close()
        return address

    def _route(self, host: Netlink, index: int, gateway: str) -> str:
        """Route the next free address to a link; returns the address."""
        assert self._range is not None
        for address in free_addresses(self._range, self.addresses.values(), self._last):
            try:
                host.add_route(address, index, source=gateway)
            except FileExistsError:
                # Another node of this machine has the same range, or a pod's network is just being removed.
                continue
            return address
        raise OSError(f"no free address in {self._range}")


def _disable_ipv6(link: str) -> None:
    """Disable IPv6, which pods do not have, at the node's end of a link.

    Otherwise a pod could have the node send it all IPv6 packets, by advertising itself as a router (CVE-2020-10749).
    """
    with suppress(FileNotFoundError):
        (_IPV6_LINKS / link / "disable_ipv6").write_text("1")


def allow_all_ports() -> None:
    """Let every user listen on each port of this thread's namespace.

    As containerd does: a pod need not be root to listen on port 80 of an address of its own.
    """
    _UNPRIVILEGED_PORTS.write_text("0")


def free_addresses(pod_range: ipaddress.IPv4Network, taken: Collection[str], last: str) -> Iterator[str]:
    """The addresses that a new pod may get, starting after the last one, so that none is soon used again.

    Network and broadcast address and the gateway, the first address, are left out.
    """
    first, end = int(pod_range.network_address) + 2, int(pod_range.broadcast_address)
    after = int(ipaddress.IPv4Address(last)) + 1 if last else first
    start = after if first <= after < end else first
    used = frozenset(taken)
    for number in chain(range(start, end), range(first, start)):
        address = str(ipaddress.IPv4Address(number))
        if address not in used:
            yield address


def _link_name(name: str) -> str:
    """The name of the link on the node that leads to a pod."""
    return f"{_LINK_PREFIX}{name}"[:LINK_NAME_BYTES]
