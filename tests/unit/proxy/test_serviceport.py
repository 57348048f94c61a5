"""Which Services the proxy serves, and with which addresses and policies."""

from typing import Any

import pytest

from proxy_rig import as_service, service
from pykubelet.proxy.serviceport import IPFamily, ServicePort, ServicePortName, service_ports

WEB = ServicePortName("shop", "web", "", "tcp")


def ports(family: IPFamily = IPFamily.IPV4, **spec: Any) -> dict[ServicePortName, ServicePort]:
    return service_ports(as_service(service(**spec)), family)


@pytest.mark.parametrize(
    "spec",
    [
        {"ip": "None"},
        {"ip": ""},
        {"ip": "", "type": "ExternalName", "externalName": "example.org"},
        {"type": "ExternalName"},
        {"ip": "fd96::10"},
    ],
    ids=lambda spec: "-".join(map(str, spec.values())),
)
def test_service_without_an_address_of_the_family_has_no_ports(spec: dict[str, Any]) -> None:
    assert ports(**spec) == {}


def test_service_of_another_proxy_has_no_ports() -> None:
    document = service()
    document["metadata"]["labels"] = {"service.kubernetes.io/service-proxy-name": "other"}
    assert service_ports(as_service(document), IPFamily.IPV4) == {}


def test_each_family_has_its_own_addresses() -> None:
    found = ports(IPFamily.IPV6, ip=("10.96.0.10", "fd96::0010"), externalIPs=["203.0.113.1", "fd00::1"])
    assert found == {WEB: ServicePort(cluster_ip="fd96::10", port=80, external_ips=("fd00::1",))}


def test_ports_are_named_by_protocol_too() -> None:
    """DNS has one port number twice."""
    both = [{"name": name, "port": 53, "protocol": protocol} for name, protocol in (("dns", "UDP"), ("tcp", "TCP"))]
    assert {(name.port, name.protocol) for name in ports(ports=both)} == {("dns", "udp"), ("tcp", "tcp")}


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 0),
        ({"sessionAffinity": "None"}, 0),
        ({"sessionAffinity": "ClientIP"}, 10800),
        ({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 7}}}, 7),
    ],
)
def test_session_affinity_has_a_timeout(spec: dict[str, Any], seconds: int) -> None:
    assert ports(**spec)[WEB].affinity_seconds == seconds


def test_source_range_of_everybody_is_no_restriction() -> None:
    """Spaces are allowed, as validation allows them; ranges of the other family do not count."""
    assert ports(loadBalancerSourceRanges=[" 10.0.0.0/8 ", "fd00::/8"])[WEB].source_ranges == ("10.0.0.0/8",)
    assert ports(loadBalancerSourceRanges=["10.0.0.0/8", "0.0.0.0/0"])[WEB].source_ranges == ()


def test_load_balancer_address_in_proxy_mode_is_left_to_the_load_balancer() -> None:
    ingress = [{"ip": "203.0.113.1", "ipMode": "Proxy"}, {"ip": "203.0.113.2", "ipMode": "VIP"}, {"hostname": "lb"}]
    document = {**service(type="LoadBalancer"), "status": {"loadBalancer": {"ingress": ingress}}}
    assert service_ports(as_service(document), IPFamily.IPV4)[WEB].load_balancer_ips == ("203.0.113.2",)


@pytest.mark.parametrize(
    ("fields", "uses"),
    [
        ({}, (True, False)),
        ({"internal_local": True}, (False, True)),
        ({"external_local": True}, (True, False)),
        ({"external_local": True, "node_port": 30080}, (True, True)),
        ({"internal_local": True, "node_port": 30080}, (True, True)),
        ({"internal_local": True, "external_local": True, "external_ips": ("203.0.113.1",)}, (True, True)),
    ],
    ids=lambda value: "-".join(map(str, value)),
)
def test_policies_decide_which_endpoints_are_used(fields: dict[str, Any], uses: tuple[bool, bool]) -> None:
    """Local clients of an external address use all endpoints, whatever the policy."""
    port = ServicePort(cluster_ip="10.96.0.10", port=80, **fields)
    assert (port.uses_cluster_endpoints, port.uses_local_endpoints) == uses
