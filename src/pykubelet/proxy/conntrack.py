"""Ends UDP connections whose endpoint is gone, or that began before there was one.

Upstream: pkg/proxy/conntrack/cleanup.go, pkg/proxy/conntrack/conntrack.go
"""

import socket
from collections.abc import Iterable, Mapping

from pykubelet.podnetwork import conntrack
from pykubelet.podnetwork.conntrack import Flow
from pykubelet.proxy.serviceport import IPFamily
from pykubelet.proxy.topology import ProxyEndpoint, Target

Frontend = tuple[str, int]
"""An address and port of a Service, or of this machine for a node port."""
_FAMILIES = {IPFamily.IPV4: socket.AF_INET, IPFamily.IPV6: socket.AF_INET6}


def stale_flows(flows: Iterable[Flow], frontends: Mapping[Frontend, Mapping[Target, ProxyEndpoint]]) -> list[Flow]:
    """The connections to Services whose answers do not come from an endpoint that serves."""
    found = []
    for flow in flows:
        endpoints = frontends.get(flow.destination)
        if endpoints is not None and not ((one := endpoints.get(flow.answers)) and one.is_serving):
            found.append(flow)
    return found


def read_flows(netlink: socket.socket, family: IPFamily, port: int | None = None) -> list[Flow]:
    """The UDP connections of the kernel, all or those to one port. Blocks for a moment; OSError."""
    return conntrack.read_flows(netlink, _FAMILIES[family], port)


def delete_flows(netlink: socket.socket, family: IPFamily, flows: Iterable[Flow]) -> int:
    """Delete connections; returns how many there still were. OSError if the kernel refuses."""
    return conntrack.delete_flows(netlink, _FAMILIES[family], flows)
