"""The ports of a Service as the proxy needs them: one value for each port and IP family.

Headless Services and those of type ExternalName have no ports here: DNS alone serves them.

Upstream: pkg/proxy/serviceport.go, pkg/proxy/types.go, pkg/proxy/util/utils.go
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from pykubelet.api.generated.core import Service, ServiceSpec

PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name"
"""Names another proxy that serves the Service."""
HEADLESS_LABEL = "service.kubernetes.io/headless"
_LOCAL = "Local"
_NO_ADDRESS = "None"
# Services from before the field had a default.
_AFFINITY_SECONDS = 10800


class IPFamily(StrEnum):
    """An IP family; the value is its name in nftables."""

    IPV4 = "ip"
    IPV6 = "ip6"


class ServicePortName(NamedTuple):
    """Identifies a port of a Service."""

    namespace: str
    service: str
    port: str
    """The name of the port; empty for a Service with one unnamed port."""
    protocol: str
    """tcp, udp or sctp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePort:
    """The addresses and policies of one port of a Service, in one IP family."""

    cluster_ip: str
    port: int
    node_port: int = 0
    external_ips: tuple[str, ...] = ()
    load_balancer_ips: tuple[str, ...] = ()
    source_ranges: tuple[str, ...] = ()
    """The clients that may use the load balancer addresses; empty: all."""
    affinity_seconds: int = 0
    """How long a client stays with its endpoint; 0: no session affinity."""
    external_local: bool = False
    internal_local: bool = False

    @property
    def is_external(self) -> bool:
        """Whether the port has addresses for clients outside the cluster."""
        return bool(self.node_port or self.external_ips or self.load_balancer_ips)

    @property
    def uses_cluster_endpoints(self) -> bool:
        """Whether any traffic may go to every endpoint; local clients of an external address always do."""
        return not self.internal_local or self.is_external

    @property
    def uses_local_endpoints(self) -> bool:
        return self.internal_local or (self.external_local and self.is_external)


def service_ports(service: Service, family: IPFamily) -> dict[ServicePortName, ServicePort]:
    """The ports of a Service in one IP family; empty if the proxy does not serve it there."""
    spec = service.spec
    if spec.type == "ExternalName" or PROXY_NAME_LABEL in service.metadata.labels:
        return {}
    own = [address for address in spec.cluster_ips or (spec.cluster_ip,) if address not in ("", _NO_ADDRESS)]
    if not (cluster_ips := of_family(own, family)):
        return {}
    ingress = service.status.load_balancer.ingress
    shared = ServicePort(
        cluster_ip=cluster_ips[0],
        port=0,
        external_ips=of_family(spec.external_ips, family),
        load_balancer_ips=of_family((one.ip for one in ingress if one.ip_mode in (None, "VIP")), family),
        source_ranges=_source_ranges(spec.load_balancer_source_ranges, family),
        affinity_seconds=_affinity_seconds(spec),
        external_local=spec.external_traffic_policy == _LOCAL,
        internal_local=spec.internal_traffic_policy == _LOCAL,
    )
    return {
        name: replace(shared, port=port, node_port=node_port) for name, (port, node_port) in _ports(service).items()
    }


def _ports(service: Service) -> Mapping[ServicePortName, tuple[int, int]]:
    meta = service.metadata
    return {
        ServicePortName(meta.namespace, meta.name, one.name, (one.protocol or "TCP").lower()): (one.port, one.node_port)
        for one in service.spec.ports
    }


def _affinity_seconds(spec: ServiceSpec) -> int:
    if spec.session_affinity != "ClientIP":
        return 0
    client_ip = spec.session_affinity_config.client_ip if spec.session_affinity_config is not None else None
    return (client_ip.timeout_seconds if client_ip is not None else None) or _AFFINITY_SECONDS


def _source_ranges(ranges: Iterable[str], family: IPFamily) -> tuple[str, ...]:
    """The ranges of one family; empty, which means everybody, if one of them contains every address."""
    found = []
    for each in ranges:
        try:
            # Validation of Services allows whitespace here.
            network = ip_network(each.strip(), strict=False)
        except ValueError:
            continue
        if _is_of(network.version, family):
            found.append(network)
    return () if any(network.prefixlen == 0 for network in found) else tuple(map(str, found))


def of_family(addresses: Iterable[str], family: IPFamily) -> tuple[str, ...]:
    """The valid addresses of one family, in their canonical form."""
    found = []
    for each in addresses:
        try:
            address = ip_address(each)
        except ValueError:
            continue
        if _is_of(address.version, family):
            found.append(str(address))
    return tuple(dict.fromkeys(found))


def is_loopback(address: str) -> bool:
    """Whether an address leads back to its machine, so that others cannot use it."""
    return ip_address(address).is_loopback


def _is_of(version: int, family: IPFamily) -> bool:
    return (version == 4) == (family is IPFamily.IPV4)
