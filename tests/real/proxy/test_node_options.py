"""Health check node ports, unused addresses of Services, and the proxy's options about its node."""

import http.client
import json
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from network_lab import CLIENT_IP, NODE_IP, NetworkLab, ask
from proxy_rig import IP, ProxyRig, endpoint, endpoint_slice, service, until
from pykubelet.podnetwork.node_address import own_addresses
from pykubelet.proxy.nodeport_addresses import NodePortAddresses

ONE, TWO = "10.1.0.1", "10.1.0.2"
UNUSED_IP, OTHER_NODE_IP = "10.96.0.99", "198.51.100.1"
NODE_PORT, HEALTH_PORT = 30080, 30081
BALANCED: dict[str, Any] = {
    "type": "LoadBalancer",
    "externalTrafficPolicy": "Local",
    "healthCheckNodePort": HEALTH_PORT,
    "ports": [{"port": 80, "nodePort": NODE_PORT}],
}


# The rig runs in a thread, which alone is in the namespace of the node.
own = partial(own_addresses, Path("/proc/thread-self/net"))


@pytest.fixture(scope="module")
def lab() -> Iterator[NetworkLab]:
    """Two pods that serve."""
    made = NetworkLab()
    try:
        for address in (ONE, TWO):
            made.add_pod(address)
            made.serve(address, 8080)
        yield made
    finally:
        made.close()


@pytest.fixture
def proxy(lab: NetworkLab, request: pytest.FixtureRequest) -> Iterator[ProxyRig]:
    """A proxy with the options of the test."""
    made = ProxyRig(lab.node, **getattr(request, "param", {}))
    yield made
    if made.is_running:
        made.stop()
    for family in ("ip", "ip6"):
        lab.node.run(
            "nft", "-f", "-", text=f"add table {family} pykubelet-proxy\ndelete table {family} pykubelet-proxy\n"
        )


def health(lab: NetworkLab, port: int = HEALTH_PORT) -> tuple[int, dict[str, str], dict[str, Any]]:
    """The answer of a health check to a client outside: code, headers and body."""
    connection = http.client.HTTPConnection(NODE_IP, port, timeout=5)
    with lab.client.inside():
        connection.connect()
    try:
        connection.request("GET", "/")
        answer = connection.getresponse()
        return answer.status, dict(answer.headers.items()), json.loads(answer.read())
    finally:
        connection.close()


def refuses(lab: NetworkLab, port: int = HEALTH_PORT) -> bool:
    try:
        health(lab, port)
    except ConnectionRefusedError:
        return True
    return False


def test_health_check_port_counts_the_endpoints_of_the_node(lab: NetworkLab, proxy: ProxyRig) -> None:
    """200 while the node has a ready endpoint, 503 otherwise; an address with two ports is one endpoint."""
    two_ports = [{"name": name, "port": port, "protocol": "TCP"} for name, port in (("a", 8080), ("b", 9090))]
    proxy.start(service(**BALANCED), endpoint_slice(ONE, endpoint(TWO, node="other"), ports=two_ports))
    until(lambda: not refuses(lab))
    code, headers, body = health(lab)
    assert (code, headers["Content-Type"]) == (200, "application/json")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Load-Balancing-Endpoint-Weight"] == "1"
    assert body == {
        "service": {"namespace": "shop", "name": "web"},
        "localEndpoints": 1,
        "serviceProxyHealthy": True,
    }
    proxy.put(endpoint_slice(ONE, TWO, ports=two_ports))
    assert (health(lab)[0], health(lab)[2]["localEndpoints"]) == (200, 2)
    proxy.put(endpoint_slice(endpoint(ONE, ready=False), endpoint(TWO, node="other"), ports=two_ports))
    assert (health(lab)[0], health(lab)[2]["localEndpoints"]) == (503, 0)


def test_health_check_port_follows_its_service(lab: NetworkLab, proxy: ProxyRig) -> None:
    """It ends with the Service, and a port is free for another one at once."""
    proxy.start(service(**BALANCED), endpoint_slice(ONE))
    until(lambda: not refuses(lab))
    proxy.remove(service())
    until(lambda: refuses(lab))
    proxy.put(service(**{**BALANCED, "healthCheckNodePort": HEALTH_PORT + 1}))
    until(lambda: not refuses(lab, HEALTH_PORT + 1))
    other = service("other", "10.96.0.11", **{**BALANCED, "healthCheckNodePort": HEALTH_PORT + 1})
    proxy.remove(service())
    proxy.put(other)
    until(lambda: not refuses(lab, HEALTH_PORT + 1) and health(lab, HEALTH_PORT + 1)[2]["service"]["name"] == "other")
    assert refuses(lab)


@pytest.mark.parametrize("proxy", [{"service_cidrs": ("10.96.0.0/16", "fd96::/112")}], indirect=True, ids=["cidr"])
def test_packets_to_unused_addresses_of_services_are_dropped(lab: NetworkLab, proxy: ProxyRig) -> None:
    """They must not leave the cluster; a wrong port of a used address is refused, and other addresses are not touched."""
    proxy.start(service(), endpoint_slice(ONE))
    for place in (lab.pods[TWO], lab.node):
        with pytest.raises(TimeoutError):
            ask(place, UNUSED_IP, 80, seconds=0.3)
        with pytest.raises(ConnectionRefusedError):
            ask(place, IP, 81)
        assert ask(place, IP, 80)[0] == ONE
    counted = lab.node.run("nft", "list", "chain", "ip", "pykubelet-proxy", "cluster-ips-check")
    assert "ip daddr 10.96.0.0/16 drop" in counted
    proxy.put(service("late", UNUSED_IP), endpoint_slice(TWO, of="late"))
    until(lambda: ask(lab.pods[ONE], UNUSED_IP, 80)[0] == TWO)


@pytest.mark.parametrize("proxy", [{"masquerade_all": True}], indirect=True, ids=["all"])
def test_all_clients_of_cluster_ips_are_masqueraded_on_request(lab: NetworkLab, proxy: ProxyRig) -> None:
    """The endpoint sees an address of the node."""
    proxy.start(service(), endpoint_slice(ONE))
    assert ask(lab.pods[TWO], IP, 80)[1] not in {ONE, TWO}
    assert ask(lab.client, IP, 80)[1] != CLIENT_IP


@pytest.mark.parametrize(
    "proxy",
    [{"node_ports": NodePortAddresses(cidrs=(ip_network("198.51.100.0/24"), ip_network("127.0.0.0/8")), own=own)}],
    indirect=True,
    ids=["one network"],
)
def test_node_ports_are_on_the_chosen_addresses(lab: NetworkLab, proxy: ProxyRig) -> None:
    """Other addresses of the machine have none, and loopback never has."""
    proxy.start(service(**BALANCED), endpoint_slice(ONE))
    assert ask(lab.node, OTHER_NODE_IP, NODE_PORT)[0] == ONE
    assert ask(lab.client, OTHER_NODE_IP, NODE_PORT)[0] == ONE
    for address in (NODE_IP, "127.0.0.1"):
        with pytest.raises(ConnectionRefusedError):
            ask(lab.node, address, NODE_PORT)
    assert refuses(lab)
