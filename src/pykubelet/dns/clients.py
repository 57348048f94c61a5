"""Which clients get answers: this machine, the other nodes, and the pods of the cluster.

Pods are known by the addresses that they report, and by the pod ranges of nodes.
"""

from collections.abc import Callable, Iterable
from ipaddress import ip_network

from pykubelet.api.generated.core import Node, Pod
from pykubelet.api.names import parse_address, parse_network
from pykubelet.api.pods import pod_label
from pykubelet.api.scheme import NODES, PODS
from pykubelet.client.informers import Informers
from pykubelet.podnetwork.node_address import IPAddress, IPNetwork, ReportedAddresses, is_local_peer, own_addresses

# A machine changes its addresses rarely; reading them takes a tenth of a millisecond.
_REFRESH_SECONDS = 10.0
# More clients than pods on a machine; others are looked up again.
_MAX_REMEMBERED = 1024


class DnsClients:
    """The clients of the DNS server; `networks` are further pod ranges."""

    def __init__(self, *, networks: Iterable[str] = (), time: Callable[[], float]) -> None:
        self._time = time
        self._ranges: dict[str, tuple[IPNetwork, ...]] = {"": tuple(map(ip_network, networks))}
        self._reported = ReportedAddresses()
        self._own: tuple[IPAddress, ...] = ()
        self._read_at = -_REFRESH_SECONDS
        self._remembered: dict[str, bool] = {}

    def listen(self, informers: Informers) -> None:
        """Subscribes to pods and nodes."""
        informers.add_event_handler(PODS, changed=self.put_pod, deleted=self.remove_pod)
        informers.add_event_handler(NODES, changed=self.put_node, deleted=self.remove_node)

    def allows(self, address: str) -> bool:
        """Whether the client at an address gets answers."""
        if address in self._reported:
            return True
        if self._time() - self._read_at >= _REFRESH_SECONDS:
            self._own, self._read_at = own_addresses(), self._time()
            self._remembered.clear()
        known = self._remembered.get(address)
        if known is None:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            ranges = [one for each in self._ranges.values() for one in each]
            known = self._remembered[address] = is_local_peer(address, self._own, ranges)
        return known

    def put_pod(self, pod: Pod) -> None:
        """Adds or replaces a pod. A pod in the host network has its node's address, which is no pod's."""
        is_apart = not pod.spec.host_network
        found = frozenset(one.ip for one in pod.status.pod_ips if one.ip) if is_apart else frozenset[str]()
        self._reported.put(pod_label(pod), found)

    def remove_pod(self, pod: Pod) -> None:
        self._reported.put(pod_label(pod), frozenset())

    def put_node(self, node: Node) -> None:
        """Adds or replaces a node: its pods' ranges, and its addresses, which packets of its pods may get on the way."""
        own = (parse_address(one.address) for one in node.status.addresses if one.type == "InternalIP")
        found = (*map(parse_network, node.spec.pod_cidrs), *(ip_network(one) for one in own if one is not None))
        ranges = tuple(one for one in found if one is not None)
        if self._ranges.get(node.metadata.name) != ranges:
            self._ranges[node.metadata.name] = ranges
            self._remembered.clear()

    def remove_node(self, node: Node) -> None:
        self._ranges.pop(node.metadata.name, None)
        self._remembered.clear()
