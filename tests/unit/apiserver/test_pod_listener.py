"""Which peers the listener for pods accepts."""

from pykubelet.apiserver.pod_listener import LocalPeers
from verb_requests import MERGE, Asker, pod

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"


async def report(asker: Asker, name: str, *addresses: str) -> None:
    """Have a pod's status report addresses."""
    status = {"podIP": addresses[0] if addresses else None, "podIPs": [{"ip": one} for one in addresses] or None}
    await asker.ask("PATCH", f"{PODS}/{name}/status", {"status": status}, content_type=MERGE)


async def test_machine_itself_is_accepted_and_strangers_are_not(asker: Asker) -> None:
    """Loopback is the machine itself."""
    peers = LocalPeers(asker.api.store)
    assert peers.accepts("127.0.0.1")
    assert not peers.accepts("203.0.113.9")
    assert not peers.accepts("")


async def test_pods_are_accepted_while_they_have_the_address(asker: Asker) -> None:
    """Two pods may report one address while one takes it over from the other."""
    for name in ("a", "b"):
        await asker.ask("POST", PODS, pod(name, nodeName="n"))
    await report(asker, "a", "10.88.0.2", "fd01::2")
    peers = LocalPeers(asker.api.store)
    assert peers.accepts("10.88.0.2")
    assert peers.accepts("::ffff:10.88.0.2")
    assert peers.accepts("fd01::2")
    await report(asker, "b", "10.88.0.2")
    await report(asker, "a", "10.88.0.3")
    assert [peers.accepts(one) for one in ("10.88.0.2", "10.88.0.3", "fd01::2")] == [True, True, False]
    await asker.ask("DELETE", f"{PODS}/b", {"gracePeriodSeconds": 0})
    assert [peers.accepts(one) for one in ("10.88.0.2", "10.88.0.3")] == [False, True]


async def test_address_in_other_fields_of_a_pod_is_none_of_it(asker: Asker) -> None:
    """The address of a pod in the host network is the node's, and an annotation is only text."""
    await asker.ask("POST", PODS, {**pod("a"), "metadata": {"name": "a", "annotations": {"podIP": "10.88.0.2"}}})
    await asker.ask("POST", PODS, pod("b", hostNetwork=True))
    await report(asker, "b", "10.88.0.3")
    peers = LocalPeers(asker.api.store)
    assert [peers.accepts(one) for one in ("10.88.0.2", "10.88.0.3")] == [False, False]


async def test_pod_networks_of_nodes_are_accepted(asker: Asker) -> None:
    """They are known before a pod reports its address."""
    peers = LocalPeers(asker.api.store)
    await asker.ask("POST", NODES, {"metadata": {"name": "n"}, "spec": {"podCIDR": "10.244.3.0/24"}})
    assert [peers.accepts(one) for one in ("10.244.3.9", "10.244.4.9")] == [True, False]
    await asker.ask("DELETE", f"{NODES}/n")
    assert not peers.accepts("10.244.3.9")


async def test_pod_network_is_read_as_the_api_accepts_it(asker: Asker) -> None:
    """Host bits and leading zeros are valid there: the server must neither fail nor forget the node."""
    peers = LocalPeers(asker.api.store)
    for name, block in (("a", "10.244.3.1/24"), ("b", "010.245.0.0/24")):
        await asker.ask("POST", NODES, {"metadata": {"name": name}, "spec": {"podCIDR": block}})
    assert [peers.accepts(one) for one in ("10.244.3.9", "10.245.0.9", "10.246.0.9")] == [True, True, False]
