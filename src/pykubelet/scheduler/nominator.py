"""The pods that preempted others, and the node that each of them waits for.

Their room on that node is kept from pods of lower priority until they are scheduled.

Upstream: pkg/scheduler/backend/queue/nominator.go
"""

from collections.abc import Sequence

from pykubelet.api.generated.core import Pod
from pykubelet.scheduler.cache import PodInfo, new_pod_info, pod_priority


class Nominator:
    """Pods by the node they are nominated to. A change costs O(1)."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._on: dict[str, dict[str, PodInfo]] = {}

    def put(self, pod: Pod, node_name: str) -> None:
        """Nominates a pod to a node, instead of any earlier one."""
        self.drop(pod.metadata.uid)
        self._node_of[pod.metadata.uid] = node_name
        self._on.setdefault(node_name, {})[pod.metadata.uid] = new_pod_info(pod)

    def drop(self, uid: str) -> None:
        name = self._node_of.pop(uid, None)
        if name is not None:
            del self._on[name][uid]
            if not self._on[name]:
                del self._on[name]

    def node_of(self, pod: Pod) -> str:
        """The node that a pod is nominated to; empty if there is none."""
        return self._node_of.get(pod.metadata.uid, "")

    def rivals(self, pod: Pod, node_name: str) -> Sequence[PodInfo]:
        """The other pods nominated to a node whose room a pod must leave to them: of its priority or a higher one."""
        if not self._on:
            return ()
        least = pod_priority(pod)
        return [one for one in self._others(pod, node_name) if pod_priority(one.pod) >= least]

    def outranked(self, pod: Pod, node_name: str) -> list[Pod]:
        """The pods nominated to a node that have a lower priority than a pod."""
        most = pod_priority(pod)
        return [one.pod for one in self._others(pod, node_name) if pod_priority(one.pod) < most]

    def _others(self, pod: Pod, node_name: str) -> list[PodInfo]:
        return [one for uid, one in self._on.get(node_name, {}).items() if uid != pod.metadata.uid]
