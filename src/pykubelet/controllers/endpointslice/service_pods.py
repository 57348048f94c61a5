"""The pods of each service: selection, addresses, ports, readiness, and trigger times.

A pod's change costs as much as it has labels, however many services and pods there are. Trigger times measure the delay
from a change to its endpoints: of all pods changed since the last sync, and the service, the earliest counts.

Upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go,
staging/src/k8s.io/endpointslice/util/trigger_time_tracker.go, staging/src/k8s.io/endpointslice/utils.go
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv6Address

from pykubelet.api.generated.core import Pod, Service, ServicePort
from pykubelet.api.names import parse_address, unmap_ipv4
from pykubelet.api.pods import is_restartable_init_container, is_terminal
from pykubelet.api.scheme import PODS, SERVICES
from pykubelet.api.times import nanoseconds
from pykubelet.client.indexer import LabelIndex, ObjectIndex, SelectorIndex, has_labels, key_of
from pykubelet.client.informers import Informers
from pykubelet.controllers.framework.active_pods import ready_condition

HEADLESS = "None"
"""The cluster IP of a headless service."""
ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"


@dataclass(slots=True)
class _ServiceTimes:
    service: str = ""
    pods: dict[str, str] = field(default_factory=dict)


class ServicePods:
    """Maps services to pods and back, and notifies listeners of services whose endpoints may have changed."""

    def __init__(self, services: ObjectIndex[Service]) -> None:
        self._services = services
        self._pods: LabelIndex[Pod] = LabelIndex()
        self._selectors = SelectorIndex()
        self._listeners: list[Callable[[str], None]] = []

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(SERVICES, changed=self.service_put, deleted=self.service_deleted)
        informers.add_event_handler(PODS, added=self.pod_added, updated=self.pod_updated, deleted=self.pod_deleted)

    def add_listener(self, listener: Callable[[str], None]) -> None:
        """Registers a listener, called with the key of each service whose endpoints may have changed."""
        self._listeners.append(listener)

    def pods_of(self, service: Service) -> list[Pod]:
        """The pods that a service selects, by name."""
        return self._pods.labelled(service.metadata.namespace, service.spec.selector)

    def service_put(self, service: Service) -> None:
        if service.spec.selector:
            self._selectors.put(key_of(service), service.spec.selector)
        else:
            self._selectors.remove(key_of(service))
        self._notify({key_of(service)})

    def service_deleted(self, service: Service) -> None:
        self._selectors.remove(key_of(service))
        self._notify({key_of(service)})

    def pod_added(self, pod: Pod) -> None:
        self._pods.put(pod)
        self._notify(self._selecting(pod))

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Updates a pod; notifies only if an endpoint may have changed."""
        self._pods.put(new)
        has_changed = old.metadata.uid != new.metadata.uid or endpoint_facts(old) != endpoint_facts(new)
        if has_changed:
            self._notify(self._selecting(old) | self._selecting(new))
        elif old.metadata.labels != new.metadata.labels:
            self._notify(self._selecting(old) ^ self._selecting(new))

    def pod_deleted(self, pod: Pod) -> None:
        self._pods.remove(pod)
        self._notify(self._selecting(pod))

    def _selecting(self, pod: Pod) -> set[str]:
        found = (self._services.get(key) for key in self._selectors.candidates(pod))
        return {key_of(one) for one in found if one is not None and has_labels(pod.metadata.labels, one.spec.selector)}

    def _notify(self, keys: set[str]) -> None:
        for key in sorted(keys):
            for listener in self._listeners:
                listener(key)


class TriggerTimeTracker:
    """The times seen of each service and its pods at the last sync."""

    def __init__(self) -> None:
        self._seen: dict[str, _ServiceTimes] = {}

    def of(self, service: Service, pods: Iterable[Pod]) -> str | None:
        """The earliest change since the last call; None if nothing with a time has changed."""
        key = key_of(service)
        old = self._seen.get(key)
        new = _ServiceTimes(
            service.metadata.creation_timestamp or "",
            {pod.metadata.name: time for pod in pods if (time := _ready_time(pod))},
        )
        self._seen[key] = new
        if old is None:
            return new.service or None
        changed = [time for name, time in new.pods.items() if _is_after(time, old.pods.get(name, ""))]
        if _is_after(new.service, old.service):
            changed.append(new.service)
        return min(changed, key=nanoseconds, default=None)

    def forget(self, key: str) -> None:
        self._seen.pop(key, None)


def has_cluster_ip(service: Service) -> bool:
    return service.spec.cluster_ip not in ("", HEADLESS)


def gets_endpoints(service: Service) -> bool:
    """Whether endpoints are maintained for the service: it has a selector and is not an ExternalName."""
    return service.spec.type != "ExternalName" and bool(service.spec.selector)


def has_endpoint(pod: Pod, *, while_terminating: bool) -> bool:
    """Whether the pod may be listed: it has a reachable address and has not finished."""
    addresses = (pod.status.pod_ip, *(one.ip for one in pod.status.pod_ips))
    if is_terminal(pod.status.phase) or not any(map(_is_reachable, addresses)):
        return False
    return while_terminating or pod.metadata.deletion_timestamp is None


def endpoint_facts(pod: Pod) -> Hashable:
    """All fields an endpoint is made of, except labels and ports; equal facts mean an equal endpoint."""
    return (
        is_terminal(pod.status.phase),
        pod.metadata.deletion_timestamp is not None,
        ready_condition(pod) is not None,
        pod.status.pod_ip,
        tuple(one.ip for one in pod.status.pod_ips),
        (pod.spec.node_name, pod.spec.hostname, pod.spec.subdomain),
    )


def families_of(service: Service) -> tuple[str, ...]:
    """The IP families of the service, primary first: `IPv4`, `IPv6`."""
    if service.spec.ip_families:
        return service.spec.ip_families
    if has_cluster_ip(service):
        return (_family(service.spec.cluster_ip),)
    # Both, if the server does not default them.
    return ("IPv4", "IPv6")


def addresses_of(pod: Pod, family: str) -> tuple[str, ...]:
    parsed = (parse_address(one.ip) for one in pod.status.pod_ips)
    known = (unmap_ipv4(one) for one in parsed if one is not None and _family(str(one)) == family)
    return tuple(str(one) for one in known if _is_reachable(str(one)))


def hostname_for(pod: Pod, service: Service) -> str:
    """The pod's host name if the service is its subdomain, else empty."""
    is_in = pod.spec.subdomain == service.metadata.name and service.metadata.namespace == pod.metadata.namespace
    return pod.spec.hostname if is_in else ""


def target_port(pod: Pod, port: ServicePort) -> int | None:
    """The target port's number in this pod; None if the pod has no port of that name."""
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
    return "IPv6" if parsed is not None and isinstance(unmap_ipv4(parsed), IPv6Address) else "IPv4"


def _is_reachable(address: str) -> bool:
    """Whether the address is valid for an endpoint: not loopback, link-local or unspecified."""
    found = parse_address(address)
    return found is not None and not (found.is_loopback or found.is_link_local or found.is_unspecified)


def _ready_time(pod: Pod) -> str | None:
    return next((one.last_transition_time for one in pod.status.conditions if one.type == "Ready"), None)


def _is_after(time: str, other: str) -> bool:
    return bool(time) and (not other or nanoseconds(time) > nanoseconds(other))
