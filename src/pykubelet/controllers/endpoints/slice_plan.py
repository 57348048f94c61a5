"""How endpoints are spread over slices: as few writes as can be, at most so many endpoints in each.

Pure. In: the slices of a service and the endpoints it should have. Out: slices to make, change and delete. Slices keep
what is still right; those that change anyway are filled first, then one that has just enough room, then new ones.
Upstream: k8s.io/endpointslice/reconciler.go.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from pykubelet.api.generated.core import Service
from pykubelet.api.generated.discovery import Endpoint, EndpointPort, EndpointSlice
from pykubelet.controllers.endpoints.slice_form import new_slice, slice_labels

MAX_ENDPOINTS = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """The endpoint of a pod, with the ports it has there."""

    ports: tuple[EndpointPort, ...]
    endpoint: Endpoint


@dataclass(slots=True)
class SlicePlan:
    """What is to be done; a slice that is to be changed comes with what it was."""

    create: list[EndpointSlice] = field(default_factory=list)
    update: list[tuple[EndpointSlice, EndpointSlice]] = field(default_factory=list)
    delete: list[EndpointSlice] = field(default_factory=list)


def plan_slices(
    service: Service,
    existing: Iterable[EndpointSlice],
    wanted: Mapping[str, Sequence[Wanted]],
    *,
    max_endpoints: int = MAX_ENDPOINTS,
) -> SlicePlan:
    """What to do about the slices of a service; `wanted` are the endpoints of each address family it has."""
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
        # The garbage collector deletes the slices; making new ones would race with it.
        plan.create = []
    return plan


@dataclass(frozen=True, slots=True)
class _Family:
    """The slices of one kind of addresses."""

    service: Service
    family: str
    max_endpoints: int

    def plan(self, existing: Sequence[EndpointSlice], wanted: Iterable[Wanted]) -> SlicePlan:
        plan = SlicePlan(delete=[one for one in existing if not self._is_ours(one)])
        groups: dict[Hashable, tuple[tuple[EndpointPort, ...], dict[Hashable, Endpoint], list[EndpointSlice]]] = {}
        for one in wanted:
            _, endpoints, _ = groups.setdefault(_ports_key(one.ports), (one.ports, {}, []))
            if one.endpoint.addresses:
                endpoints[_endpoint_key(one.endpoint)] = one.endpoint
        for found in existing:
            group = groups.get(_ports_key(found.ports))
            if not self._is_ours(found):
                continue
            if group is None:
                plan.delete.append(found)
            else:
                group[2].append(found)
        for ports, endpoints, slices in groups.values():
            self._spread(ports, endpoints, slices, plan)
        self._hold_the_place(existing, plan)
        self._reuse(plan)
        return plan

    def _spread(
        self,
        ports: tuple[EndpointPort, ...],
        wanted: dict[Hashable, Endpoint],
        existing: Sequence[EndpointSlice],
        plan: SlicePlan,
    ) -> None:
        """Put the endpoints that have the same ports into slices."""
        labels = slice_labels(self.service)
        changed: list[tuple[EndpointSlice, list[Endpoint]]] = []
        unchanged: list[EndpointSlice] = []
        for one in existing:
            found = [wanted.pop(key, None) for key in map(_endpoint_key, one.endpoints)]
            kept = [endpoint for endpoint in found if endpoint is not None]
            if kept == [_comparable(endpoint) for endpoint in one.endpoints]:
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
        """The slice that is fullest when so many endpoints are added to it."""
        sizes = [(len(one.endpoints) + count, one) for one in slices if count < self.max_endpoints]
        fitting = [pair for pair in sizes if pair[0] <= self.max_endpoints]
        return max(fitting, key=lambda pair: pair[0])[1] if fitting else None

    def _hold_the_place(self, existing: Sequence[EndpointSlice], plan: SlicePlan) -> None:
        """A service always has a slice, if only one without endpoints."""
        if plan.create or len(plan.delete) < len(existing):
            return
        placeholder = new_slice(self.service, self.family)
        if len(plan.delete) == 1 and self._is_ours(plan.delete[0]) and _is_like(plan.delete[0], placeholder):
            plan.delete.clear()
        else:
            plan.create.append(placeholder)

    def _reuse(self, plan: SlicePlan) -> None:
        """Rather than to delete one slice and make another, change it."""
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
        """Whether the slice belongs to this service, and not to one that had its name before."""
        uid = self.service.metadata.uid
        return any(owner.uid == uid and owner.kind == "Service" for owner in one.metadata.owner_references)


def _is_like(one: EndpointSlice, placeholder: EndpointSlice) -> bool:
    return not one.ports and not one.endpoints and dict(one.metadata.labels) == dict(placeholder.metadata.labels)


def _ports_key(ports: Iterable[EndpointPort]) -> Hashable:
    rows = ((port.name or "", port.port or 0, port.protocol or "", port.app_protocol or "") for port in ports)
    return tuple(sorted(rows))


def _endpoint_key(endpoint: Endpoint) -> Hashable:
    """What makes an endpoint the same one, though its state may have changed."""
    target = endpoint.target_ref
    name = (target.namespace, target.name) if target is not None else ("", "")
    return (tuple(sorted(endpoint.addresses)), endpoint.hostname or "", name)


def _comparable(endpoint: Endpoint) -> Endpoint:
    """Without what is of no interest: the version of the pod, and fields that others may have set."""
    target = endpoint.target_ref
    return replace(
        endpoint,
        addresses=tuple(endpoint.addresses),
        deprecated_topology={},
        target_ref=replace(target, resource_version="") if target is not None else None,
    )
