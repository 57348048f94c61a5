"""Chooses the endpoints of a Service port: those that are ready, near, or the last resort.

Ready endpoints are used; if there are none, endpoints that still serve while they terminate. Topology hints are
followed if every ready endpoint has one and some endpoint is meant for this node or its zone. The choice for the
traffic policy Local is made among this node's endpoints alone.

`Backends` keeps both choices while endpoints come and go: a change of one endpoint costs O(1) unless it changes which
endpoints are preferred.

Upstream: pkg/proxy/topology.go, pkg/proxy/endpoint.go
"""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import NamedTuple

Target = tuple[str, int]
"""The address and port of an endpoint."""


class ProxyEndpoint(NamedTuple):
    """What an endpoint of a Service port is, seen from one node."""

    is_local: bool = False
    is_ready: bool = True
    is_serving: bool = True
    is_terminating: bool = False
    is_for_node: bool | None = None
    """Whether it is hinted for this node; None without such a hint."""
    is_for_zone: bool | None = None
    """Whether it is hinted for this node's zone; None without such a hint."""

    @property
    def is_draining(self) -> bool:
        """Whether it still serves while it terminates: the last resort."""
        return self.is_serving and self.is_terminating


class Preference(Enum):
    """The endpoints that are used for one traffic policy."""

    READY = auto()
    SAME_NODE = auto()
    SAME_ZONE = auto()
    DRAINING = auto()


_IS_USED: dict[Preference, Callable[[ProxyEndpoint], bool | None]] = {
    Preference.READY: lambda one: one.is_ready,
    Preference.SAME_NODE: lambda one: one.is_ready and one.is_for_node,
    Preference.SAME_ZONE: lambda one: one.is_ready and one.is_for_zone,
    Preference.DRAINING: lambda one: one.is_draining,
}


class DensePool:
    """Targets at the indexes from 0; removing one moves the last one into its place."""

    def __init__(self) -> None:
        self._targets: list[Target] = []
        self._indexes: dict[Target, int] = {}
        self._touched: set[int] = set()

    def __len__(self) -> int:
        return len(self._targets)

    def __iter__(self) -> Iterator[Target]:
        return iter(self._targets)

    def put(self, target: Target, is_in: bool) -> None:
        """Have a target in the pool, or not."""
        if is_in and target not in self._indexes:
            self._indexes[target] = len(self._targets)
            self._touched.add(len(self._targets))
            self._targets.append(target)
        elif not is_in and target in self._indexes:
            index, last = self._indexes.pop(target), self._targets.pop()
            self._touched.add(len(self._targets))
            if last != target:
                self._targets[index] = last
                self._indexes[last] = index
                self._touched.add(index)

    def take_changes(self) -> dict[int, Target | None]:
        """The present targets of the indexes that changed since the last call; None for an index that is gone."""
        found = {index: self._targets[index] if index < len(self) else None for index in self._touched}
        self._touched.clear()
        return found


class Backends:
    """The endpoints of a Service port, and those that are used for each traffic policy."""

    def __init__(self, *, uses_cluster: bool = True, uses_local: bool = False) -> None:
        self.endpoints: dict[Target, ProxyEndpoint] = {}
        self.cluster, self.local = DensePool(), DensePool()
        self._uses = (uses_cluster, uses_local)
        self._counts: Counter[str] = Counter()
        self._preferences: tuple[Preference, Preference] = (Preference.DRAINING, Preference.DRAINING)
        self._changed: set[Target] = set()

    @property
    def has_any(self) -> bool:
        """Whether some endpoint in the cluster can serve, on whichever node."""
        return self._counts["ready"] + self._counts["draining"] > 0

    def use(self, *, cluster: bool, local: bool) -> None:
        """Choose the traffic policies for which endpoints are kept."""
        if self._uses != (cluster, local):
            self._uses = (cluster, local)
            self._changed.update(self.endpoints)

    def update(self, target: Target, endpoint: ProxyEndpoint | None) -> None:
        """Add, change or remove an endpoint; `settle` puts it to use."""
        old = self.endpoints.pop(target, None)
        if old is not None:
            self._count(old, -1)
        if endpoint is not None:
            self.endpoints[target] = endpoint
            self._count(endpoint, 1)
        self._changed.add(target)

    def settle(self) -> None:
        """Bring the pools up to date."""
        preferences = self._preferred()
        changed = set(self.endpoints) | self._changed if preferences != self._preferences else self._changed
        self._preferences = preferences
        for_cluster, for_local = (_IS_USED[one] for one in preferences)
        uses_cluster, uses_local = self._uses
        # In order, so that the same changes always make the same pools.
        for target in sorted(changed):
            one = self.endpoints.get(target)
            self.cluster.put(target, is_in=uses_cluster and one is not None and bool(for_cluster(one)))
            self.local.put(target, is_in=uses_local and one is not None and one.is_local and bool(for_local(one)))
        self._changed = set()

    def _preferred(self) -> tuple[Preference, Preference]:
        counts = self._counts
        for_local = Preference.READY if counts["local ready"] else Preference.DRAINING
        if not (ready := counts["ready"]):
            return Preference.DRAINING, for_local
        if counts["hinted for a node"] == ready and counts["hinted for this node"]:
            return Preference.SAME_NODE, for_local
        if counts["hinted for a zone"] == ready and counts["hinted for this zone"]:
            return Preference.SAME_ZONE, for_local
        return Preference.READY, for_local

    def _count(self, one: ProxyEndpoint, by: int) -> None:
        counts = self._counts
        if one.is_ready:
            counts["ready"] += by
            counts["local ready"] += by * one.is_local
            counts["hinted for a node"] += by * (one.is_for_node is not None)
            counts["hinted for this node"] += by * bool(one.is_for_node)
            counts["hinted for a zone"] += by * (one.is_for_zone is not None)
            counts["hinted for this zone"] += by * bool(one.is_for_zone)
        elif one.is_draining:
            counts["draining"] += by
