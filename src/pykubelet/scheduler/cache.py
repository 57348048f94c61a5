"""What the scheduler knows: nodes, what the pods on each of them take, labels of namespaces.

Pure. Kept up to date one change at a time; a change of a pod costs the same, however many there are. A pod counts from
the moment it is assumed on a node. Upstream: pkg/scheduler/backend/cache, NodeInfo in pkg/scheduler/framework/types.go.

What the scheduler wants to know of a pod, worked out once: its needs, ports and affinities.

Pure. Upstream: PodInfo in pkg/scheduler/framework/types.go, AffinityTerm in k8s.io/kube-scheduler/framework,
pkg/scheduler/util/pod_resources.go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from pykubelet.api.generated.core import Container, Node, Pod, PodAffinityTerm
from pykubelet.api.generated.meta import LabelSelector
from pykubelet.api.labels import NOTHING, Selector, SelectorError, selector_from_object
from pykubelet.api.pods import CPU, EVERY_ADDRESS, MEMORY, HostPort, amounts, host_ports, pod_requests

# What a container that asks for nothing is thought to use when nodes are compared.
_USUAL_REQUESTS = {CPU: "100m", MEMORY: "200Mi"}

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Pods that another pod wants near, or not near; near is a node with the same value of a label."""

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    weight: int = 0
    """Of a wish; below zero where pods are shunned. Demands have none."""

    def matches(self, pod: Pod, namespace_labels: Labels) -> bool:
        """Whether this is about a pod, whose namespace has these labels."""
        is_in = pod.metadata.namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return is_in and self.selector.matches(pod.metadata.labels)


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A pod and what follows from its spec."""

    pod: Pod
    requests: Mapping[str, int]
    usual_requests: Mapping[str, int]
    """The same, but containers that ask for nothing count with what is usual."""
    ports: tuple[HostPort, ...]
    attracted: tuple[AffinityTerm, ...]
    """Pods that must be near."""
    repelled: tuple[AffinityTerm, ...]
    """Pods that must not be near."""
    wishes: tuple[AffinityTerm, ...]


def new_pod_info(pod: Pod) -> PodInfo:
    """The facts of a pod."""
    affinity = pod.spec.affinity
    near = affinity.pod_affinity if affinity is not None else None
    away = affinity.pod_anti_affinity if affinity is not None else None
    wishes = [
        _term(pod, each.pod_affinity_term, sign * each.weight)
        for side, sign in ((near, 1), (away, -1))
        if side is not None
        for each in side.preferred_during_scheduling_ignored_during_execution
    ]
    return PodInfo(
        pod=pod,
        requests=pod_requests(pod),
        usual_requests=_usual_requests(pod),
        ports=host_ports(pod),
        attracted=_terms(pod, near.required_during_scheduling_ignored_during_execution if near is not None else ()),
        repelled=_terms(pod, away.required_during_scheduling_ignored_during_execution if away is not None else ()),
        wishes=tuple(wishes),
    )


def pod_priority(pod: Pod) -> int:
    """The priority of a pod; 0 if it has none."""
    return pod.spec.priority or 0


def selector_of(selector: LabelSelector | None) -> Selector:
    """What a selector selects; one that makes no sense selects nothing."""
    try:
        return selector_from_object(selector)
    except SelectorError:
        return NOTHING


def _terms(pod: Pod, terms: Iterable[PodAffinityTerm]) -> tuple[AffinityTerm, ...]:
    return tuple(_term(pod, term) for term in terms)


def _term(pod: Pod, term: PodAffinityTerm, weight: int = 0) -> AffinityTerm:
    # Without any word on namespaces the pod's own is meant.
    own = (pod.metadata.namespace,) if term.namespace_selector is None else ()
    return AffinityTerm(
        topology_key=term.topology_key,
        selector=selector_of(term.label_selector),
        namespaces=frozenset(term.namespaces or own),
        namespace_selector=selector_of(term.namespace_selector),
        weight=weight,
    )


def _usual_requests(pod: Pod) -> Mapping[str, int]:
    spec = replace(
        pod.spec,
        containers=tuple(map(_with_usual, pod.spec.containers)),
        init_containers=tuple(map(_with_usual, pod.spec.init_containers)),
    )
    return pod_requests(replace(pod, spec=spec))


def _with_usual(container: Container) -> Container:
    requests = {**_USUAL_REQUESTS, **container.resources.requests}
    return replace(container, resources=replace(container.resources, requests=requests))


_NOT_KNOWN = Node()


class NodeInfo:
    """A node and the sums over its pods. Changed by the view only."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.node = _NOT_KNOWN
        self.allocatable: Mapping[str, int] = {}
        self.image_sizes: Mapping[str, int] = {}
        self.pods: dict[str, PodInfo] = {}
        self.used: Counter[str] = Counter()
        self.usually_used: Counter[str] = Counter()
        self._ports: dict[tuple[str, int], Counter[str]] = {}

    @property
    def labels(self) -> Labels:
        """The labels of the node."""
        return self.node.metadata.labels

    def is_port_taken(self, wanted: HostPort) -> bool:
        """Whether a port is in use; one on all addresses is in the way of one on any."""
        taken = self._ports.get((wanted.protocol, wanted.port), Counter())
        if wanted.address == EVERY_ADDRESS:
            return bool(taken)
        return wanted.address in taken or EVERY_ADDRESS in taken

    def put(self, facts: PodInfo) -> None:
        """A pod is on the node now."""
        self.pods[facts.pod.metadata.uid] = facts
        self.used.update(facts.requests)
        self.usually_used.update(facts.usual_requests)
        for port in facts.ports:
            self._ports.setdefault((port.protocol, port.port), Counter())[port.address] += 1

    def drop(self, uid: str) -> PodInfo:
        """A pod takes nothing any more."""
        facts = self.pods.pop(uid)
        self.used.subtract(facts.requests)
        self.usually_used.subtract(facts.usual_requests)
        for port in facts.ports:
            taken = self._ports[port.protocol, port.port]
            taken[port.address] -= 1
            if not taken[port.address]:
                del taken[port.address]
        return facts


class SchedulerCache:
    """All nodes and the pods on them."""

    def __init__(self) -> None:
        self._states: dict[str, NodeInfo] = {}
        self._known: dict[str, NodeInfo] = {}
        self._node_of: dict[str, NodeInfo] = {}
        self._namespaces: dict[str, Labels] = {}
        self.image_nodes: Counter[str] = Counter()
        """On how many nodes an image is."""
        self.repelling: dict[str, tuple[NodeInfo, PodInfo]] = {}
        """Pods that must not have some others near, by UID."""
        self.caring: dict[str, tuple[NodeInfo, PodInfo]] = {}
        """Pods that like to have some others near, or not, by UID."""

    @property
    def nodes(self) -> Mapping[str, NodeInfo]:
        """The nodes that exist; pods may be on others that are gone, or not known yet."""
        return self._known

    def put_node(self, node: Node) -> None:
        """A node is new or has changed."""
        state = self._state(node.metadata.name)
        old, state.node = state.node, node
        self._known[state.name] = state
        if old.status.allocatable != node.status.allocatable:
            state.allocatable = amounts(node.status.allocatable)
        if old.status.images != node.status.images:
            sizes = {name: image.size_bytes for image in node.status.images for name in image.names}
            self._replace_images(state, sizes)

    def drop_node(self, name: str) -> None:
        """A node is gone; its pods may still be there."""
        state = self._known.pop(name, None)
        if state is not None:
            self._replace_images(state, {})
            state.node, state.allocatable = _NOT_KNOWN, {}
            self._tidy(state)

    def put_pod(self, pod: Pod, node_name: str = "") -> bool:
        """A pod is on its node, or assumed on this one; False if nothing of interest is new about it."""
        uid, name = pod.metadata.uid, node_name or pod.spec.node_name
        state = self._node_of.get(uid)
        if state is not None and state.name == name and _is_same(state.pods[uid].pod, pod):
            return False
        self.drop_pod(uid)
        facts, state = new_pod_info(pod), self._state(name)
        state.put(facts)
        self._node_of[uid] = state
        if facts.repelled:
            self.repelling[uid] = state, facts
        if facts.attracted or facts.wishes:
            self.caring[uid] = state, facts
        return True

    def drop_pod(self, uid: str) -> bool:
        """A pod takes nothing any more; False if it did not."""
        state = self._node_of.pop(uid, None)
        if state is None:
            return False
        state.drop(uid)
        self.repelling.pop(uid, None)
        self.caring.pop(uid, None)
        self._tidy(state)
        return True

    def put_namespace(self, name: str, labels: Labels) -> None:
        """A namespace is new or has changed."""
        self._namespaces[name] = labels

    def drop_namespace(self, name: str) -> None:
        """A namespace is gone."""
        self._namespaces.pop(name, None)

    def namespace_labels(self, pod: Pod) -> Labels:
        """The labels of a pod's namespace; none if it is not known."""
        return self._namespaces.get(pod.metadata.namespace, {})

    def placed(self) -> Iterable[tuple[NodeInfo, PodInfo]]:
        """Every pod on a node that exists."""
        return ((state, facts) for state in self._known.values() for facts in state.pods.values())

    def _state(self, name: str) -> NodeInfo:
        return self._states.setdefault(name, NodeInfo(name))

    def _tidy(self, state: NodeInfo) -> None:
        if state.name not in self._known and not state.pods:
            self._states.pop(state.name, None)

    def _replace_images(self, state: NodeInfo, sizes: Mapping[str, int]) -> None:
        for name in state.image_sizes:
            self.image_nodes[name] -= 1
            if not self.image_nodes[name]:
                del self.image_nodes[name]
        self.image_nodes.update(dict.fromkeys(sizes, 1))
        state.image_sizes = sizes


def _is_same(old: Pod, new: Pod) -> bool:
    """Whether a newer state of a pod makes no difference to anybody's place."""
    before, after = old.metadata, new.metadata
    if (before.labels, before.deletion_timestamp) != (after.labels, after.deletion_timestamp):
        return False
    return old.spec == new.spec
