"""The scheduler's cache: nodes, the resources that pods use on each of them, and namespace labels.

Updated one change at a time; a pod's change costs O(1). A pod counts from the moment it is assumed on a node.

Upstream: pkg/scheduler/backend/cache/cache.go, pkg/scheduler/framework/types.go, pkg/scheduler/util/pod_resources.go
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from pykubelet.api.generated.core import (
    Affinity,
    Container,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
)
from pykubelet.api.generated.meta import LabelSelector
from pykubelet.api.labels import NOTHING, Selector, SelectorError, selector_from_object
from pykubelet.api.pods import CPU, EVERY_ADDRESS, MEMORY, HostPort, amounts, host_ports, pod_requests
from pykubelet.api.volumes import pod_claims

# Assumed for a container without requests when nodes are scored.
_DEFAULT_REQUESTS = {CPU: "100m", MEMORY: "200Mi"}
Labels = Mapping[str, str]
_UNKNOWN_NODE = Node()


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A pod (anti-)affinity term: selects pods within the nodes that share a value of `topology_key`."""

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    weight: int
    """The weight of a preferred term, negative for anti-affinity; 0 for required terms."""

    def matches(self, pod: Pod, namespace_labels: Labels) -> bool:
        """Whether the term selects a pod whose namespace has these labels."""
        is_in = pod.metadata.namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return is_in and self.selector.matches(pod.metadata.labels)


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A pod with its precomputed requests, host ports and affinity terms."""

    pod: Pod
    requests: Mapping[str, int]
    non_zero_requests: Mapping[str, int]
    """The requests with defaults for containers that request nothing."""
    ports: tuple[HostPort, ...]
    required_affinity: tuple[AffinityTerm, ...]
    """Terms that must match a pod in the same domain."""
    required_anti_affinity: tuple[AffinityTerm, ...]
    """Terms that must not match any pod in the same domain."""
    preferred_affinity: tuple[AffinityTerm, ...]
    claims: tuple[tuple[str, str], ...]
    """Namespace and name of the PersistentVolumeClaims that the pod uses."""


class NodeInfo:
    """A node and the sums over its pods. Modified by the cache only."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.node = _UNKNOWN_NODE
        self.allocatable: Mapping[str, int] = {}
        self.image_sizes: Mapping[str, int] = {}
        self.pods: dict[str, PodInfo] = {}
        self.requested: Counter[str] = Counter()
        self.non_zero_requested: Counter[str] = Counter()
        self._ports: dict[tuple[str, int], Counter[str]] = {}

    @property
    def labels(self) -> Labels:
        return self.node.metadata.labels

    def is_port_taken(self, wanted: HostPort) -> bool:
        """Whether a host port conflicts; a port on all addresses conflicts with one on any."""
        taken = self._ports.get((wanted.protocol, wanted.port), Counter())
        if wanted.address == EVERY_ADDRESS:
            return bool(taken)
        return wanted.address in taken or EVERY_ADDRESS in taken

    def put(self, pod_info: PodInfo) -> None:
        self.pods[pod_info.pod.metadata.uid] = pod_info
        self.requested.update(pod_info.requests)
        self.non_zero_requested.update(pod_info.non_zero_requests)
        for port in pod_info.ports:
            self._ports.setdefault((port.protocol, port.port), Counter())[port.address] += 1

    def drop(self, uid: str) -> PodInfo:
        pod_info = self.pods.pop(uid)
        self.requested.subtract(pod_info.requests)
        self.non_zero_requested.subtract(pod_info.non_zero_requests)
        for port in pod_info.ports:
            taken = self._ports[port.protocol, port.port]
            taken[port.address] -= 1
            if not taken[port.address]:
                del taken[port.address]
        return pod_info


class SchedulerCache:
    """All nodes and the pods on them."""

    def __init__(self) -> None:
        self._node_infos: dict[str, NodeInfo] = {}
        self._existing: dict[str, NodeInfo] = {}
        self._node_of: dict[str, NodeInfo] = {}
        self._namespaces: dict[str, Labels] = {}
        self.image_nodes: Counter[str] = Counter()
        """The number of nodes that have an image."""
        self.pods_with_required_anti_affinity: dict[str, tuple[NodeInfo, PodInfo]] = {}
        """Pods with required anti-affinity terms, by UID."""
        self.pods_with_affinity: dict[str, tuple[NodeInfo, PodInfo]] = {}
        """Pods with required or preferred affinity terms, by UID."""
        self.claim_users: Counter[tuple[str, str]] = Counter()
        """The number of pods that use a PersistentVolumeClaim, by its namespace and name."""

    @property
    def nodes(self) -> Mapping[str, NodeInfo]:
        """The nodes that exist; pods may be assigned to others that are gone or not seen yet."""
        return self._existing

    def put_node(self, node: Node) -> None:
        node_info = self._node_info(node.metadata.name)
        old, node_info.node = node_info.node, node
        self._existing[node_info.name] = node_info
        if old.status.allocatable != node.status.allocatable:
            node_info.allocatable = amounts(node.status.allocatable)
        if old.status.images != node.status.images:
            sizes = {name: image.size_bytes for image in node.status.images for name in image.names}
            self._replace_images(node_info, sizes)

    def drop_node(self, name: str) -> None:
        """Removes a node; its pods may remain."""
        node_info = self._existing.pop(name, None)
        if node_info is not None:
            self._replace_images(node_info, {})
            node_info.node, node_info.allocatable = _UNKNOWN_NODE, {}
            self._remove_if_unused(node_info)

    def put_pod(self, pod: Pod, node_name: str = "") -> bool:
        """Adds a pod to its node, or assumes it on `node_name`; returns False if nothing relevant has changed."""
        uid, name = pod.metadata.uid, node_name or pod.spec.node_name
        node_info = self._node_of.get(uid)
        if node_info is not None and node_info.name == name and _is_same(node_info.pods[uid].pod, pod):
            return False
        self.drop_pod(uid)
        self.add(self._node_info(name), new_pod_info(pod))
        return True

    def drop_pod(self, uid: str) -> bool:
        """Removes a pod; returns False if it was not cached."""
        node_info = self._node_of.get(uid)
        if node_info is None:
            return False
        self.remove(node_info, uid)
        self._remove_if_unused(node_info)
        return True

    def add(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Adds a pod that no node has yet."""
        uid = pod_info.pod.metadata.uid
        node_info.put(pod_info)
        self._node_of[uid] = node_info
        self.claim_users.update(pod_info.claims)
        if pod_info.required_anti_affinity:
            self.pods_with_required_anti_affinity[uid] = node_info, pod_info
        if pod_info.required_affinity or pod_info.preferred_affinity:
            self.pods_with_affinity[uid] = node_info, pod_info

    def remove(self, node_info: NodeInfo, uid: str) -> None:
        """Removes a pod from its node."""
        pod_info = node_info.drop(uid)
        del self._node_of[uid]
        for claim in pod_info.claims:
            self.claim_users[claim] -= 1
            if not self.claim_users[claim]:
                del self.claim_users[claim]
        self.pods_with_required_anti_affinity.pop(uid, None)
        self.pods_with_affinity.pop(uid, None)

    def put_namespace(self, name: str, labels: Labels) -> None:
        self._namespaces[name] = labels

    def drop_namespace(self, name: str) -> None:
        self._namespaces.pop(name, None)

    def namespace_labels(self, pod: Pod) -> Labels:
        """The labels of a pod's namespace; empty if unknown."""
        return self._namespaces.get(pod.metadata.namespace, {})

    def assigned_pods(self) -> Iterable[tuple[NodeInfo, PodInfo]]:
        return ((node_info, pod_info) for node_info in self._existing.values() for pod_info in node_info.pods.values())

    def _node_info(self, name: str) -> NodeInfo:
        return self._node_infos.setdefault(name, NodeInfo(name))

    def _remove_if_unused(self, node_info: NodeInfo) -> None:
        if node_info.name not in self._existing and not node_info.pods:
            self._node_infos.pop(node_info.name, None)

    def _replace_images(self, node_info: NodeInfo, sizes: Mapping[str, int]) -> None:
        for name in node_info.image_sizes:
            self.image_nodes[name] -= 1
            if not self.image_nodes[name]:
                del self.image_nodes[name]
        self.image_nodes.update(dict.fromkeys(sizes, 1))
        node_info.image_sizes = sizes


def new_pod_info(pod: Pod) -> PodInfo:
    affinity = pod.spec.affinity or Affinity()
    near, away = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAntiAffinity()
    preferred_affinity = [
        _term(pod, each.pod_affinity_term, sign * each.weight)
        for side, sign in ((near, 1), (away, -1))
        for each in side.preferred_during_scheduling_ignored_during_execution
    ]
    return PodInfo(
        pod=pod,
        requests=pod_requests(pod),
        non_zero_requests=_non_zero_requests(pod),
        ports=host_ports(pod),
        required_affinity=_terms(pod, near.required_during_scheduling_ignored_during_execution),
        required_anti_affinity=_terms(pod, away.required_during_scheduling_ignored_during_execution),
        preferred_affinity=tuple(preferred_affinity),
        claims=tuple((pod.metadata.namespace, name) for _, name in pod_claims(pod)),
    )


def pod_priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def selector_of(selector: LabelSelector | None) -> Selector:
    """The selector of an object; an invalid one selects nothing."""
    try:
        return selector_from_object(selector)
    except SelectorError:
        return NOTHING


def _terms(pod: Pod, terms: Iterable[PodAffinityTerm]) -> tuple[AffinityTerm, ...]:
    return tuple(_term(pod, term) for term in terms)


def _term(pod: Pod, term: PodAffinityTerm, weight: int = 0) -> AffinityTerm:
    # Without namespaces and a namespace selector, the term applies to the pod's own namespace.
    own = (pod.metadata.namespace,) if term.namespace_selector is None else ()
    return AffinityTerm(
        topology_key=term.topology_key,
        selector=selector_of(term.label_selector),
        namespaces=frozenset(term.namespaces or own),
        namespace_selector=selector_of(term.namespace_selector),
        weight=weight,
    )


def _non_zero_requests(pod: Pod) -> Mapping[str, int]:
    spec = replace(
        pod.spec,
        containers=tuple(map(_with_default_requests, pod.spec.containers)),
        init_containers=tuple(map(_with_default_requests, pod.spec.init_containers)),
    )
    return pod_requests(replace(pod, spec=spec))


def _with_default_requests(container: Container) -> Container:
    requests = {**_DEFAULT_REQUESTS, **container.resources.requests}
    return replace(container, resources=replace(container.resources, requests=requests))


def _is_same(old: Pod, new: Pod) -> bool:
    """Whether two versions of a pod are equal as far as scheduling is concerned."""
    before, after = old.metadata, new.metadata
    if (before.labels, before.deletion_timestamp) != (after.labels, after.deletion_timestamp):
        return False
    return old.spec == new.spec
