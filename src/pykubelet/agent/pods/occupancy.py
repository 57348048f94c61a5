"""What the pods of a node take of it, kept as sums.

Pure. One pod more or less costs the same, however many there are. Counts every pod from the moment it may run here until
the last of its containers has stopped, or its source does not name it any more: an edited manifest must not be refused
because its former self still runs. Upstream adds up all active pods at each admission (NodeInfo in
pkg/scheduler/framework/types.go).
"""

from collections import Counter

from msgspec import Struct

from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.api.pod_requests import EVERY_ADDRESS, PODS, HostPort, host_ports, pod_requests


class _Share(Struct, frozen=True):
    pod: Pod
    requests: tuple[tuple[str, int], ...]
    ports: tuple[HostPort, ...]


class Occupancy:
    """Who is on the node, and what is taken."""

    def __init__(self) -> None:
        self._shares: dict[PodUid, _Share] = {}
        self._used: Counter[str] = Counter()
        self._ports: dict[tuple[str, int], Counter[str]] = {}

    def put(self, pod: Pod) -> None:
        """A pod is on the node now, or asks for something else than before."""
        uid = PodUid(pod.metadata.uid)
        self.drop(uid)
        share = _Share(pod, tuple(pod_requests(pod).items()), host_ports(pod))
        self._shares[uid] = share
        self._used.update(dict(share.requests))
        for port in share.ports:
            self._ports.setdefault((port.protocol, port.port), Counter())[port.address] += 1

    def drop(self, uid: PodUid) -> None:
        """A pod takes nothing any more; nothing happens if it did not."""
        share = self._shares.pop(uid, None)
        if share is None:
            return
        self._used.subtract(dict(share.requests))
        for port in share.ports:
            taken = self._ports[port.protocol, port.port]
            taken[port.address] -= 1
            if not +taken:
                del self._ports[port.protocol, port.port]

    def __contains__(self, uid: object) -> bool:
        return uid in self._shares

    def __len__(self) -> int:
        """How many pods there are."""
        return len(self._shares)

    def used(self, resource: str) -> int:
        """How much of a resource is asked for by all pods together."""
        return len(self._shares) if resource == PODS else self._used[resource]

    def is_port_taken(self, wanted: HostPort) -> bool:
        """Whether a port is in use; one on all addresses is in the way of one on any."""
        taken = +self._ports.get((wanted.protocol, wanted.port), Counter())
        if wanted.address == EVERY_ADDRESS:
            return bool(taken)
        return wanted.address in taken or EVERY_ADDRESS in taken

    def pods(self) -> tuple[Pod, ...]:
        """Everyone, in the order of admission."""
        return tuple(share.pod for share in self._shares.values())
