"""Real connections through the addresses of Services: from pods, from the node, and from outside the cluster."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from network_lab import CLIENT_IP, NODE_IP, Caller, Namespace, NetworkLab, ask
from proxy_rig import IP, UDP_SLICE, ProxyRig, endpoint, endpoint_slice, service, udp, until

ONE, TWO, THREE = "10.1.0.1", "10.1.0.2", "10.1.0.3"
UDP = socket.SOCK_DGRAM
NODE_PORT = 30080


@pytest.fixture(scope="module")
def lab() -> Iterator[NetworkLab]:
    """Two pods that serve TCP and UDP, and one that serves nothing."""
    made = NetworkLab()
    try:
        for address in (ONE, TWO, THREE):
            made.add_pod(address)
        for address in (ONE, TWO):
            made.serve(address, 8080)
            made.serve(address, 5353, UDP)
        yield made
    finally:
        made.close()


@pytest.fixture
def proxy(lab: NetworkLab, caplog: pytest.LogCaptureFixture) -> Iterator[ProxyRig]:
    made = ProxyRig(lab.node)
    yield made
    if made.is_running:
        made.stop()
    for family in ("ip", "ip6"):
        lab.node.run(
            "nft", "-f", "-", text=f"add table {family} pykubelet-proxy\ndelete table {family} pykubelet-proxy\n"
        )
    # Every partial transaction fits the kernel, but where a test deletes the rules.
    expected = ["the kernel has other rules than expected, writing all of them"] if made.is_disturbed else []
    assert [one.message for one in caplog.get_records("call") if one.levelname in ("WARNING", "ERROR")] == expected


def test_cluster_ip_reaches_every_endpoint_from_everywhere(lab: NetworkLab, proxy: ProxyRig) -> None:
    """From a pod, from the node and through the node, with the client's own address where answers find back."""
    proxy.start(service(), endpoint_slice(ONE, TWO))
    from_pod = {ask(lab.pods[THREE], IP, 80) for _ in range(30)}
    assert from_pod == {(ONE, THREE), (TWO, THREE)}
    assert ask(lab.node, IP, 80)[0] in {ONE, TWO}
    assert ask(lab.client, IP, 80)[1] == CLIENT_IP


def test_node_port_is_masqueraded_from_outside(lab: NetworkLab, proxy: ProxyRig) -> None:
    """The endpoint sees the node, so that its answer passes the node again; loopback has no node ports."""
    ports = [{"port": 80, "nodePort": NODE_PORT}]
    proxy.start(service(type="NodePort", ports=ports), endpoint_slice(ONE))
    server, client = ask(lab.client, NODE_IP, NODE_PORT)
    assert server == ONE
    assert client != CLIENT_IP
    assert ask(lab.node, NODE_IP, NODE_PORT)[0] == ONE
    with pytest.raises(ConnectionRefusedError):
        ask(lab.node, "127.0.0.1", NODE_PORT)


def test_endpoint_reaches_itself(lab: NetworkLab, proxy: ProxyRig) -> None:
    """Without masquerading, the pod would answer itself directly, which no connection survives."""
    proxy.start(service(), endpoint_slice(ONE))
    server, client = ask(lab.pods[ONE], IP, 80)
    assert server == ONE
    assert client != ONE


def test_service_without_endpoints_is_refused(lab: NetworkLab, proxy: ProxyRig) -> None:
    """A client learns it at once; also on a port that the Service does not have."""
    proxy.start(service(), endpoint_slice(endpoint(ONE, ready=False)))
    for place in (lab.pods[THREE], lab.node, lab.client):
        with pytest.raises(ConnectionRefusedError):
            ask(place, IP, 80)
    proxy.put(endpoint_slice(ONE))
    until(lambda: ask(lab.pods[THREE], IP, 80)[0] == ONE)
    with pytest.raises(ConnectionRefusedError):
        ask(lab.pods[THREE], IP, 81)
    proxy.remove(endpoint_slice(ONE))
    until(lambda: _is_refused(lab))


def _is_refused(lab: NetworkLab) -> bool:
    with suppress(ConnectionRefusedError):
        ask(lab.pods[THREE], IP, 80)
        return False
    return True


def test_terminating_endpoint_serves_until_another_is_ready(lab: NetworkLab, proxy: ProxyRig) -> None:
    """Upstream's last resort: an endpoint that still serves while it terminates."""
    leaving = endpoint(ONE, ready=False, serving=True, terminating=True)
    proxy.start(service(), endpoint_slice(leaving))
    assert ask(lab.pods[THREE], IP, 80)[0] == ONE
    proxy.put(endpoint_slice(leaving, TWO))
    until(lambda: ask(lab.pods[THREE], IP, 80)[0] == TWO)
    assert {ask(lab.pods[THREE], IP, 80)[0] for _ in range(10)} == {TWO}


def test_client_stays_with_its_endpoint(lab: NetworkLab, proxy: ProxyRig) -> None:
    """Also over a restart of the proxy, and while other endpoints come and go."""
    sticky = service(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 600}})
    proxy.start(sticky, endpoint_slice(ONE, TWO))
    places = [lab.pods[THREE], lab.client]
    first = [ask(place, IP, 80)[0] for place in places]
    for _ in range(10):
        assert [ask(place, IP, 80)[0] for place in places] == first
    proxy.stop()
    assert [ask(place, IP, 80)[0] for place in places] == first
    proxy.start()
    for _ in range(10):
        assert [ask(place, IP, 80)[0] for place in places] == first
    other = TWO if first[0] == ONE else ONE
    proxy.put(endpoint_slice(other))
    until(lambda: ask(places[0], IP, 80)[0] == other)


def test_local_external_policy_keeps_the_client_and_stays_on_the_node(lab: NetworkLab, proxy: ProxyRig) -> None:
    """Clients outside reach only endpoints of this node, which see their address; clients here reach all."""
    spec: dict[str, Any] = {
        "type": "NodePort",
        "externalTrafficPolicy": "Local",
        "ports": [{"port": 80, "nodePort": NODE_PORT}],
    }
    away = endpoint(TWO, node="node-2")
    proxy.start(service(**spec), endpoint_slice(ONE, away))
    assert {ask(lab.client, NODE_IP, NODE_PORT) for _ in range(10)} == {(ONE, CLIENT_IP)}
    assert {ask(lab.node, NODE_IP, NODE_PORT)[0] for _ in range(30)} == {ONE, TWO}
    proxy.put(endpoint_slice(away))
    until(lambda: _is_dropped(lab.client, NODE_IP, NODE_PORT))
    assert ask(lab.node, NODE_IP, NODE_PORT)[0] == TWO


def test_local_internal_policy_stays_on_the_node(lab: NetworkLab, proxy: ProxyRig) -> None:
    """Without an endpoint on this node, packets are dropped, not refused: others may serve elsewhere."""
    away = endpoint(TWO, node="node-2")
    proxy.start(service(internalTrafficPolicy="Local"), endpoint_slice(ONE, away))
    assert {ask(lab.pods[THREE], IP, 80)[0] for _ in range(10)} == {ONE}
    proxy.put(endpoint_slice(away))
    until(lambda: _is_dropped(lab.pods[THREE], IP, 80))


def _is_dropped(place: Namespace, address: str, port: int) -> bool:
    try:
        ask(place, address, port, seconds=0.3)
    except TimeoutError:
        return True
    return False


def test_udp_client_follows_when_its_endpoint_goes(lab: NetworkLab, proxy: ProxyRig) -> None:
    """A client that keeps its port would otherwise be sent to the old endpoint for ever; likewise a node port's."""
    proxy.start(service(type="NodePort", **udp(node_port=30053)), endpoint_slice(ONE, **UDP_SLICE))
    callers = [Caller(lab.pods[THREE], IP, 53, UDP), Caller(lab.client, NODE_IP, 30053, UDP)]
    try:
        assert [one.ask()[0] for one in callers] == [ONE, ONE]
        proxy.put(endpoint_slice(TWO, **UDP_SLICE))
        for one in callers:
            until(lambda one=one: one.ask()[0] == TWO)  # type: ignore[misc]
    finally:
        for one in callers:
            one.close()


def test_udp_client_finds_the_first_endpoint(lab: NetworkLab, proxy: ProxyRig) -> None:
    """A connection from before the Service existed is not kept past the Service."""
    proxy.start()
    caller = Caller(lab.pods[THREE], IP, 53, UDP, seconds=0.2)
    try:
        with pytest.raises(TimeoutError):
            caller.ask()
        proxy.put(service(**udp()), endpoint_slice(ONE, **UDP_SLICE))
        until(lambda: caller.ask()[0] == ONE)
    finally:
        caller.close()


def test_connection_survives_a_restart(lab: NetworkLab, proxy: ProxyRig) -> None:
    """A connection goes on while the proxy is stopped, and when it writes everything again; new ones work throughout."""
    proxy.start(service(), endpoint_slice(ONE, TWO))
    caller = Caller(lab.pods[THREE], IP, 80)
    try:
        before = caller.ask()
        proxy.stop()
        assert caller.ask() == before
        assert ask(lab.pods[THREE], IP, 80)[0] in {ONE, TWO}
        proxy.start()
        assert caller.ask() == before
        assert ask(lab.pods[THREE], IP, 80)[0] in {ONE, TWO}
    finally:
        caller.close()


def test_rules_come_back_when_another_program_deletes_them(lab: NetworkLab, proxy: ProxyRig) -> None:
    """The next change does not fit the kernel, so everything is written."""
    proxy.start(service(), endpoint_slice(ONE))
    proxy.is_disturbed = True
    lab.node.run("nft", "flush", "ruleset")
    proxy.put(endpoint_slice(TWO))
    until(lambda: ask(lab.pods[THREE], IP, 80)[0] == TWO)
    assert ask(lab.pods[THREE], IP, 80)[0] == TWO


def test_service_of_both_families(lab: NetworkLab, proxy: ProxyRig) -> None:
    """Each family has its own address and endpoints."""
    address, service_ip = "fd10::1", "fd96::10"
    lab.add_pod(address)
    lab.serve(address, 8080)
    proxy.start(service(ip=(IP, service_ip)), endpoint_slice(ONE), endpoint_slice(address, name="web-6"))
    assert ask(lab.pods[THREE], IP, 80)[0] == ONE
    assert ask(lab.client, service_ip, 80)[0] == address
    assert ask(lab.pods[address], service_ip, 80)[0] == address


def test_external_and_load_balancer_addresses(lab: NetworkLab, proxy: ProxyRig) -> None:
    """Both lead to the endpoints; the load balancer's only for the clients in its source ranges."""
    spec: dict[str, Any] = {
        "type": "LoadBalancer",
        "externalIPs": ["203.0.113.1"],
        "loadBalancerSourceRanges": ["192.168.77.0/24"],
    }
    status = {"loadBalancer": {"ingress": [{"ip": "203.0.113.2", "ipMode": "VIP"}]}}
    proxy.start({**service(**spec), "status": status}, endpoint_slice(ONE))
    assert ask(lab.client, "203.0.113.1", 80)[0] == ONE
    assert ask(lab.client, "203.0.113.2", 80)[0] == ONE
    assert ask(lab.pods[THREE], "203.0.113.1", 80)[0] == ONE
    assert _is_dropped(lab.pods[THREE], "203.0.113.2", 80)


def test_clients_outside_the_cluster_are_masqueraded_by_range(lab: NetworkLab) -> None:
    """With the range of pods known, clients outside it are masqueraded on the way to a cluster IP."""
    proxy = ProxyRig(lab.node, cluster_cidrs=("10.1.0.0/16",)).start(service(), endpoint_slice(ONE))
    try:
        assert ask(lab.pods[THREE], IP, 80) == (ONE, THREE)
        assert ask(lab.client, IP, 80)[1] != CLIENT_IP
    finally:
        proxy.stop()
