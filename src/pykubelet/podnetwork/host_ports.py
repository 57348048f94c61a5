"""The host ports of pods with networks of their own, as elements of maps of nftables.

A packet to an address of the machine finds its pod by protocol and port, so that a pod is one small transaction, whatever the
number of pods. A port with a `hostIP` is also found by that address, before one that is open at all addresses.

Upstream: staging/src/k8s.io/cri-api/pkg/apis/runtime/v1/api.proto
"""

from collections.abc import Collection, Iterable, Sequence
from ipaddress import IPv4Address, ip_address
from typing import NamedTuple

from msgspec import Struct

from pykubelet.podnetwork.conntrack import Flow

PORTS, ADDRESS_PORTS, HAIRPINS = "host-ports", "host-address-ports", "hairpins"
"""The names of the maps, and of the set of pods that may reach themselves through a host port."""
DECLARATIONS = (
    f"map {PORTS} {{ type inet_proto . inet_service : ipv4_addr . inet_service; }}",
    f"map {ADDRESS_PORTS} {{ type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; }}",
    f"set {HAIRPINS} {{ type ipv4_addr . ipv4_addr; }}",
)


class HostPortError(Exception):
    """A host port cannot be given to a pod; the message says why."""


class PortMapping(Struct, frozen=True, gc=False, kw_only=True):
    """A port of the machine that leads to a port of a pod; `host_ip` is empty for all addresses of the machine."""

    protocol: str
    host_ip: str = ""
    host_port: int
    container_port: int

    @property
    def is_on_loopback(self) -> bool:
        """Whether it is also reached at 127.0.0.1."""
        return not self.host_ip or ip_address(self.host_ip).is_loopback


class Element(NamedTuple):
    """An element of a map, or of a set if its value is empty."""

    place: str
    key: str
    value: str = ""


def port_mapping(protocol: str, host_ip: str, host_port: int, container_port: int) -> PortMapping:
    """A mapping as a pod specifies it; HostPortError if pods cannot have it. The API accepts any text as `hostIP`."""
    try:
        address = ip_address(host_ip) if host_ip else IPv4Address(0)
    except ValueError as error:
        raise HostPortError(f"hostPort {host_port}: hostIP {host_ip!r} is not an IP address") from error
    if address.is_unspecified:
        host_ip = ""
    elif not isinstance(address, IPv4Address):
        raise HostPortError(f"hostPort {host_port} at hostIP {host_ip}: the networks of pods have IPv4 addresses only")
    return PortMapping(protocol=protocol, host_ip=host_ip, host_port=host_port, container_port=container_port)


def elements(address: str, mappings: Iterable[PortMapping]) -> tuple[Element, ...]:
    """The elements of a pod with this address; of several mappings of one port of the machine the first counts."""
    found: dict[tuple[str, str], str] = {}
    for one in mappings:
        key = f"{one.protocol.lower()} . {one.host_port}"
        place = (ADDRESS_PORTS, f"{one.host_ip} . {key}") if one.host_ip else (PORTS, key)
        found.setdefault(place, f"{address} . {one.container_port}")
    ports = [Element(*place, target) for place, target in found.items()]
    return (*ports, Element(HAIRPINS, f"{address} . {address}")) if ports else ()


def stale_flows(flows: Iterable[Flow], address: str, machine: Collection[str]) -> list[Flow]:
    """The connections to a host port at one of the machine's addresses that the pod with this address does not answer.

    They began before the pod had the port, or another pod had it; those through the machine to elsewhere stay.
    """
    return [one for one in flows if one.destination[0] in machine and one.answers[0] != address]


class HostPorts:
    """Records which pod has which element of a table; returns the nft commands that make the kernel follow."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._pods: dict[str, tuple[Element, ...]] = {}
        self._owners: dict[tuple[str, str], str] = {}
        self._going: set[str] = set()

    def add(self, pod: str, address: str, mappings: Sequence[PortMapping]) -> str:
        """Record a pod; HostPortError if another one has one of its ports."""
        wanted = elements(address, mappings)
        for one in wanted:
            if self._owners.get((one.place, one.key), pod) != pod:
                raise HostPortError(f"another pod of this node has the hostPort {one.key.rpartition(' ')[2]}")
        self._pods[pod] = wanted
        self._going.discard(pod)
        self._owners.update({(one.place, one.key): pod for one in wanted})
        return self._commands("add", wanted)

    def removal(self, pod: str) -> str:
        """The commands for a pod that is going, which keeps its ports until it is forgotten; empty if it has none."""
        if pod in self._pods:
            self._going.add(pod)
        return self._commands("delete", [one._replace(value="") for one in self._pods.get(pod, ())])

    def forget(self, pod: str) -> None:
        self._going.discard(pod)
        for one in self._pods.pop(pod, ()):
            del self._owners[one.place, one.key]

    def everything(self) -> str:
        """The commands that add the ports of all pods to an empty table; not those of pods that are going."""
        return "".join(self._commands("add", each) for pod, each in self._pods.items() if pod not in self._going)

    def _commands(self, verb: str, changed: Iterable[Element]) -> str:
        return "".join(
            f"{verb} element ip {self._table} {place} {{ {key}{f' : {value}' if value else ''} }}\n"
            for place, key, value in changed
        )
