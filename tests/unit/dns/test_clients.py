"""Which clients of the DNS server get answers."""

from pykubelet.api.generated.core import Node, NodeAddress, NodeSpec, NodeStatus, Pod, PodIP, PodStatus
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.dns.clients import DnsClients
from pykubelet.testing import build


def pod(name: str, *ips: str, host_network: bool = False) -> Pod:
    return build.pod(name, host_network=host_network, status=PodStatus(pod_ips=tuple(PodIP(ip=ip) for ip in ips)))


def clients() -> DnsClients:
    return DnsClients(networks=["10.244.0.0/24"], time=lambda: 0.0)


def test_this_machine_and_pods_are_clients_and_others_are_not() -> None:
    found = clients()
    assert found.allows("127.0.0.1")
    assert found.allows("10.244.0.9")
    for other in ["192.0.2.1", "10.245.0.1", "169.254.0.1", "fe80::1%eth0", "2001:db8::1", "no address"]:
        assert not found.allows(other), other


def test_pods_are_clients_as_long_as_they_report_an_address() -> None:
    """Two pods may share one for a moment; one in the host network reports its node's."""
    found = clients()
    assert not found.allows("10.88.0.1")
    found.put_pod(pod("a", "10.88.0.1", "fd00::1"))
    found.put_pod(pod("b", "10.88.0.1"))
    assert found.allows("10.88.0.1")
    assert found.allows("fd00::1")
    found.put_pod(pod("a"))
    assert found.allows("10.88.0.1")
    assert not found.allows("fd00::1")
    found.remove_pod(pod("b"))
    assert not found.allows("10.88.0.1")
    found.put_pod(pod("c", "192.0.2.1", host_network=True))
    assert not found.allows("192.0.2.1")


def test_pod_ranges_of_nodes_are_clients() -> None:
    found, node = clients(), Node(metadata=ObjectMeta(name="n"), spec=NodeSpec(pod_cidrs=("10.9.0.0/16",)))
    assert not found.allows("10.9.3.4")
    found.put_node(node)
    assert found.allows("10.9.3.4")
    found.remove_node(node)
    assert not found.allows("10.9.3.4")


def test_addresses_of_nodes_are_clients_and_unreadable_ones_are_passed_over() -> None:
    """The API does not check what a node reports."""
    addresses = (NodeAddress(type="InternalIP", address="node-1"), NodeAddress(type="InternalIP", address="192.0.2.7"))
    spec, found = NodeSpec(pod_cidrs=("010.9.0.1/16",)), clients()
    found.put_node(Node(metadata=ObjectMeta(name="n"), spec=spec, status=NodeStatus(addresses=addresses)))
    assert [found.allows(one) for one in ("192.0.2.7", "10.9.3.4", "192.0.2.8")] == [True, True, False]
