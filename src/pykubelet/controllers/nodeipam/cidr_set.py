"""The parts of the cluster's range of pods: which are taken, and which one is next.

Upstream: pkg/controller/nodeipam/ipam/cidrset/cidr_set.go
"""

from collections import Counter
from ipaddress import IPv4Network, ip_network

NODE_MASK_SIZE = 24
"""The size of a node's range, upstream's default."""


class CidrSet:
    """Ranges of one size within a cluster's range. A range may be taken by several holders and is free without any."""

    def __init__(self, cluster: IPv4Network, mask_size: int = NODE_MASK_SIZE) -> None:
        assert cluster.prefixlen <= mask_size
        self._cluster, self._mask_size = cluster, mask_size
        self._size = 1 << (32 - mask_size)
        self._count = 1 << (mask_size - cluster.prefixlen)
        self._holders: Counter[int] = Counter()
        self._next = 0

    def occupy(self, cidr: str) -> bool:
        """Marks a range as taken; False if it is not in the cluster's range."""
        found = self._indexes(cidr)
        self._holders.update(found)
        return bool(found)

    def release(self, cidr: str) -> None:
        """Takes back one call of `occupy`."""
        for index in self._indexes(cidr):
            self._holders[index] -= 1
            if not self._holders[index]:
                del self._holders[index]

    def allocate_next(self) -> str | None:
        """Takes the next free range, so that a released one is not soon used again; None if all are taken."""
        if len(self._holders) >= self._count:
            return None
        while self._next in self._holders:
            self._next = (self._next + 1) % self._count
        index, self._next = self._next, (self._next + 1) % self._count
        self._holders[index] += 1
        first = int(self._cluster.network_address) + index * self._size
        return str(IPv4Network((first, self._mask_size)))

    def _indexes(self, cidr: str) -> range:
        """The parts that a range overlaps; it may be larger or smaller than they are, or a text that is no range."""
        try:
            found = ip_network(cidr, strict=False)
        except ValueError:
            return range(0)
        if not isinstance(found, IPv4Network) or not found.overlaps(self._cluster):
            return range(0)
        start = int(self._cluster.network_address)
        first, last = int(found.network_address) - start, int(found.broadcast_address) - start
        return range(max(first // self._size, 0), min(last // self._size, self._count - 1) + 1)
