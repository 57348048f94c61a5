"""The tables of both IP families for the Services and EndpointSlices seen so far.

Each change marks the Service ports that it concerns; `update_tables` writes what they add to the tables again. A
changed endpoint of a port without session affinity costs O(1), whatever the number of endpoints.

Upstream: pkg/proxy/nftables/proxier.go, pkg/proxy/servicechangetracker.go
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pykubelet.api.generated.core import Service
from pykubelet.api.generated.discovery import EndpointSlice
from pykubelet.proxy.conntrack import Frontend
from pykubelet.proxy.endpointslicecache import EndpointChange, EndpointSliceCache
from pykubelet.proxy.healthcheck.service_health import LocalReadyEndpoints
from pykubelet.proxy.nftables.rules import (
    NODE_PORT_IPS,
    Ruleset,
    cluster_endpoints,
    endpoint_value,
    frame,
    hairpin,
    local_endpoints,
    port_rules,
)
from pykubelet.proxy.nftables.table import Table
from pykubelet.proxy.serviceport import IPFamily, ServicePort, ServicePortName, of_family, service_ports
from pykubelet.proxy.topology import Backends, DensePool, ProxyEndpoint, Target

PortKey = tuple[IPFamily, ServicePortName]
"""Identifies a Service port in one IP family."""


@dataclass(slots=True)
class _PortState:
    """A Service port, its endpoints, and what it added to the tables."""

    port: ServicePort | None = None
    backends: Backends = field(default_factory=Backends)
    rules: Ruleset = field(default_factory=Ruleset)
    changed: set[Target] = field(default_factory=set)
    """The endpoints that changed since the tables were updated."""


class ServiceTables:
    """What the kernel should have for the Services, as one node sees them."""

    def __init__(
        self,
        *,
        node_name: str,
        families: Iterable[IPFamily],
        cluster_cidrs: Sequence[str] = (),
        service_cidrs: Sequence[str] = (),
        masquerade_all: bool = False,
    ) -> None:
        self.tables = {
            family: Table(
                family, frame(family, cluster_cidrs, service_cidrs=service_cidrs, masquerade_all=masquerade_all)
            )
            for family in families
        }
        self.local_ready = LocalReadyEndpoints()
        self._cluster_cidrs = tuple(cluster_cidrs)
        self._slices = EndpointSliceCache(node_name)
        self._services: dict[tuple[str, str], list[PortKey]] = {}
        self._ports: dict[PortKey, _PortState] = {}
        self._changed: dict[PortKey, None] = {}
        self._node_ips: dict[IPFamily, tuple[str, ...]] = {}

    def put_service(self, service: Service) -> None:
        """Take over the new state of a Service."""
        new = {(family, name): port for family in self.tables for name, port in service_ports(service, family).items()}
        key = service.metadata.namespace, service.metadata.name
        for port_key in dict.fromkeys((*self._services.pop(key, []), *new)):
            state = self._ports.setdefault(port_key, _PortState())
            if state.port != new.get(port_key):
                state.port = new.get(port_key)
                self._changed[port_key] = None
        if new:
            self._services[key] = list(new)

    def remove_service(self, service: Service) -> None:
        """Forget a Service that was deleted."""
        for port_key in self._services.pop((service.metadata.namespace, service.metadata.name), []):
            self._ports[port_key].port = None
            self._changed[port_key] = None

    def put_slice(self, one: EndpointSlice) -> None:
        """Take over the new state of an EndpointSlice."""
        self._take(self._slices.put(one))

    def remove_slice(self, one: EndpointSlice) -> None:
        """Forget an EndpointSlice that was deleted."""
        self._take(self._slices.remove(one))

    def put_node(self, addresses: Sequence[str], *, zone: str = "") -> bool:
        """Have node ports on these addresses of the machine; returns whether these are others than before.

        The zone holds for slices that are seen from now on.
        """
        self._slices.zone, before = zone, dict(self._node_ips)
        for family, table in self.tables.items():
            old, new = self._node_ips.get(family, ()), of_family(addresses, family)
            for address in dict.fromkeys((*old, *new)):
                table.put((NODE_PORT_IPS, address), "" if address in new else None)
            self._node_ips[family] = new
        return before != self._node_ips

    def update_tables(self) -> set[PortKey]:
        """Write what changed to the tables; returns the UDP ports among it, whose connections may be stale."""
        changed, self._changed = self._changed, {}
        for key in changed:
            self._update(key, self._ports[key])
        return {key for key in changed if key[1].protocol == "udp" and key in self._ports}

    def udp_ports(self) -> set[PortKey]:
        """All UDP ports, whether they changed or not."""
        return {key for key in self._ports if key[1].protocol == "udp"}

    def udp_frontends(self, keys: Iterable[PortKey]) -> dict[Frontend, Mapping[Target, ProxyEndpoint]]:
        """The addresses of UDP ports, with the endpoints that their connections may have."""
        found: dict[Frontend, Mapping[Target, ProxyEndpoint]] = {}
        for key in keys:
            state = self._ports.get(key)
            if state is None or (port := state.port) is None:
                continue
            for address in (port.cluster_ip, *port.external_ips, *port.load_balancer_ips):
                found[address, port.port] = state.backends.endpoints
            # As upstream, connections to a node port without endpoints are left alone: they may be another program's.
            if port.node_port and state.backends.has_any:
                node_ips = self._node_ips.get(key[0], ())
                found |= {(address, port.node_port): state.backends.endpoints for address in node_ips}
        return found

    def _take(self, changes: Iterable[EndpointChange]) -> None:
        for family, name, target, endpoint in changes:
            if family in self.tables:
                state = self._ports.setdefault((family, name), _PortState())
                old = state.backends.endpoints.get(target)
                self.local_ready.change(family, (name.namespace, name.service), target[0], old, endpoint)
                state.backends.update(target, endpoint)
                state.changed.add(target)
                self._changed[family, name] = None

    def _update(self, key: PortKey, state: _PortState) -> None:
        family, name = key
        table, port, backends = self.tables[family], state.port, state.backends
        if port is None:
            new = Ruleset()
            state.changed.update(backends.endpoints)
        else:
            backends.use(cluster=port.uses_cluster_endpoints, local=port.uses_local_endpoints)
            backends.settle()
            new = port_rules(name, port, backends, family, self._cluster_cidrs)
        if not state.rules.sets and not state.rules.elements:
            state.changed.update(backends.endpoints)
        _write(table, key, state.rules, new)
        for endpoints, pool in ((cluster_endpoints(name), backends.cluster), (local_endpoints(name), backends.local)):
            _fill(table, endpoints, pool, was_there=endpoints in state.rules.sets, is_there=endpoints in new.sets)
        for target in state.changed:
            one = backends.endpoints.get(target)
            is_local = port is not None and one is not None and one.is_local
            table.claim(hairpin(name, target), key, "" if is_local else None)
        state.changed, state.rules = set(), new
        if port is None and not backends.endpoints:
            del self._ports[key]


def _write(table: Table, owner: PortKey, old: Ruleset, new: Ruleset) -> None:
    """Replace what a Service port added to a table."""
    for name, declaration in new.sets.items():
        table.declare(name, declaration)
    for name in dict.fromkeys((*old.chains, *new.chains)):
        table.write_chain(name, new.chains.get(name))
    for element in dict.fromkeys((*old.elements, *new.elements)):
        if old.elements.get(element) != new.elements.get(element):
            table.claim(element, owner, new.elements.get(element))
    for name in old.sets:
        if name not in new.sets:
            table.declare(name, None)


def _fill(table: Table, endpoints: str, pool: DensePool, *, was_there: bool, is_there: bool) -> None:
    """Write the changed endpoints into their map, all of them if the map is new."""
    changes: Mapping[int, Target | None] = pool.take_changes()
    if not is_there:
        return
    if not was_there:
        changes = dict(enumerate(pool))
    for index, target in changes.items():
        table.put((endpoints, str(index)), None if target is None else endpoint_value(target))
