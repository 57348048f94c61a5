"""The records of services, endpoints and pods: each line of the Kubernetes DNS specification 1.1."""

from typing import Any

import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import pytest

from pykubelet.api.generated.core import Pod, PodIP, PodStatus, Service, ServicePort, ServiceSpec
from pykubelet.api.generated.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.dns.message import encode_name
from pykubelet.dns.records import Record, endpoint_records, pod_records, service_records, zone_records
from pykubelet.testing import build

ZONE = encode_name("cluster.local")
META = ObjectMeta(name="web", namespace="shop")
HTTP = ServicePort(name="http", port=80, protocol="TCP")
READY = EndpointConditions(ready=True)


def service(cluster_ip: str = "10.96.0.5", **spec: Any) -> Service:
    return Service(metadata=META, spec=ServiceSpec(cluster_ip=cluster_ip, **spec))


def endpoints(*found: Endpoint, **fields: Any) -> EndpointSlice:
    ports = (EndpointPort(name="http", port=8080, protocol="TCP"), EndpointPort(name="", port=9, protocol="UDP"))
    return EndpointSlice(metadata=META, endpoints=found, **{"ports": ports, **fields})


def endpoint(*addresses: str, ready: bool | None = True, hostname: str | None = None) -> Endpoint:
    return Endpoint(addresses=addresses, conditions=EndpointConditions(ready=ready), hostname=hostname)


def slice_records(of: Service, found: EndpointSlice, zone: bytes) -> frozenset[Record]:
    """The records of all endpoints of a slice."""
    return frozenset(one for each in found.endpoints for one in endpoint_records(of, each, found.ports, zone))


def lines(records: frozenset[Record]) -> set[str]:
    """The records as a zone file shows them."""
    found = set()
    for name, type, data in records:
        kind = dns.rdatatype.RdataType(type)
        value = dns.rdata.from_wire(dns.rdataclass.IN, kind, data, 0, len(data)).to_text()
        found.add(f"{dns.name.from_wire(name, 0)[0]} {dns.rdatatype.to_text(kind)} {value}")
    return found


def test_schema_version() -> None:
    assert lines(zone_records(ZONE)) == {'dns-version.cluster.local. TXT "1.1.0"'}


def test_service_with_cluster_ips() -> None:
    """A, AAAA, SRV of named ports of each protocol, and PTR; an unnamed port has no record."""
    ports = (HTTP, ServicePort(name="dns", port=53, protocol="UDP"), ServicePort(port=9, protocol="TCP"))
    found = service_records(service(cluster_ips=("10.96.0.5", "fd00::5"), ports=ports), ZONE)
    assert lines(found) == {
        "web.shop.svc.cluster.local. A 10.96.0.5",
        "web.shop.svc.cluster.local. AAAA fd00::5",
        "_http._tcp.web.shop.svc.cluster.local. SRV 0 100 80 web.shop.svc.cluster.local.",
        "_dns._udp.web.shop.svc.cluster.local. SRV 0 100 53 web.shop.svc.cluster.local.",
        "5.0.96.10.in-addr.arpa. PTR web.shop.svc.cluster.local.",
        f"5.{'0.' * 28}0.d.f.ip6.arpa. PTR web.shop.svc.cluster.local.",
    }


def test_service_without_an_address_yet_has_no_address_records() -> None:
    assert service_records(service(""), ZONE) == frozenset()


def test_headless_service_with_and_without_hostnames() -> None:
    """Each ready endpoint adds to the service's name and to SRV, under its hostname or its address with dashes."""
    found = slice_records(service("None"), endpoints(endpoint("10.1.0.1", hostname="db-0"), endpoint("10.1.0.2")), ZONE)
    assert lines(found) == {
        "web.shop.svc.cluster.local. A 10.1.0.1",
        "web.shop.svc.cluster.local. A 10.1.0.2",
        "db-0.web.shop.svc.cluster.local. A 10.1.0.1",
        "10-1-0-2.web.shop.svc.cluster.local. A 10.1.0.2",
        "_http._tcp.web.shop.svc.cluster.local. SRV 0 100 8080 db-0.web.shop.svc.cluster.local.",
        "_http._tcp.web.shop.svc.cluster.local. SRV 0 100 8080 10-1-0-2.web.shop.svc.cluster.local.",
        "1.0.1.10.in-addr.arpa. PTR db-0.web.shop.svc.cluster.local.",
        "2.0.1.10.in-addr.arpa. PTR 10-1-0-2.web.shop.svc.cluster.local.",
    }
    assert service_records(service("None", ports=(HTTP,)), ZONE) == frozenset()


def test_headless_service_with_ipv6_endpoints() -> None:
    found = lines(slice_records(service("None"), endpoints(endpoint("fd00::1"), endpoint("fd00::")), ZONE))
    assert "web.shop.svc.cluster.local. AAAA fd00::1" in found
    assert "fd00--1.web.shop.svc.cluster.local. AAAA fd00::1" in found
    # A label does not end in a dash.
    assert "fd00--0.web.shop.svc.cluster.local. AAAA fd00::" in found
    assert f"1.{'0.' * 28}0.d.f.ip6.arpa. PTR fd00--1.web.shop.svc.cluster.local." in found


@pytest.mark.parametrize(
    ("ready", "publishes", "is_listed"),
    [(True, False, True), (None, False, True), (False, False, False), (False, True, True)],
)
def test_readiness_of_endpoints(ready: bool | None, publishes: bool, is_listed: bool) -> None:
    """Unknown means ready, and publishNotReadyAddresses makes readiness irrelevant."""
    headless = service("None", publish_not_ready_addresses=publishes)
    assert bool(slice_records(headless, endpoints(endpoint("10.1.0.1", ready=ready)), ZONE)) is is_listed


def test_endpoints_of_a_service_with_a_cluster_ip_have_only_hostnames() -> None:
    found = slice_records(service(), endpoints(endpoint("10.1.0.1", hostname="db-0"), endpoint("10.1.0.2")), ZONE)
    assert lines(found) == {
        "db-0.web.shop.svc.cluster.local. A 10.1.0.1",
        "1.0.1.10.in-addr.arpa. PTR db-0.web.shop.svc.cluster.local.",
    }


def test_external_name() -> None:
    """A CNAME, with or without a dot at the end; no endpoints; an address is not a name."""
    for target in ("www.Example.com", "www.example.com."):
        named = service("", type="ExternalName", external_name=target, ports=(HTTP,))
        assert lines(service_records(named, ZONE)) == {"web.shop.svc.cluster.local. CNAME www.example.com."}
        assert slice_records(named, endpoints(endpoint("10.1.0.1")), ZONE) == frozenset()
    for impossible in ("192.0.2.1", "fd00::1", "a" * 64 + ".test"):
        assert service_records(service("", type="ExternalName", external_name=impossible), ZONE) == frozenset()


def test_slices_of_names_have_no_records() -> None:
    assert (
        slice_records(service("None"), endpoints(endpoint("a.example.com"), address_type="FQDN"), ZONE) == frozenset()
    )


def pod(phase: str = "Running", *ips: str) -> Pod:
    status = PodStatus(phase=phase, pod_ip=ips[0] if ips else "", pod_ips=tuple(PodIP(ip=ip) for ip in ips))
    return build.pod(namespace="shop", status=status)


def test_pod_has_a_record_for_each_address_until_it_ends() -> None:
    assert lines(pod_records(pod("Running", "10.1.0.1", "fd00::1"), ZONE)) == {
        "10-1-0-1.shop.pod.cluster.local. A 10.1.0.1",
        "fd00--1.shop.pod.cluster.local. AAAA fd00::1",
    }
    assert pod_records(pod("Pending"), ZONE) == frozenset()
    assert pod_records(pod("Succeeded", "10.1.0.1"), ZONE) == frozenset()
    assert pod_records(pod("Failed", "10.1.0.1"), ZONE) == frozenset()
