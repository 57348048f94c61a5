"""Admits pods to this node and keeps count of what those on it take.

In: pods, and what is known of the node at that moment. Out: verdicts of `admission.py`. Upstream: the admit handlers and
allocation manager of pkg/kubelet/kubelet.go.
"""

from typing import Protocol

from pykubelet.agent.flow import Verdict
from pykubelet.agent.pods.admission import NodeView, admit
from pykubelet.agent.pods.mirror import NodeLookup
from pykubelet.agent.pods.occupancy import Occupancy
from pykubelet.agent.pods.sysctls import SysctlAllowlist
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.core import Node, Pod
from pykubelet.api.keys import PodUid


class NodeConditions(Protocol):
    """What may keep pods from starting, as of now; answers at once."""

    def pressures(self) -> tuple[str, ...]:
        """The conditions of pressure that hold: MemoryPressure, DiskPressure, PIDPressure."""

    def app_armor_error(self) -> str:
        """Why AppArmor profiles cannot be enforced; empty if they can."""

    def shutdown_message(self) -> str:
        """Why no pod is taken any more; empty while pods are."""


class Admitter:
    """The door of the node; owned by one loop."""

    def __init__(
        self, *, node_name: str, nodes: NodeLookup, conditions: NodeConditions, sysctls: SysctlAllowlist
    ) -> None:
        self._node_name, self._nodes = node_name, nodes
        self._conditions, self._sysctls = conditions, sysctls
        self._occupancy = Occupancy()

    def admit(self, pod: Pod) -> Verdict:
        """Whether a pod may start. Says nothing of a pod that is on the node already: let go of it before."""
        view = NodeView(
            node=self._node(),
            occupancy=self._occupancy,
            sysctls=self._sysctls,
            pressures=self._conditions.pressures(),
            app_armor_error=self._conditions.app_armor_error(),
            shutdown=self._conditions.shutdown_message(),
        )
        return admit(pod, view)

    def occupy(self, pod: Pod) -> None:
        """A pod is on the node from now on, or takes something else than before."""
        self._occupancy.put(pod)

    def is_on_node(self, uid: PodUid) -> bool:
        """Whether a pod counts as being on the node."""
        return uid in self._occupancy

    def release(self, uid: PodUid) -> None:
        """Nothing of a pod runs any more; nothing happens if it was not on the node."""
        self._occupancy.drop(uid)

    def _node(self) -> Node | None:
        try:
            return self._nodes.node(self._node_name)
        except ApiError:
            return None
