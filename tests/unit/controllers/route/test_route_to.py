"""The route to the pods of a node: its range through its address, if both are known and in the cluster's range."""

from ipaddress import IPv4Network

import pytest

from pykubelet.api.generated.core import Node, NodeAddress, NodeSpec, NodeStatus
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.controllers.route.route_controller import PodRoute, route_to

CLUSTER = IPv4Network("10.244.0.0/16")


def node(cidr: str, *addresses: str) -> Node:
    found = tuple(NodeAddress(type="InternalIP", address=one) for one in addresses)
    status = NodeStatus(addresses=(NodeAddress(type="Hostname", address="n"), *found))
    return Node(metadata=ObjectMeta(name="n"), spec=NodeSpec(pod_cidr=cidr), status=status)


def test_route_leads_to_the_first_ipv4_address() -> None:
    found = route_to(node("10.244.7.0/24", "fd00::1", "10.0.0.7", "10.0.0.8"), CLUSTER)
    assert found == PodRoute("10.244.7.0/24", "10.0.0.7")


@pytest.mark.parametrize(
    "other",
    [
        node("", "10.0.0.7"),
        node("10.244.7.0/24"),
        node("10.244.7.0/24", "fd00::1"),
        node("10.245.7.0/24", "10.0.0.7"),
        node("0.0.0.0/0", "10.0.0.7"),
        node("fd00::/64", "10.0.0.7"),
        node("pods", "10.0.0.7"),
    ],
    ids=["no range", "no address", "IPv6 address", "outside", "everything", "IPv6 range", "no range at all"],
)
def test_there_is_no_route_otherwise(other: Node) -> None:
    """A node must not draw the packets of other machines to itself with a range outside of the cluster's."""
    assert route_to(other, CLUSTER) is None
