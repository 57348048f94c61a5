"""Allocates cluster IPs and node ports for services.

Only IPv4 is served. Upstream allocates at random; this allocates the first free one. Runs before the kind's validation.
An address is taken as soon as a Service has it; its IPAddress object follows. An IPAddress of another owner reserves its
address.

Upstream: pkg/registry/core/service/storage/storage.go, pkg/registry/core/service/storage/alloc.go,
pkg/registry/core/service/ipallocator/cidrallocator.go
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from ipaddress import IPv4Network

from pykubelet.api.errors import InternalError
from pykubelet.api.field_errors import FieldError, TypedString, invalid
from pykubelet.api.names import parse_address, parse_network
from pykubelet.api.schema import SERVICES
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.errors import invalid as invalid_object
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.kinds.service.validation import NO_ADDRESS, address_errors, family_of, needs_health_check

CLUSTER_IP_RANGE = IPv4Network("10.96.0.0/12")
"""The range of cluster IPs unless another one is chosen."""
NODE_PORT_RANGE = range(30000, 32768)
# The first address belongs to the service `kubernetes`.
_FIRST_ADDRESS = 2
_WITH_NODE_PORTS = frozenset({"LoadBalancer", "NodePort"})
_OTHER_FAMILY = {"IPv4": "IPv6", "IPv6": "IPv4"}
_MANAGED_BY = b"ipallocator.k8s.io"
# Allocations whose write is not committed yet. Beyond this number the oldest belong to writes that were rejected.
_MOST_UNSEEN = 256


class ServiceAllocation:
    """The admission plugin that allocates.

    `services` returns the committed entries of all services, `cluster_ips` is the range of their addresses; ServiceCIDRs
    add more ranges, and `ip_addresses` returns the entries of all IPAddress objects.
    """

    resources = frozenset({SERVICES.group_resource})

    def __init__(
        self,
        services: Callable[[], Sequence[StoreEntry]],
        *,
        cluster_ips: IPv4Network = CLUSTER_IP_RANGE,
        service_cidrs: Callable[[], Sequence[StoreEntry]] = tuple,
        ip_addresses: Callable[[], Sequence[StoreEntry]] = tuple,
    ) -> None:
        self._services, self._cluster_ips = services, cluster_ips
        self._service_cidrs, self._ip_addresses = service_cidrs, ip_addresses
        self._unseen: dict[StoreKey, Document] = {}

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        if new is None or attributes.subresource:
            return new
        mine = StoreKey(SERVICES.group_resource, attributes.namespace, attributes.name)
        entries = {entry.key: entry for entry in self._services() if entry.key != mine}
        for key in entries.keys() & self._unseen.keys():
            del self._unseen[key]
        others = [entry.document for entry in entries.values()]
        others += [service for key, service in self._unseen.items() if key != mine]
        taken = allocations_of(others)
        reserved = {entry.key.name for entry in self._ip_addresses() if _MANAGED_BY not in entry.text}
        ranges = (
            self._cluster_ips,
            *more_ranges((entry.document for entry in self._service_cidrs()), self._cluster_ips),
        )
        service = allocate(new, old, replace(taken, addresses=taken.addresses | reserved), ranges)
        if not attributes.dry_run:
            self._unseen.pop(mine, None)
            self._unseen[mine] = service
            while len(self._unseen) > _MOST_UNSEEN:
                del self._unseen[next(iter(self._unseen))]
        return service


@dataclass(frozen=True, slots=True)
class ServiceAllocations:
    addresses: AbstractSet[str] = frozenset()
    ports: AbstractSet[int] = frozenset()


def allocations_of(services: Iterable[Document]) -> ServiceAllocations:
    addresses: set[str] = set()
    ports: set[int] = set()
    for service in services:
        spec = service["spec"]
        addresses.update(address for address in spec.get("clusterIPs", ()) if address != NO_ADDRESS)
        ports |= _node_ports(spec)
    return ServiceAllocations(addresses, ports)


def more_ranges(service_cidrs: Iterable[Document], cluster_ips: IPv4Network) -> Iterator[IPv4Network]:
    """The IPv4 ranges of the ServiceCIDRs that are ready and not being deleted, without the cluster's own."""
    for found in service_cidrs:
        conditions = found.get("status", {}).get("conditions", ())
        is_ready = any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)
        if not is_ready or "deletionTimestamp" in found["metadata"]:
            continue
        for text in found["spec"].get("cidrs", ()):
            network = parse_network(text)
            if isinstance(network, IPv4Network) and network != cluster_ips:
                yield network


def allocate(
    service: Document,
    old: Document | None,
    taken: ServiceAllocations,
    ranges: Sequence[IPv4Network] = (CLUSTER_IP_RANGE,),
) -> Document:
    """Sets the service's addresses and ports: those it had, those it requests, or free ones. Raises Invalid if one is taken."""
    before = {} if old is None else old["spec"]
    spec = _with_old_values(service["spec"], before)
    if spec["type"] != "ExternalName":
        spec = _with_families(service, spec, before)
        if spec.get("clusterIP") != NO_ADDRESS:
            spec = _with_address(service, spec, before, taken, ranges)
    if spec["type"] in _WITH_NODE_PORTS:
        spec = _with_node_ports(service, spec, before, taken)
    return {**service, "spec": spec}


def _with_old_values(new: Document, old: Document) -> Document:
    """Restores allocated values that the client omitted, and keeps clusterIP and clusterIPs consistent."""
    spec = dict(new)
    needs_address = "ExternalName" not in {new["type"], old.get("type", "ExternalName")}
    if needs_address:
        for name in ("clusterIP", "clusterIPs"):
            if name in old:
                spec.setdefault(name, old[name])
    if needs_health_check(new) and old and needs_health_check(old):
        spec.setdefault("healthCheckNodePort", old["healthCheckNodePort"])
    if {new["type"], old.get("type")} <= _WITH_NODE_PORTS:
        spec["ports"] = _with_old_node_ports(new.get("ports", []), old)
    first, had_first = spec.get("clusterIP", ""), old.get("clusterIP", "")
    if first and "clusterIPs" not in spec:
        spec["clusterIPs"] = [first]
    elif old and first != had_first and spec.get("clusterIPs") == old.get("clusterIPs"):
        if first:
            spec["clusterIPs"] = [first]
        else:
            spec.pop("clusterIPs", None)
    return spec


def _with_old_node_ports(ports: list[Document], old: Document) -> list[Document]:
    by_name = {port.get("name", ""): port.get("nodePort", 0) for port in old.get("ports", ())}
    kept = {port.get("nodePort") for port in ports}
    found = [by_name.get(port.get("name", ""), 0) for port in ports]
    return [
        {**port, "nodePort": number} if number and "nodePort" not in port and number not in kept else port
        for port, number in zip(ports, found, strict=True)
    ]


def _with_families(service: Document, new: Document, old: Document) -> Document:
    spec, is_free = dict(new), new.get("clusterIP") == NO_ADDRESS and not new.get("selector")
    default = "RequireDualStack" if is_free else "SingleStack"
    policy = spec.setdefault("ipFamilyPolicy", old.get("ipFamilyPolicy") or default)
    _raise_if(service, address_errors(spec, old))
    addresses = [address for address in spec.get("clusterIPs", ()) if address != NO_ADDRESS]
    families: list[str] = list(spec.get("ipFamilies") or old.get("ipFamilies") or ())
    families += [family_of(address) for address in addresses[len(families) :]]
    at = "spec.ipFamilyPolicy"
    if policy == "SingleStack":
        many = (("cluster IPs", len(addresses)), ("IP families", len(families)))
        detail = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
        _raise_if(
            service, [invalid(at, TypedString(policy), detail.format(what)) for what, count in many if count == 2]
        )
    families = families or ["IPv4"]
    if is_free:
        # Without a cluster IP, the endpoints may have any family.
        if policy != "SingleStack" and len(families) == 1:
            families.append(_OTHER_FAMILY[families[0]])
        return {**spec, "ipFamilies": families}
    errors: list[FieldError] = []
    if policy == "RequireDualStack":
        errors.append(invalid(at, TypedString(policy), "this cluster is not configured for dual-stack services"))
    errors += [
        invalid(f"spec.ipFamilies[{index}]", TypedString(family), "not configured on this cluster")
        for index, family in enumerate(families)
        if family != "IPv4"
    ]
    _raise_if(service, errors)
    return {**spec, "ipFamilies": families}


def _with_address(
    service: Document, spec: Document, old: Document, taken: ServiceAllocations, ranges: Sequence[IPv4Network]
) -> Document:
    address = spec.get("clusterIP")
    if not address:
        free = next(_free_addresses(taken.addresses, ranges), None)
        if free is None:
            raise InternalError("failed to allocate a serviceIP: range is full")
        return {**spec, "clusterIP": free, "clusterIPs": [free]}
    if address in old.get("clusterIPs", ()):
        return spec
    problem = "provided IP is already allocated" if address in taken.addresses else ""
    parsed = parse_address(address)
    if not any(parsed in network for network in ranges):
        valid = ",".join(map(str, ranges))
        problem = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {valid}"
    if problem:
        detail = f"failed to allocate IP {address}: {problem}"
        _raise_if(service, [invalid("spec.clusterIPs", spec["clusterIPs"], detail)])
    return spec


def _free_addresses(taken: AbstractSet[str], ranges: Sequence[IPv4Network]) -> Iterator[str]:
    for index, network in enumerate(ranges):
        for number in range(1 if index else _FIRST_ADDRESS, network.num_addresses - 1):
            if (text := str(network[number])) not in taken:
                yield text


def _with_node_ports(service: Document, spec: Document, old: Document, taken: ServiceAllocations) -> Document:
    mine = _node_ports(old)
    # Ports with the same number share a node port, whatever their protocols.
    by_port: dict[int, int] = {}
    ports: list[Document] = []
    for index, port in enumerate(spec.get("ports", ())):
        requested = port.get("nodePort") or next(
            (each["nodePort"] for each in spec["ports"] if each["port"] == port["port"] and each.get("nodePort")), 0
        )
        number = requested or by_port.get(port["port"], 0)
        if not number and spec.get("allocateLoadBalancerNodePorts", True):
            number = _free_port(taken.ports | mine | set(by_port.values()) | _node_ports(spec))
        if requested and requested not in mine:
            _raise_if(service, _port_problem(requested, f"spec.ports[{index}].nodePort", taken))
        by_port[port["port"]] = number
        ports.append({**port, "nodePort": number} if number else port)
    result = {**spec, "ports": ports}
    if needs_health_check(spec) and not spec.get("healthCheckNodePort"):
        result["healthCheckNodePort"] = _free_port(taken.ports | mine | _node_ports(result))
    return result


def _port_problem(port: int, path: str, taken: ServiceAllocations) -> list[FieldError]:
    if port not in NODE_PORT_RANGE:
        detail = f"provided port is not in the valid range. The range of valid ports is {NODE_PORT_RANGE[0]}-{NODE_PORT_RANGE[-1]}"
        return [invalid(path, port, detail)]
    return [invalid(path, port, "provided port is already allocated")] if port in taken.ports else []


def _free_port(taken: AbstractSet[int]) -> int:
    if (port := next((port for port in NODE_PORT_RANGE if port not in taken), None)) is None:
        raise InternalError("failed to allocate a nodePort: range is full")
    return port


def _node_ports(spec: Document) -> set[int]:
    ports = {port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")}
    return ports | {spec["healthCheckNodePort"]} if spec.get("healthCheckNodePort") else ports


def _raise_if(service: Document, errors: list[FieldError]) -> None:
    if errors:
        raise invalid_object("Service", "", service["metadata"].get("name", ""), errors)
