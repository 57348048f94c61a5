"""The strategy of services, and the allocation of addresses and ports."""

from ipaddress import IPv4Network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import InternalError, Invalid
from pykubelet.apiserver.admission.services import (
    CLUSTER_IP_RANGE,
    NODE_PORT_RANGE,
    ServiceAllocations,
    allocate,
    allocations_of,
)
from pykubelet.kinds.service import strategy as service
from pykubelet.kinds.service.validation import is_externally_accessible
from strategy_calls import SYSTEM, create, texts, update, update_status

SERVICES = service.KIND.strategy

_PORT = {"port": 80}


def _allocated(
    spec: dict[str, Any], taken: ServiceAllocations | None = None, old: dict[str, Any] | None = None
) -> dict[str, Any]:
    document = {"metadata": {"name": "s", "namespace": "default", **SYSTEM}, "spec": spec}
    return allocate(SERVICES.default(document), old, taken or ServiceAllocations())


def _messages(spec: dict[str, Any]) -> list[str]:
    return texts(SERVICES.validate_create(_allocated(spec)))


def test_plain_service_gets_an_address_and_every_default() -> None:
    """The only field that a client must set is a port."""
    service = _allocated({"ports": [_PORT]})
    assert texts(SERVICES.validate_create(service)) == []
    assert service["spec"] == {
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "clusterIP": "10.96.0.2",
        "clusterIPs": ["10.96.0.2"],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
    }
    assert SERVICES.prepare_create(service)["status"] == {"loadBalancer": {}}


@pytest.mark.parametrize(
    ("selector", "families", "policy"),
    [({"a": "b"}, ["IPv4"], "SingleStack"), ({}, ["IPv4", "IPv6"], "RequireDualStack")],
    ids=["of pods", "of anything"],
)
def test_headless_service_gets_families_but_no_address(
    selector: dict[str, str], families: list[str], policy: str
) -> None:
    service = _allocated({"clusterIP": "None", "selector": selector})
    spec = service["spec"]
    assert (spec["clusterIPs"], spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["None"], families, policy)
    assert texts(SERVICES.validate_create(service)) == []


def test_external_name_needs_no_address() -> None:
    service = _allocated({"type": "ExternalName", "externalName": "db.example.com."})
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "internalTrafficPolicy"} & set(service["spec"])
    assert texts(SERVICES.validate_create(service)) == []


def test_node_ports_are_shared_by_ports_of_one_number() -> None:
    """Two protocols of one port number share a node port; local traffic of a load balancer gets a health check port."""
    ports = [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}, {"name": "x", "port": 80}]
    spec = _allocated({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports})["spec"]
    assert [port["nodePort"] for port in spec["ports"]] == [30000, 30000, 30001]
    assert spec["healthCheckNodePort"] == 30002
    assert spec["allocateLoadBalancerNodePorts"] is True


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"clusterIP": "10.96.0.9"},
            "failed to allocate IP 10.96.0.9: provided IP is already allocated",
            id="address taken",
        ),
        pytest.param(
            {"clusterIP": "192.168.0.1"},
            "the provided IP (192.168.0.1) is not in the valid range. The range of valid IPs is 10.96.0.0/12",
            id="address out of range",
        ),
        pytest.param(
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30007}]},
            "spec.ports[0].nodePort: Invalid value: 30007: provided port is already allocated",
            id="port taken",
        ),
        pytest.param(
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
            id="port out of range",
        ),
        pytest.param(
            {"ipFamilyPolicy": "RequireDualStack"},
            'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services',
            id="two families",
        ),
        pytest.param(
            {"ipFamilies": ["IPv6"]},
            'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster',
            id="other family",
        ),
    ],
)
def test_service_is_refused_when_its_address_port_or_family_is_unavailable(spec: dict[str, Any], message: str) -> None:
    taken = ServiceAllocations({"10.96.0.9"}, {30007})
    with pytest.raises(Invalid) as caught:
        _allocated({"ports": [_PORT], **spec}, taken)
    assert message in caught.value.message
    assert caught.value.details["kind"] == "Service"


def test_update_keeps_addresses_and_ports_that_the_client_left_out() -> None:
    """Clients that send a whole manifest again omit these fields."""
    spec = {"type": "NodePort", "ports": [{"port": 80, "name": "web"}]}
    old = _allocated(spec)
    assert _allocated(spec, allocations_of([]), old) == old
    renamed = _allocated({"type": "NodePort", "ports": [{"port": 81, "name": "web"}]}, allocations_of([]), old)
    assert renamed["spec"]["ports"][0]["nodePort"] == old["spec"]["ports"][0]["nodePort"]


def test_health_check_port_stays_while_it_is_needed() -> None:
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [_PORT]}
    old = _allocated(spec)
    again = _allocated({**spec, "ports": [{"port": 81}]}, allocations_of([old]), old)
    assert again["spec"]["healthCheckNodePort"] == old["spec"]["healthCheckNodePort"]
    other = _allocated({**spec, "externalTrafficPolicy": "Cluster"}, allocations_of([old]), old)
    assert "healthCheckNodePort" not in other["spec"]


def test_list_of_addresses_follows_a_change_of_the_first() -> None:
    """A client of one address family may know only the field clusterIP."""
    old = _allocated({"ports": [_PORT]})
    assert _allocated({"ports": [_PORT], "clusterIP": "10.96.0.9"})["spec"]["clusterIPs"] == ["10.96.0.9"]
    spec = {**old["spec"], "clusterIP": "10.96.0.9"}
    assert _allocated(spec, allocations_of([]), old)["spec"]["clusterIPs"] == ["10.96.0.9"]
    named = {"type": "ExternalName", "externalName": "x.y", "clusterIP": "", "clusterIPs": old["spec"]["clusterIPs"]}
    assert "clusterIPs" not in _allocated(named, allocations_of([]), old)["spec"]


def test_load_balancer_gets_no_node_ports_if_it_wants_none() -> None:
    """A port that the client names is kept all the same."""
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": 30005}]
    spec = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": ports}
    assert [port.get("nodePort") for port in _allocated(spec)["spec"]["ports"]] == [None, 30005]


def test_allocation_fails_when_nothing_is_left() -> None:
    """The first two addresses of the range are the network's and the API server's, the last is for broadcasts."""
    document = SERVICES.default({"metadata": {"name": "s", **SYSTEM}, "spec": {"ports": [_PORT]}})
    small = IPv4Network("10.0.0.0/29")
    addresses = {f"10.0.0.{number}" for number in range(2, 6)}
    assert allocate(document, None, ServiceAllocations(addresses), (small,))["spec"]["clusterIP"] == "10.0.0.6"
    with pytest.raises(InternalError, match="failed to allocate a serviceIP: range is full"):
        allocate(document, None, ServiceAllocations({*addresses, "10.0.0.6"}), (small,))
    ports = {*NODE_PORT_RANGE} - {32767}
    node_port = {"type": "NodePort", "ports": [_PORT]}
    assert _allocated(node_port, ServiceAllocations(ports=ports))["spec"]["ports"][0]["nodePort"] == 32767
    with pytest.raises(InternalError, match="failed to allocate a nodePort: range is full"):
        _allocated(node_port, ServiceAllocations(ports={*NODE_PORT_RANGE}))


def test_fields_of_the_old_type_are_dropped_when_the_type_changes() -> None:
    stored = SERVICES.prepare_create(_allocated({"type": "NodePort", "ports": [_PORT]}))
    plain, messages = update(SERVICES, stored, {"spec": {"type": "ClusterIP"}})
    assert ("nodePort" in plain["spec"]["ports"][0], "externalTrafficPolicy" in plain["spec"]) == (False, False)
    assert messages == []
    named, messages = update(SERVICES, stored, {"spec": {"type": "ExternalName", "externalName": "x.y"}})
    assert "clusterIP" not in named["spec"]
    assert messages == []


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        pytest.param({}, ["spec.ports: Required value"], id="no ports"),
        pytest.param(
            {"ports": [{"port": 0}]},
            [
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
            id="no port",
        ),
        pytest.param(
            {"ports": [{"port": 80}, {"port": 81}]},
            ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
            id="no names",
        ),
        pytest.param(
            {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]},
            [
                'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}'
            ],
            id="same port",
        ),
        pytest.param(
            {"ports": [_PORT], "sessionAffinity": "Sometimes"},
            ['spec.sessionAffinity: Unsupported value: "Sometimes": supported values: "ClientIP", "None"'],
            id="affinity",
        ),
        pytest.param({"type": "ExternalName"}, ["spec.externalName: Required value"], id="no name"),
        pytest.param(
            {"ports": [_PORT], "externalIPs": ["127.0.0.1"]},
            [
                'spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)'
            ],
            id="loopback",
        ),
        pytest.param(
            {"ports": [_PORT], "loadBalancerClass": "x"},
            ["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"],
            id="class",
        ),
        pytest.param(
            {"type": "NodePort", "clusterIP": "None", "ports": [_PORT]},
            ["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"],
            id="headless node port",
        ),
    ],
)
def test_bad_service_is_rejected(spec: dict[str, Any], messages: list[str]) -> None:
    assert _messages(spec) == messages


def test_name_of_a_service_is_a_label_that_starts_with_a_letter() -> None:
    _, messages = create(SERVICES, {"metadata": {"name": "1a"}, "spec": {"clusterIP": "None"}})
    assert [text.partition(": a DNS-1035 label")[0] for text in messages[:1]] == ['metadata.name: Invalid value: "1a"']


def test_address_of_a_service_may_not_change() -> None:
    stored = SERVICES.prepare_create(_allocated({"ports": [_PORT]}))
    _, messages = update(SERVICES, stored, {"spec": {"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"]}})
    assert messages == ['spec.clusterIPs[0]: Invalid value: ["10.96.0.7"]: may not change once set']


def test_status_of_a_service_holds_addresses_of_load_balancers_only() -> None:
    stored = SERVICES.prepare_create(_allocated({"type": "LoadBalancer", "ports": [_PORT]}))
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    new, messages = update_status(SERVICES, stored, status)
    assert (new["status"]["loadBalancer"]["ingress"], messages) == ([{"ip": "1.2.3.4", "ipMode": "VIP"}], [])
    odd = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ipMode": "Relay"}]}}}
    assert update_status(SERVICES, stored, odd)[1] == [
        'status.loadBalancer.ingress[0].ipMode: Unsupported value: "Relay": supported values: "Proxy", "VIP"'
    ]
    plain = SERVICES.prepare_create(_allocated({"ports": [_PORT]}))
    assert update_status(SERVICES, plain, status)[1] == [
        "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"
    ]


@given(kinds=st.lists(st.sampled_from(("ClusterIP", "NodePort", "LoadBalancer")), max_size=12))
@settings(max_examples=30, deadline=None)
def test_no_two_services_get_the_same_address_or_port(kinds: list[str]) -> None:
    """Each service gets an address and a node port of its own, from the right range."""
    services: list[dict[str, Any]] = []
    for kind in kinds:
        services.append(_allocated({"type": kind, "ports": [_PORT]}, allocations_of(services)))
    taken = allocations_of(services)
    assert len(taken.addresses) == len(services)
    assert len(taken.ports) == sum(kind != "ClusterIP" for kind in kinds)
    assert all(port in NODE_PORT_RANGE for port in taken.ports)
    assert str(CLUSTER_IP_RANGE[1]) not in taken.addresses


@pytest.mark.parametrize(
    ("spec", "is_accessible"),
    [
        ({"type": "LoadBalancer"}, True),
        ({"type": "NodePort"}, True),
        ({"type": "ClusterIP"}, False),
        ({"type": "ClusterIP", "externalIPs": []}, False),
        ({"type": "ClusterIP", "externalIPs": ["192.0.2.1"]}, True),
        ({"type": "ExternalName", "externalIPs": ["192.0.2.1"]}, False),
    ],
)
def test_service_is_accessible_from_outside_by_its_type_or_addresses(spec: dict[str, Any], is_accessible: bool) -> None:
    assert is_externally_accessible(spec) == is_accessible
