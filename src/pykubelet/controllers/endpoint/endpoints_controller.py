"""The endpoints controller: maintains one Endpoints object per service with a selector.

Kept for programs that do not read EndpointSlices yet. Endpoints are written only when they change, and deleted with
their service. The order of ports and subsets has no meaning; upstream's follows from hashes of Go values, ours from
names and numbers.

Upstream: pkg/controller/endpoint/endpoints_controller.go, pkg/api/v1/endpoints/util.go
"""

import math
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import (
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
    ObjectReference,
    Pod,
    Service,
)
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import ENDPOINTS
from pykubelet.api.serializer import Document, to_document
from pykubelet.client.indexer import ObjectIndex, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import PatchType, Writer
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.controllers.endpointslice.reconciler import HEADLESS_LABEL, merge_map
from pykubelet.controllers.endpointslice.service_pods import (
    ANNOTATION,
    HEADLESS,
    ServicePods,
    TriggerTimeTracker,
    addresses_of,
    families_of,
    gets_endpoints,
    has_cluster_ip,
    has_endpoint,
    hostname_for,
    target_port,
)
from pykubelet.controllers.framework.active_pods import ready_condition
from pykubelet.controllers.framework.pod_control import NAMESPACE_TERMINATING
from pykubelet.controllers.framework.work_queue import WorkQueue

MAX_ADDRESSES = 1000
MANAGED_BY = "endpoints.kubernetes.io/managed-by"
CONTROLLER = "endpoint-controller"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
_Row = tuple[EndpointAddress, bool]
LEADER = "control-plane.alpha.kubernetes.io/leader"
"""Endpoints with this annotation are a leader election lock and need no service."""


class EndpointsController:
    """Syncs services by key."""

    def __init__(
        self,
        *,
        client: Writer,
        recorder: EventRecorder,
        services: ObjectIndex[Service],
        service_pods: ServicePods,
        endpoints: ObjectIndex[Endpoints],
    ) -> None:
        self._client, self._recorder = client, recorder
        self._services, self._service_pods, self._endpoints = services, service_pods, endpoints
        self._trigger_times = TriggerTimeTracker()
        self._found_at_start: set[str] | None = set()
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        """Subscribes to changes of Endpoints, and to the services reported by `service_pods`."""
        self._service_pods.add_listener(self.queue.add)
        informers.add_event_handler(
            ENDPOINTS, added=self.endpoints_added, deleted=lambda gone: self.queue.add(key_of(gone))
        )

    def endpoints_added(self, found: Endpoints) -> None:
        """Records Endpoints found at the start, whose service may be gone."""
        if self._found_at_start is not None and LEADER not in found.metadata.annotations:
            self._found_at_start.add(key_of(found))

    async def process_next(self) -> None:
        """Syncs the next service of the queue; failures are retried with backoff."""
        if self._found_at_start is not None:
            for key in sorted(self._found_at_start):
                self.queue.add(key)
            self._found_at_start = None
        await self.queue.process_next(self.sync)

    async def sync(self, key: str) -> None:
        service = self._services.get(key)
        if service is None:
            self._trigger_times.forget(key)
            namespace, _, name = key.partition("/")
            with suppress(NotFound):
                await self._client.delete(ENDPOINTS, name, namespace=namespace)
            return
        if not gets_endpoints(service):
            return
        pods = self._service_pods.pods_of(service)
        new = endpoints_for(service, pods, self._trigger_times.of(service, pods))
        old = self._endpoints.get(key)
        if old is None:
            await self._create(new)
        elif patch := endpoints_patch(old, new):
            await self._change(old, patch)

    async def _create(self, new: Endpoints) -> None:
        try:
            await self._client.create(ENDPOINTS, new, namespace=new.metadata.namespace)
        except ApiError as error:
            if error.has_cause(NAMESPACE_TERMINATING):
                return
            text = f"Failed to create endpoint for service {key_of(new)}: {error}"
            self._recorder.event(reference_to(new), WARNING, "FailedToCreateEndpoint", text)
            raise

    async def _change(self, old: Endpoints, patch: dict[str, Any]) -> None:
        meta = old.metadata
        try:
            await self._client.patch(ENDPOINTS, meta.name, patch, namespace=meta.namespace, patch_type=PatchType.MERGE)
        except ApiError as error:
            text = f"Failed to update endpoint {key_of(old)}: {error}"
            self._recorder.event(reference_to(old), WARNING, "FailedToUpdateEndpoint", text)
            raise


def endpoints_for(service: Service, pods: Iterable[Pod], trigger_time: str | None) -> Endpoints:
    subsets = subsets_for(service, pods)
    kept = truncate_endpoints(subsets)
    annotations = {ANNOTATION: trigger_time} if trigger_time else {}
    if kept != subsets:
        annotations[OVER_CAPACITY] = "truncated"
    labels = {**service.metadata.labels, MANAGED_BY: CONTROLLER}
    labels.pop(HEADLESS_LABEL, None)
    if not has_cluster_ip(service):
        labels[HEADLESS_LABEL] = ""
    meta = service.metadata
    metadata = ObjectMeta(name=meta.name, namespace=meta.namespace, labels=labels, annotations=annotations)
    return Endpoints(metadata=metadata, subsets=kept)


def endpoints_patch(old: Endpoints, new: Endpoints) -> Document | None:
    """The merge patch from the old to the new Endpoints; None if nothing relevant differs."""
    is_truncated = [OVER_CAPACITY in one.metadata.annotations for one in (old, new)]
    same_labels = dict(old.metadata.labels) == dict(new.metadata.labels)
    if _comparable(old.subsets) == _comparable(new.subsets) and same_labels and is_truncated[0] == is_truncated[1]:
        return None
    ours = (ANNOTATION, OVER_CAPACITY)
    return {
        "metadata": {
            "uid": old.metadata.uid,
            "resourceVersion": old.metadata.resource_version,
            "labels": merge_map(old.metadata.labels, new.metadata.labels),
            "annotations": {name: new.metadata.annotations.get(name) for name in ours},
        },
        "subsets": [to_document(subset) for subset in new.subsets] or None,
    }


def subsets_for(service: Service, pods: Iterable[Pod]) -> tuple[EndpointSubset, ...]:
    by_port: dict[EndpointPort | None, dict[Hashable, _Row]] = {}
    for pod in pods:
        address = _address(service, pod)
        if address is None:
            continue
        is_ready = service.spec.publish_not_ready_addresses or ready_condition(pod) is not None
        for port in _ports(service, pod):
            by_port.setdefault(port, {})[address.ip, pod.metadata.uid] = (address, is_ready)
    return _packed(by_port)


def repack_subsets(subsets: Iterable[EndpointSubset]) -> tuple[EndpointSubset, ...]:
    """The subsets with each set of ports once; an address that is ready and not ready counts as not ready."""
    by_port: dict[EndpointPort | None, dict[Hashable, _Row]] = {}
    for subset in subsets:
        rows = [*((one, True) for one in subset.addresses), *((one, False) for one in subset.not_ready_addresses)]
        for port in subset.ports or (None,):
            found = by_port.setdefault(port, {})
            for address, is_ready in rows:
                key = (address.ip, address.target_ref.uid if address.target_ref else "")
                found[key] = (address, is_ready and found.get(key, (address, True))[1])
    return _packed(by_port)


def _packed(by_port: Mapping[EndpointPort | None, dict[Hashable, _Row]]) -> tuple[EndpointSubset, ...]:
    """Groups ports that have the same addresses into one subset."""
    by_addresses: dict[Hashable, tuple[list[EndpointPort], dict[Hashable, _Row]]] = {}
    for port, rows in by_port.items():
        key = frozenset((name, is_ready) for name, (_, is_ready) in rows.items())
        ports, _ = by_addresses.setdefault(key, ([], rows))
        if port is not None:
            ports.append(port)
    subsets = (
        EndpointSubset(
            addresses=_sorted(address for address, is_ready in rows.values() if is_ready),
            not_ready_addresses=_sorted(address for address, is_ready in rows.values() if not is_ready),
            ports=tuple(sorted(ports, key=_port_order)),
        )
        for ports, rows in by_addresses.values()
    )
    return tuple(sorted(subsets, key=lambda subset: [_port_order(port) for port in subset.ports]))


def truncate_endpoints(subsets: tuple[EndpointSubset, ...]) -> tuple[EndpointSubset, ...]:
    """Limits the addresses to a thousand: ready ones first, each subset in proportion."""
    ready = sum(len(subset.addresses) for subset in subsets)
    others = sum(len(subset.not_ready_addresses) for subset in subsets)
    if ready + others <= MAX_ADDRESSES:
        return subsets
    cuts_ready = ready > MAX_ADDRESSES
    total, room = (ready, MAX_ADDRESSES) if cuts_ready else (others, MAX_ADDRESSES - ready)
    left = room
    kept: list[EndpointSubset] = []
    for subset in subsets:
        rows = subset.addresses if cuts_ready else subset.not_ready_addresses
        rows = rows[: min(left, math.ceil(len(rows) / total * room))]
        left -= len(rows)
        if cuts_ready:
            kept.append(replace(subset, addresses=rows, not_ready_addresses=()))
        else:
            kept.append(replace(subset, not_ready_addresses=rows))
    return tuple(kept)


def _address(service: Service, pod: Pod) -> EndpointAddress | None:
    """The pod's address of the service's first IP family, if it is to be listed."""
    if not has_endpoint(pod, while_terminating=service.spec.publish_not_ready_addresses):
        return None
    found = addresses_of(pod, families_of(service)[0])
    if not found:
        return None
    return EndpointAddress(
        ip=found[0],
        node_name=pod.spec.node_name,
        hostname=hostname_for(pod, service),
        target_ref=ObjectReference(
            kind="Pod", namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid
        ),
    )


def _ports(service: Service, pod: Pod) -> list[EndpointPort | None]:
    """The service's ports in the pod; [None] for a headless service without ports."""
    if not service.spec.ports:
        return [None] if service.spec.cluster_ip == HEADLESS else []
    return [
        EndpointPort(name=port.name, port=number, protocol=port.protocol, app_protocol=port.app_protocol)
        for port in service.spec.ports
        if (number := target_port(pod, port)) is not None
    ]


def _sorted(addresses: Iterable[EndpointAddress]) -> tuple[EndpointAddress, ...]:
    return tuple(sorted(addresses, key=lambda one: (one.ip, one.target_ref.uid if one.target_ref else "")))


def _port_order(port: EndpointPort) -> tuple[str, int, str]:
    return (port.name, port.port, port.protocol)


def _comparable(subsets: tuple[EndpointSubset, ...]) -> list[Document]:
    """The subsets without resource versions of pods."""
    documents = [to_document(subset) for subset in subsets]
    for document in documents:
        for row in (*document.get("addresses", ()), *document.get("notReadyAddresses", ())):
            row.get("targetRef", {}).pop("resourceVersion", None)
    return documents
