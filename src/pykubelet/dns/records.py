"""The DNS records of services, endpoints and pods, as pure functions.

They are those of the Kubernetes DNS specification 1.1. An endpoint without a hostname is named by its address with
dashes. A pod has a record under `pod` only while it exists (CoreDNS: `pods verified`), so that no name of the cluster
resolves to an address of a client's choice.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from pykubelet.api.generated.core import Pod, Service
from pykubelet.api.generated.discovery import Endpoint, EndpointPort
from pykubelet.api.names import parse_address
from pykubelet.api.pods import is_terminal
from pykubelet.dns.message import RecordType, encode_name, label, reverse_name, srv

SCHEMA_VERSION = "1.1.0"
"""The version of the specification."""
SERVICE_NAME = "kubernetes.io/service-name"
_NO_ADDRESS = "None"
_EXTERNAL_NAME = "ExternalName"


class Record(NamedTuple):
    """One record: a name as on the wire, in lower case, and its data."""

    name: bytes
    type: int
    data: bytes


def zone_records(zone: bytes) -> frozenset[Record]:
    """The record of the schema's version."""
    version = SCHEMA_VERSION.encode()
    return frozenset({Record(label("dns-version") + zone, RecordType.TXT, bytes((len(version),)) + version)})


def service_records(service: Service, zone: bytes) -> frozenset[Record]:
    """The records that a service has by itself, whatever its endpoints."""
    spec, name = service.spec, _service_name(service, zone)
    if spec.type == _EXTERNAL_NAME:
        # An address is no name to point to.
        if parse_address(spec.external_name) is not None:
            return frozenset()
        try:
            return frozenset({Record(name, RecordType.CNAME, encode_name(spec.external_name))})
        except ValueError:
            return frozenset()
    if is_headless(service):
        return frozenset()
    found = [
        Record(_port_name(port.name, port.protocol, name), RecordType.SRV, srv(port.port, name))
        for port in spec.ports
        if port.name
    ]
    for text in spec.cluster_ips or (spec.cluster_ip,):
        if (address := parse_address(text)) is not None:
            found += [_address_record(name, address), Record(reverse_name(address), RecordType.PTR, name)]
    return frozenset(found)


def endpoint_records(
    service: Service, endpoint: Endpoint, ports: Iterable[EndpointPort], zone: bytes
) -> frozenset[Record]:
    """The records of one endpoint of a service; with a cluster IP only if it has a hostname."""
    # Spelled out, because slices that no controller of ours made may not consider it.
    all_ready = service.spec.publish_not_ready_addresses
    is_listed = all_ready or endpoint.conditions.ready is not False
    headless = is_headless(service)
    if service.spec.type == _EXTERNAL_NAME or not is_listed or not (headless or endpoint.hostname):
        return frozenset()
    name, found = _service_name(service, zone), set[Record]()
    for address in map(parse_address, endpoint.addresses):
        # A slice of addressType FQDN has names.
        if address is None:
            continue
        own = label(endpoint.hostname or _dashed(address)) + name
        found.add(_address_record(own, address))
        found.add(Record(reverse_name(address), RecordType.PTR, own))
        if headless:
            found.add(_address_record(name, address))
            found.update(
                Record(_port_name(port.name, port.protocol or "TCP", name), RecordType.SRV, srv(port.port, own))
                for port in ports
                if port.name and port.port
            )
    return frozenset(found)


def pod_records(pod: Pod, zone: bytes) -> frozenset[Record]:
    """The record `a-b-c-d.<namespace>.pod` of each address of a pod, unless it has ended."""
    if is_terminal(pod.status.phase):
        return frozenset()
    texts = {pod.status.pod_ip, *(one.ip for one in pod.status.pod_ips)}
    parent = label(pod.metadata.namespace) + label("pod") + zone
    found = (parse_address(text) for text in texts)
    return frozenset(_address_record(label(_dashed(one)) + parent, one) for one in found if one is not None)


def is_headless(service: Service) -> bool:
    """Whether the service's name stands for its endpoints."""
    return service.spec.cluster_ip == _NO_ADDRESS


def _service_name(service: Service, zone: bytes) -> bytes:
    return label(service.metadata.name) + label(service.metadata.namespace) + label("svc") + zone


def _port_name(port: str, protocol: str, service: bytes) -> bytes:
    return label(f"_{port}") + label(f"_{protocol}") + service


def _address_record(name: bytes, address: IPv4Address | IPv6Address) -> Record:
    return Record(name, RecordType.A if address.version == 4 else RecordType.AAAA, address.packed)


def _dashed(address: IPv4Address | IPv6Address) -> str:
    """An address as a label; as in CoreDNS, a label does not end in a dash."""
    text = str(address).replace(".", "-").replace(":", "-")
    return f"{text}0" if text.endswith("-") else text
