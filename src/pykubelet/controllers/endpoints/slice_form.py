"""What a slice looks like: labels, ports, endpoints; and the patch that makes it so.

Pure. Upstream: k8s.io/endpointslice/utils.go, trafficdist/trafficdist.go.
"""

from collections.abc import Mapping

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
from pykubelet.api.wire import Document, to_document
from pykubelet.controllers.endpoints.pod_facts import addresses_of, has_cluster_ip, hostname_for, target_port
from pykubelet.controllers.endpoints.trigger_times import ANNOTATION
from pykubelet.controllers.ownership import new_controller_ref
from pykubelet.controllers.pod_order import ready_condition

CONTROLLER = "endpointslice-controller.k8s.io"
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
HEADLESS_LABEL = "service.kubernetes.io/headless"
ZONE = "topology.kubernetes.io/zone"
_RESERVED = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS_LABEL})
_CLOSE = frozenset({"PreferClose", "PreferSameZone", "PreferSameNode"})


def slice_labels(service: Service) -> dict[str, str]:
    """The service's labels, and those that say whose slice it is."""
    labels = {name: value for name, value in service.metadata.labels.items() if name not in _RESERVED}
    if not has_cluster_ip(service):
        labels[HEADLESS_LABEL] = ""
    return {**labels, SERVICE_NAME: service.metadata.name, MANAGED_BY: CONTROLLER}


def new_slice(service: Service, family: str, ports: tuple[EndpointPort, ...] = ()) -> EndpointSlice:
    """A slice without endpoints, of a name that the server completes."""
    metadata = ObjectMeta(
        generate_name=f"{service.metadata.name}-",
        namespace=service.metadata.namespace,
        labels=slice_labels(service),
        owner_references=(new_controller_ref(service),),
    )
    return EndpointSlice(metadata=metadata, address_type=family, ports=ports)


def ports_for(pod: Pod, service: Service) -> tuple[EndpointPort, ...]:
    """The service's ports as the pod has them; named ones that it lacks are left out."""
    return tuple(
        EndpointPort(name=port.name, port=number, protocol=port.protocol, app_protocol=port.app_protocol)
        for port in service.spec.ports
        if (number := target_port(pod, port)) is not None
    )


def endpoint_for(pod: Pod, node: Node | None, service: Service, family: str) -> Endpoint:
    """The pod as an endpoint. One that ends is not ready, unless the service wants all that have an address."""
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
    """The merge patch that turns one state of a slice into another."""
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
    """The merge patch of a map: what is to go is null."""
    return {**dict.fromkeys(old), **new}


def _hints(endpoint: Endpoint, distribution: str | None) -> EndpointHints | None:
    """Whose traffic the endpoint should get: that of its zone, or of its node, if the service asks for it."""
    if distribution not in _CLOSE:
        return None
    zones = (ForZone(name=endpoint.zone),) if endpoint.zone else ()
    on_node = distribution == "PreferSameNode" and endpoint.node_name
    nodes = (ForNode(name=endpoint.node_name),) if on_node and endpoint.node_name else ()
    return EndpointHints(for_zones=zones, for_nodes=nodes) if zones or nodes else None
