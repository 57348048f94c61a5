"""The endpoints in EndpointSlices, by Service port, as changes of single endpoints.

An endpoint may be in two slices for a moment, while it moves, or when an address is reused; then one that does not
terminate counts. A change of a slice costs as much as the slice has endpoints.

Upstream: pkg/proxy/endpointslicecache.go, pkg/proxy/endpointschangetracker.go
"""

from collections.abc import Iterator
from typing import NamedTuple

from pykubelet.api.generated.discovery import Endpoint, EndpointSlice
from pykubelet.proxy.serviceport import IPFamily, ServicePortName, of_family
from pykubelet.proxy.topology import ProxyEndpoint, Target

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
_FAMILIES = {"IPv4": IPFamily.IPV4, "IPv6": IPFamily.IPV6}
_Place = tuple[IPFamily, ServicePortName, Target]
_Key = tuple[str, str]
"""The namespace and name of a slice."""


class EndpointChange(NamedTuple):
    """An endpoint of a Service port that appeared, changed or went (None)."""

    family: IPFamily
    port: ServicePortName
    target: Target
    endpoint: ProxyEndpoint | None


class EndpointSliceCache:
    """The endpoints of all slices, as one node sees them."""

    def __init__(self, node_name: str, zone: str = "") -> None:
        self._node_name = node_name
        self.zone = zone
        """The zone of the node; a change holds for slices that are put from then on."""
        self._slices: dict[_Key, dict[_Place, ProxyEndpoint]] = {}
        self._found: dict[_Place, dict[_Key, ProxyEndpoint]] = {}

    def put(self, one: EndpointSlice) -> list[EndpointChange]:
        """Take over the new state of a slice."""
        return self._replace(_key(one), dict(self._read(one)))

    def remove(self, one: EndpointSlice) -> list[EndpointChange]:
        """Forget a slice that was deleted."""
        return self._replace(_key(one), {})

    def _replace(self, key: _Key, new: dict[_Place, ProxyEndpoint]) -> list[EndpointChange]:
        old = self._slices.pop(key, {})
        if new:
            self._slices[key] = new
        changes = []
        for place in dict.fromkeys((*old, *new)):
            if old.get(place) == new.get(place):
                continue
            known = self._found.setdefault(place, {})
            before = _chosen(known)
            if place in new:
                known[key] = new[place]
            else:
                del known[key]
            after = _chosen(known)
            if not known:
                del self._found[place]
            if before != after:
                changes.append(EndpointChange(*place, after))
        return changes

    def _read(self, one: EndpointSlice) -> Iterator[tuple[_Place, ProxyEndpoint]]:
        family, service = _FAMILIES.get(one.address_type), one.metadata.labels.get(SERVICE_NAME_LABEL)
        if family is None or not service:
            return
        # Endpoints that do not terminate come last, and so replace others of the same address.
        endpoints = sorted(one.endpoints, key=lambda each: not each.conditions.terminating)
        for port in one.ports:
            if port.port is None:
                continue
            protocol = (port.protocol or "TCP").lower()
            name = ServicePortName(one.metadata.namespace, service, port.name or "", protocol)
            for each in endpoints:
                # As upstream, the first address counts. One that is none, or of the other family, is skipped.
                for address in of_family(each.addresses[:1], family):
                    yield (family, name, (address, port.port)), self._seen(each)

    def _seen(self, one: Endpoint) -> ProxyEndpoint:
        conditions, hints = one.conditions, one.hints
        nodes = [each.name for each in hints.for_nodes] if hints is not None else []
        zones = [each.name for each in hints.for_zones] if hints is not None else []
        return ProxyEndpoint(
            is_local=bool(self._node_name) and one.node_name == self._node_name,
            is_ready=conditions.ready is not False,
            is_serving=conditions.serving is not False,
            is_terminating=conditions.terminating is True,
            is_for_node=self._node_name in nodes if nodes else None,
            is_for_zone=self.zone in zones if zones else None,
        )


def _chosen(found: dict[_Key, ProxyEndpoint]) -> ProxyEndpoint | None:
    return min(found.values(), key=lambda one: one.is_terminating, default=None)


def _key(one: EndpointSlice) -> _Key:
    return one.metadata.namespace, one.metadata.name
