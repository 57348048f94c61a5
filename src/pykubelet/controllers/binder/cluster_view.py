"""What the scheduler knows: nodes, what the pods on each of them take, labels of namespaces.

Pure. Kept up to date one change at a time; a change of a pod costs the same, however many there are. A pod counts from
the moment it is assumed on a node. Upstream: pkg/scheduler/backend/cache, NodeInfo in pkg/scheduler/framework/types.go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from pykubelet.api.generated.core import Node, Pod
from pykubelet.api.pod_requests import EVERY_ADDRESS, HostPort, amounts
from pykubelet.controllers.binder.pod_facts import Labels, PodFacts, facts_of

_NOT_KNOWN = Node()


class NodeState:
    """A node and the sums over its pods. Changed by the view only."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.node = _NOT_KNOWN
        self.allocatable: Mapping[str, int] = {}
        self.image_sizes: Mapping[str, int] = {}
        self.pods: dict[str, PodFacts] = {}
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

    def put(self, facts: PodFacts) -> None:
        """A pod is on the node now."""
        self.pods[facts.pod.metadata.uid] = facts
        self.used.update(facts.requests)
        self.usually_used.update(facts.usual_requests)
        for port in facts.ports:
            self._ports.setdefault((port.protocol, port.port), Counter())[port.address] += 1

    def drop(self, uid: str) -> PodFacts:
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


class ClusterView:
    """All nodes and the pods on them."""

    def __init__(self) -> None:
        self._states: dict[str, NodeState] = {}
        self._known: dict[str, NodeState] = {}
        self._node_of: dict[str, NodeState] = {}
        self._namespaces: dict[str, Labels] = {}
        self.image_nodes: Counter[str] = Counter()
        """On how many nodes an image is."""
        self.repelling: dict[str, tuple[NodeState, PodFacts]] = {}
        """Pods that must not have some others near, by UID."""
        self.caring: dict[str, tuple[NodeState, PodFacts]] = {}
        """Pods that like to have some others near, or not, by UID."""

    @property
    def nodes(self) -> Mapping[str, NodeState]:
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
        facts, state = facts_of(pod), self._state(name)
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

    def placed(self) -> Iterable[tuple[NodeState, PodFacts]]:
        """Every pod on a node that exists."""
        return ((state, facts) for state in self._known.values() for facts in state.pods.values())

    def _state(self, name: str) -> NodeState:
        return self._states.setdefault(name, NodeState(name))

    def _tidy(self, state: NodeState) -> None:
        if state.name not in self._known and not state.pods:
            self._states.pop(state.name, None)

    def _replace_images(self, state: NodeState, sizes: Mapping[str, int]) -> None:
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
