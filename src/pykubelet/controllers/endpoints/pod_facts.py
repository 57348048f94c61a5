"""What matters of a pod to services: addresses, ports, whether it may be sent traffic.

Pure. Upstream: k8s.io/endpointslice/util/controller_utils.go, k8s.io/endpointslice/utils.go.
"""

from collections.abc import Hashable
from ipaddress import IPv6Address

from pykubelet.api.addresses import parse_address, unmapped
from pykubelet.api.generated.core import Pod, Service, ServicePort
from pykubelet.api.pods import is_restartable_init_container, is_terminal
from pykubelet.controllers.pod_order import ready_condition

HEADLESS = "None"
"""The cluster IP of a service that has none, on purpose."""


def has_cluster_ip(service: Service) -> bool:
    """Whether the service has an address of its own."""
    return service.spec.cluster_ip not in ("", HEADLESS)


def gets_endpoints(service: Service) -> bool:
    """Whether endpoints are made for the service: one without a selector has them made by hand."""
    return service.spec.type != "ExternalName" and bool(service.spec.selector)


def has_endpoint(pod: Pod, *, while_terminating: bool) -> bool:
    """Whether the pod may be listed: it has an address that others can reach and is not over."""
    addresses = (pod.status.pod_ip, *(one.ip for one in pod.status.pod_ips))
    if is_terminal(pod.status.phase) or not any(map(_is_reachable, addresses)):
        return False
    return while_terminating or pod.metadata.deletion_timestamp is None


def endpoint_facts(pod: Pod) -> Hashable:
    """All that an endpoint is made of, labels and ports aside; if it is the same, so is the endpoint."""
    return (
        is_terminal(pod.status.phase),
        pod.metadata.deletion_timestamp is not None,
        ready_condition(pod) is not None,
        pod.status.pod_ip,
        tuple(one.ip for one in pod.status.pod_ips),
        (pod.spec.node_name, pod.spec.hostname, pod.spec.subdomain),
    )


def families_of(service: Service) -> tuple[str, ...]:
    """The kinds of addresses that the service hands on to, the first one first: `IPv4`, `IPv6`."""
    if service.spec.ip_families:
        return service.spec.ip_families
    if has_cluster_ip(service):
        return (_family(service.spec.cluster_ip),)
    # From a server that does not fill them in; both, until it does.
    return ("IPv4", "IPv6")


def addresses_of(pod: Pod, family: str) -> tuple[str, ...]:
    """The pod's addresses of a family."""
    parsed = (parse_address(one.ip) for one in pod.status.pod_ips)
    known = (unmapped(one) for one in parsed if one is not None and _family(str(one)) == family)
    return tuple(str(one) for one in known if _is_reachable(str(one)))


def hostname_for(pod: Pod, service: Service) -> str:
    """The pod's host name, if the service is the domain it is in; else empty."""
    is_in = pod.spec.subdomain == service.metadata.name and service.metadata.namespace == pod.metadata.namespace
    return pod.spec.hostname if is_in else ""


def target_port(pod: Pod, port: ServicePort) -> int | None:
    """The number of the port that the service means in this pod; None if the pod has no port of that name."""
    if not isinstance(port.target_port, str):
        return port.target_port
    sidecars = (container for container in pod.spec.init_containers if is_restartable_init_container(container))
    for container in (*pod.spec.containers, *sidecars):
        for found in container.ports:
            if found.name == port.target_port and found.protocol == port.protocol:
                return found.container_port
    return None


def _family(address: str) -> str:
    parsed = parse_address(address)
    return "IPv6" if parsed is not None and isinstance(unmapped(parsed), IPv6Address) else "IPv4"


def _is_reachable(address: str) -> bool:
    """Whether it is an address by which others find the pod; a server takes no other as an endpoint."""
    found = parse_address(address)
    return found is not None and not (found.is_loopback or found.is_link_local or found.is_unspecified)
