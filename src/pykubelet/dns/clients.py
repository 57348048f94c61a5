"""Which clients get answers: this machine, the other nodes, and the pods of the cluster.

Pods are known by the addresses that they report, and by the pod ranges of nodes.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from ipaddress import ip_network

from pykubelet.api.generated.core import Node, Pod
from pykubelet.api.pods import pod_label
from pykubelet.api.scheme import NODES, PODS
from pykubelet.client.informers import Informers
from pykubelet.podnetwork.node_address import IPAddress, IPNetwork, is_local_peer, own_addresses

# A machine changes its addresses rarely; reading them takes a tenth of a millisecond.
_REFRESH_SECONDS = 10.0
# More clients than pods on a machine; others are looked up again.
_MAX_REMEMBERED = 1024


class DnsClients:
    """The clients of the DNS server; `networks` are further pod ranges."""

    def __init__(self, *, networks: Iterable[str] = (), time: Callable[[], float]) -> None:
        self._time = time
        self._ranges: dict[str, tuple[IPNetwork, ...]] = {"": tuple(map(ip_network, networks))}
        self._pods: dict[str, frozenset[str]] = {}
        self._reported: Counter[str] = Counter()
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
        self._replace(pod_label(pod), found)

    def remove_pod(self, pod: Pod) -> None:
        self._replace(pod_label(pod), frozenset())

    def put_node(self, node: Node) -> None:
        """Adds or replaces a node: its pods' ranges, and its addresses, which packets of its pods may get on the way."""
        own = (one.address for one in node.status.addresses if one.type == "InternalIP")
        ranges = tuple(ip_network(one, strict=False) for one in (*node.spec.pod_cidrs, *own))
        if self._ranges.get(node.metadata.name) != ranges:
            self._ranges[node.metadata.name] = ranges
            self._remembered.clear()

    def remove_node(self, node: Node) -> None:
        self._ranges.pop(node.metadata.name, None)
        self._remembered.clear()

    def _replace(self, label: str, new: frozenset[str]) -> None:
        old = self._pods.get(label, frozenset())
        if new == old:
            return
        if new:
            self._pods[label] = new
        else:
            del self._pods[label]
        for address in new - old:
            self._reported[address] += 1
        for address in old - new:
            self._reported[address] -= 1
            if not self._reported[address]:
                del self._reported[address]
