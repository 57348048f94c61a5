"""Pods by the node they are bound to, kept up to date one change at a time.

Upstream: AddPodNodeNameIndexer in pkg/controller/controller_utils.go.
"""

from collections.abc import Collection

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_label
from pykubelet.api.typed import PODS
from pykubelet.controllers.informers import Informers


class PodsByNode:
    """The pods of each node. Listens before those who use it, so that they find what they hear of."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}

    def listen(self, informers: Informers) -> None:
        """Follow the pods."""
        informers.tell(PODS, added=self.put, updated=self.replace, deleted=self.remove)

    def put(self, pod: Pod) -> None:
        """A pod is new or has changed."""
        if pod.spec.node_name:
            self._pods.setdefault(pod.spec.node_name, {})[pod_label(pod)] = pod

    def replace(self, old: Pod, new: Pod) -> None:
        """A pod has changed, or another one has taken its name, perhaps on another node."""
        if old.spec.node_name != new.spec.node_name:
            self.remove(old)
        self.put(new)

    def remove(self, pod: Pod) -> None:
        """A pod is gone."""
        pods = self._pods.get(pod.spec.node_name, {})
        pods.pop(pod_label(pod), None)
        if not pods:
            self._pods.pop(pod.spec.node_name, None)

    def on(self, node_name: str) -> tuple[Pod, ...]:
        """The pods of a node."""
        return tuple(self._pods.get(node_name, {}).values())

    def nodes(self) -> Collection[str]:
        """The names of nodes that have pods, whether there are such nodes or not."""
        return self._pods.keys()
