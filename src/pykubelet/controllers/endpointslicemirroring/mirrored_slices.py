"""Which EndpointSlices mirror an Endpoints object: one for each set of ports and address family.

Upstream: pkg/controller/endpointslicemirroring/reconciler.go, pkg/controller/endpointslicemirroring/utils.go
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from pykubelet.api.generated.core import EndpointAddress, Endpoints
from pykubelet.api.generated.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.names import parse_address
from pykubelet.api.serializer import Document, to_document
from pykubelet.controllers.endpoint.endpoints_controller import repack_subsets
from pykubelet.controllers.endpointslice.reconciler import (
    MANAGED_BY,
    SERVICE_NAME,
    SlicePlan,
    comparable,
    endpoint_key,
    merge_map,
    ports_key,
)
from pykubelet.controllers.endpointslice.service_pods import ANNOTATION
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.controllers.framework.pod_control import pods_prefix

CONTROLLER = "endpointslicemirroring-controller.k8s.io"
MAX_ENDPOINTS = 1000
"""The addresses of one subset that are mirrored; the rest is reported by an event."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(slots=True)
class MirroredSubsets:
    """The slices to have for an Endpoints object, by family and ports, and what could not be mirrored."""

    slices: dict[Hashable, EndpointSlice] = field(default_factory=dict)
    invalid: int = 0
    """Addresses that are no IP addresses."""
    skipped: int = 0
    """All addresses that are not mirrored, the invalid ones included."""


def mirrored_subsets(endpoints: Endpoints) -> MirroredSubsets:
    """The slices that hold every address of the subsets, up to a thousand for each set of ports."""
    mirrored = MirroredSubsets()
    for subset in repack_subsets(endpoints.subsets):
        ports = tuple(
            EndpointPort(name=port.name, port=port.port, protocol=port.protocol, app_protocol=port.app_protocol)
            for port in subset.ports
        )
        by_family: dict[str, dict[Hashable, Endpoint]] = {}
        added = 0
        rows = [*((one, True) for one in subset.addresses), *((one, False) for one in subset.not_ready_addresses)]
        for address, is_ready in rows:
            if added == MAX_ENDPOINTS:
                break
            found = _endpoint(address, is_ready=is_ready)
            if found is None:
                mirrored.invalid += 1
                continue
            family, endpoint = found
            by_family.setdefault(family, {})[endpoint_key(endpoint)] = endpoint
            added += 1
        mirrored.skipped += len(rows) - added
        for family, members in by_family.items():
            one = EndpointSlice(
                metadata=_metadata(endpoints), address_type=family, ports=ports, endpoints=tuple(members.values())
            )
            mirrored.slices[family, ports_key(ports)] = one
    return mirrored


def plan_mirrored(wanted: MirroredSubsets, existing: Iterable[EndpointSlice]) -> SlicePlan:
    """The writes that turn the existing slices into the wanted ones; a surplus slice is reused for a new one."""
    plan, left = SlicePlan(), dict(wanted.slices)
    for old in existing:
        new = left.pop((old.address_type, ports_key(old.ports)), None)
        if new is None:
            plan.delete.append(old)
        elif not _is_equal(old, new):
            plan.update.append((old, new))
    for new in left.values():
        reused = next((one for one in plan.delete if one.address_type == new.address_type), None)
        if reused is None:
            plan.create.append(new)
        else:
            plan.delete.remove(reused)
            plan.update.append((reused, new))
    return plan


def mirror_patch(old: EndpointSlice, new: EndpointSlice) -> Document:
    """The merge patch that makes a slice equal to the wanted one."""
    meta = new.metadata
    return {
        "metadata": {
            "uid": old.metadata.uid,
            "resourceVersion": old.metadata.resource_version,
            "labels": merge_map(old.metadata.labels, meta.labels),
            "annotations": merge_map(old.metadata.annotations, meta.annotations),
            "ownerReferences": [to_document(one) for one in meta.owner_references],
        },
        "endpoints": [to_document(endpoint) for endpoint in new.endpoints],
        "ports": [to_document(port) for port in new.ports],
    }


def _endpoint(address: EndpointAddress, *, is_ready: bool) -> tuple[str, Endpoint] | None:
    """The address family and the endpoint of an address; None if it is no IP address."""
    ip = parse_address(address.ip)
    if ip is None:
        return None
    endpoint = Endpoint(
        addresses=(str(ip),),
        conditions=EndpointConditions(ready=is_ready),
        target_ref=address.target_ref,
        node_name=address.node_name,
        hostname=address.hostname or None,
    )
    return f"IPv{ip.version}", endpoint


def _metadata(endpoints: Endpoints) -> ObjectMeta:
    meta = endpoints.metadata
    skipped = (ANNOTATION, _LAST_APPLIED)
    return ObjectMeta(
        generate_name=pods_prefix(meta.name),
        namespace=meta.namespace,
        labels={**meta.labels, SERVICE_NAME: meta.name, MANAGED_BY: CONTROLLER},
        annotations={name: value for name, value in meta.annotations.items() if name not in skipped},
        owner_references=(new_controller_ref(endpoints),),
    )


def _is_equal(old: EndpointSlice, new: EndpointSlice) -> bool:
    found = {endpoint_key(one): comparable(one) for one in old.endpoints}
    wanted = {endpoint_key(one): comparable(one) for one in new.endpoints}
    meta = new.metadata
    is_same = (dict(old.metadata.labels), dict(old.metadata.annotations)) == (dict(meta.labels), dict(meta.annotations))
    return is_same and found == wanted and meta.owner_references == old.metadata.owner_references
