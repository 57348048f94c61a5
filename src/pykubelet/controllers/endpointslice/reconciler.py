"""Distributes the endpoints of a service over EndpointSlices with as few writes as possible.

Slices keep what is still correct; changed slices are filled first, then one that has just enough room, then new ones.

Upstream: staging/src/k8s.io/endpointslice/reconciler.go, staging/src/k8s.io/endpointslice/utils.go,
staging/src/k8s.io/endpointslice/trafficdist/trafficdist.go
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from pykubelet.api.generated.core import Node, ObjectReference, Pod, Service
from pykubelet.api.generated.discovery import (
    Endpoint,
    EndpointConditions,
    EndpointHints,
    EndpointPort,
    EndpointSlice,
    ForNode,
    ForZone,
)
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.serializer import Document, to_document
from pykubelet.controllers.endpointslice.service_pods import (
    ANNOTATION,
    addresses_of,
    has_cluster_ip,
    hostname_for,
    target_port,
)
from pykubelet.controllers.framework.active_pods import ready_condition
from pykubelet.controllers.framework.ownership import new_controller_ref

CONTROLLER = "endpointslice-controller.k8s.io"
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
HEADLESS_LABEL = "service.kubernetes.io/headless"
ZONE = "topology.kubernetes.io/zone"
_RESERVED = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS_LABEL})
_CLOSE = frozenset({"PreferClose", "PreferSameZone", "PreferSameNode"})
MAX_ENDPOINTS = 100


@dataclass(frozen=True, slots=True)
class DesiredEndpoint:
    """The endpoint of a pod, with its ports."""

    ports: tuple[EndpointPort, ...]
    endpoint: Endpoint


@dataclass(slots=True)
class SlicePlan:
    """Slices to create, update (old and new) and delete."""

    create: list[EndpointSlice] = field(default_factory=list)
    update: list[tuple[EndpointSlice, EndpointSlice]] = field(default_factory=list)
    delete: list[EndpointSlice] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Family:
    """The slices of one address family."""

    service: Service
    family: str
    max_endpoints: int

    def plan(self, existing: Sequence[EndpointSlice], wanted: Iterable[DesiredEndpoint]) -> SlicePlan:
        plan = SlicePlan(delete=[one for one in existing if not self._is_ours(one)])
        groups: dict[Hashable, tuple[tuple[EndpointPort, ...], dict[Hashable, Endpoint], list[EndpointSlice]]] = {}
        for one in wanted:
            _, endpoints, _ = groups.setdefault(ports_key(one.ports), (one.ports, {}, []))
            if one.endpoint.addresses:
                endpoints[endpoint_key(one.endpoint)] = one.endpoint
        for found in existing:
            group = groups.get(ports_key(found.ports))
            if not self._is_ours(found):
                continue
            if group is None:
                plan.delete.append(found)
            else:
                group[2].append(found)
        for ports, endpoints, slices in groups.values():
            self._distribute(ports, endpoints, slices, plan)
        self._keep_placeholder(existing, plan)
        self._reuse(plan)
        return plan

    def _distribute(
        self,
        ports: tuple[EndpointPort, ...],
        wanted: dict[Hashable, Endpoint],
        existing: Sequence[EndpointSlice],
        plan: SlicePlan,
    ) -> None:
        """Distributes endpoints with the same ports over slices."""
        labels = slice_labels(self.service)
        changed: list[tuple[EndpointSlice, list[Endpoint]]] = []
        unchanged: list[EndpointSlice] = []
        for one in existing:
            found = [wanted.pop(key, None) for key in map(endpoint_key, one.endpoints)]
            kept = [endpoint for endpoint in found if endpoint is not None]
            if kept == [comparable(endpoint) for endpoint in one.endpoints]:
                if dict(one.metadata.labels) == labels:
                    unchanged.append(one)
                else:
                    changed.append((one, kept))
            elif kept:
                changed.append((one, kept))
            else:
                plan.delete.append(one)
        left = list(wanted.values())
        for _, kept in sorted(changed, key=lambda pair: -len(pair[1])):
            room = max(0, self.max_endpoints - len(kept))
            kept.extend(left[:room])
            left = left[room:]
        while left:
            old = self._with_room(unchanged, len(left))
            kept = list(old.endpoints) if old is not None else []
            room = self.max_endpoints - len(kept)
            kept, left = kept + left[:room], left[room:]
            if old is None:
                plan.create.append(replace(new_slice(self.service, self.family, ports), endpoints=tuple(kept)))
            else:
                changed.append((old, kept))
        plan.update += [(old, self._changed(old, kept)) for old, kept in changed]

    def _with_room(self, slices: Sequence[EndpointSlice], count: int) -> EndpointSlice | None:
        """The slice that becomes fullest when so many endpoints are added."""
        sizes = [(len(one.endpoints) + count, one) for one in slices if count < self.max_endpoints]
        fitting = [pair for pair in sizes if pair[0] <= self.max_endpoints]
        return max(fitting, key=lambda pair: pair[0])[1] if fitting else None

    def _keep_placeholder(self, existing: Sequence[EndpointSlice], plan: SlicePlan) -> None:
        """Keeps at least one slice, possibly without endpoints."""
        if plan.create or len(plan.delete) < len(existing):
            return
        placeholder = new_slice(self.service, self.family)
        if len(plan.delete) == 1 and self._is_ours(plan.delete[0]) and _is_like(plan.delete[0], placeholder):
            plan.delete.clear()
        else:
            plan.create.append(placeholder)

    def _reuse(self, plan: SlicePlan) -> None:
        """Turns a slice to delete into one to create, by updating it."""
        for old in [one for one in plan.delete if self._is_ours(one)]:
            if not plan.create:
                return
            new = plan.create.pop()
            plan.delete.remove(old)
            plan.update.append((old, replace(self._changed(old, new.endpoints), ports=new.ports)))

    def _changed(self, old: EndpointSlice, endpoints: Iterable[Endpoint]) -> EndpointSlice:
        metadata = replace(old.metadata, labels=slice_labels(self.service))
        return replace(old, metadata=metadata, endpoints=tuple(endpoints))

    def _is_ours(self, one: EndpointSlice) -> bool:
        """Whether this service owns the slice, not an earlier one of its name."""
        uid = self.service.metadata.uid
        return any(owner.uid == uid and owner.kind == "Service" for owner in one.metadata.owner_references)


def slice_labels(service: Service) -> dict[str, str]:
    labels = {name: value for name, value in service.metadata.labels.items() if name not in _RESERVED}
    if not has_cluster_ip(service):
        labels[HEADLESS_LABEL] = ""
    return {**labels, SERVICE_NAME: service.metadata.name, MANAGED_BY: CONTROLLER}


def new_slice(service: Service, family: str, ports: tuple[EndpointPort, ...] = ()) -> EndpointSlice:
    """An empty slice with a generateName."""
    metadata = ObjectMeta(
        generate_name=f"{service.metadata.name}-",
        namespace=service.metadata.namespace,
        labels=slice_labels(service),
        owner_references=(new_controller_ref(service),),
    )
    return EndpointSlice(metadata=metadata, address_type=family, ports=ports)


def ports_for(pod: Pod, service: Service) -> tuple[EndpointPort, ...]:
    """The service's ports in the pod, without named ports that it lacks."""
    return tuple(
        EndpointPort(name=port.name, port=number, protocol=port.protocol, app_protocol=port.app_protocol)
        for port in service.spec.ports
        if (number := target_port(pod, port)) is not None
    )


def endpoint_for(pod: Pod, node: Node | None, service: Service, family: str) -> Endpoint:
    """The pod as an endpoint. A terminating pod is not ready, unless the service publishes unready addresses."""
    serving, terminating = ready_condition(pod) is not None, pod.metadata.deletion_timestamp is not None
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    endpoint = Endpoint(
        addresses=addresses_of(pod, family),
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        target_ref=ObjectReference(
            kind="Pod", namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid
        ),
        node_name=pod.spec.node_name or None,
        zone=(node.metadata.labels.get(ZONE) or None) if node is not None else None,
        hostname=hostname_for(pod, service) or None,
    )
    return replace(endpoint, hints=_hints(endpoint, service.spec.traffic_distribution)) if ready else endpoint


def slice_patch(old: EndpointSlice, new: EndpointSlice, trigger_time: str | None) -> Document:
    metadata = {"uid": old.metadata.uid, "resourceVersion": old.metadata.resource_version}
    return {
        "metadata": {
            **metadata,
            "labels": merge_map(old.metadata.labels, new.metadata.labels),
            "annotations": {ANNOTATION: trigger_time},
        },
        "endpoints": [to_document(endpoint) for endpoint in new.endpoints],
        "ports": [to_document(port) for port in new.ports],
    }


def merge_map(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
    """The merge patch of a map, with null for removed keys."""
    return {**dict.fromkeys(old), **new}


def _hints(endpoint: Endpoint, distribution: str | None) -> EndpointHints | None:
    if distribution not in _CLOSE:
        return None
    zones = (ForZone(name=endpoint.zone),) if endpoint.zone else ()
    on_node = distribution == "PreferSameNode" and endpoint.node_name
    nodes = (ForNode(name=endpoint.node_name),) if on_node and endpoint.node_name else ()
    return EndpointHints(for_zones=zones, for_nodes=nodes) if zones or nodes else None


def plan_slices(
    service: Service,
    existing: Iterable[EndpointSlice],
    wanted: Mapping[str, Sequence[DesiredEndpoint]],
    *,
    max_endpoints: int = MAX_ENDPOINTS,
) -> SlicePlan:
    """Plans the slices of a service; `wanted` are its endpoints by address family."""
    plan = SlicePlan()
    by_family: dict[str, list[EndpointSlice]] = {family: [] for family in wanted}
    for one in existing:
        by_family.get(one.address_type, plan.delete).append(one)
    for family, endpoints in wanted.items():
        part = _Family(service, family, max_endpoints).plan(by_family[family], endpoints)
        plan.create += part.create
        plan.update += part.update
        plan.delete += part.delete
    if service.metadata.deletion_timestamp is not None:
        # The garbage collector deletes the slices; creating new ones would race with it.
        plan.create = []
    return plan


def _is_like(one: EndpointSlice, placeholder: EndpointSlice) -> bool:
    return not one.ports and not one.endpoints and dict(one.metadata.labels) == dict(placeholder.metadata.labels)


def ports_key(ports: Iterable[EndpointPort]) -> Hashable:
    rows = ((port.name or "", port.port or 0, port.protocol or "", port.app_protocol or "") for port in ports)
    return tuple(sorted(rows))


def endpoint_key(endpoint: Endpoint) -> Hashable:
    target = endpoint.target_ref
    name = (target.namespace, target.name) if target is not None else ("", "")
    return (tuple(sorted(endpoint.addresses)), endpoint.hostname or "", name)


def comparable(endpoint: Endpoint) -> Endpoint:
    """The endpoint without the pod's resource version and deprecated fields."""
    target = endpoint.target_ref
    return replace(
        endpoint,
        addresses=tuple(endpoint.addresses),
        deprecated_topology={},
        target_ref=replace(target, resource_version="") if target is not None else None,
    )
