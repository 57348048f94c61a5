"""Whether a pod may start on this node, by which rule not, and who has to go for a critical one.

Pure. In: a pod and what is known of the node. Out: the first refusal, with reason and message as users see them, or
the pods that a critical one pushes out. Upstream:
pkg/kubelet/{eviction/eviction_manager,sysctl/allowlist,lifecycle/predicate,lifecycle/handlers}.go,
pkg/kubelet/preemption/preemption.go, AdmissionCheck in pkg/scheduler/eventhandlers.go,
pkg/security/apparmor/validate.go.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec import Struct

from pykubelet.agent.flow import Verdict
from pykubelet.agent.pods.occupancy import Occupancy
from pykubelet.agent.pods.preemption import NoVictims, quality_of, victims
from pykubelet.agent.pods.sysctls import SysctlAllowlist
from pykubelet.api.app_armor import app_armor_profiles
from pykubelet.api.generated.core import Node, Pod, Taint
from pykubelet.api.node_fit import is_tolerated, matches_node
from pykubelet.api.pod_requests import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    amounts,
    host_ports,
    is_extended,
    pod_requests,
)
from pykubelet.api.pods import is_critical_pod, is_static_pod
from pykubelet.api.quality_of_service import BEST_EFFORT

ADMITTED = Verdict()
MEMORY_PRESSURE = "MemoryPressure"
_OS_LABEL = "kubernetes.io/os"
_MEMORY_PRESSURE_TAINT = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
# These come first, in this order; others follow by name.
_FIRST_RESOURCES = (CPU, MEMORY, EPHEMERAL_STORAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """All that admission looks at. `node` is None while it is not known; `pressures` are conditions that hold now.

    `app_armor_error` says why profiles cannot be enforced here, `shutdown` why no pod starts any more.
    """

    node: Node | None
    occupancy: Occupancy
    sysctls: SysctlAllowlist
    pressures: tuple[str, ...] = ()
    operating_system: str = "linux"
    app_armor_error: str = ""
    shutdown: str = ""


class Shortage(Struct, frozen=True):
    """A resource of which there is not enough."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        """How much has to be freed."""
        return self.requested - (self.capacity - self.used)

    def refusal(self) -> Verdict:
        """The shortage as users see it."""
        return Verdict(
            f"OutOf{self.resource}",
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, used: {self.used}, "
            f"capacity: {self.capacity}",
        )


def admit(pod: Pod, view: NodeView) -> Verdict:
    """May this pod start? Pods that are counted in `occupancy` are the others."""
    verdict = ADMITTED
    for check in _CHECKS:
        found = check(pod, view)
        if not found.admitted:
            return found
        # Nobody has to go for a pod that something later refuses.
        verdict = found if found.victims else verdict
    return verdict


def _pressure(pod: Pod, view: NodeView) -> Verdict:
    if not view.pressures or is_critical_pod(pod):
        return ADMITTED
    if view.pressures == (MEMORY_PRESSURE,):
        is_spared = quality_of(pod) != BEST_EFFORT or is_tolerated(_MEMORY_PRESSURE_TAINT, pod.spec.tolerations)
        if is_spared:
            return ADMITTED
    return Verdict("Evicted", f"The node had condition: [{' '.join(view.pressures)}]. ")


def _sysctls(pod: Pod, view: NodeView) -> Verdict:
    refusal = view.sysctls.refusal(pod.spec)
    return Verdict("SysctlForbidden", f"forbidden sysctl: {refusal}") if refusal else ADMITTED


def _node(pod: Pod, view: NodeView) -> Verdict:
    if view.node is None:
        return Verdict("InvalidNodeInfo", "Kubelet cannot get node info.")
    if pod.metadata.labels.get(_OS_LABEL, view.operating_system) != view.operating_system:
        return Verdict(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        )
    if pod.spec.os is not None and pod.spec.os.name != view.operating_system:
        return Verdict("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    if _wants_strict_groups(pod) and not _has_strict_groups(view.node):
        return Verdict(
            "SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"
        )
    return _fit(pod, view.node, view.occupancy)


def _wants_strict_groups(pod: Pod) -> bool:
    context = pod.spec.security_context
    return context is not None and context.supplemental_groups_policy == "Strict"


def _has_strict_groups(node: Node) -> bool:
    features = node.status.features
    return features is not None and bool(features.supplemental_groups_policy)


def _fit(pod: Pod, node: Node, occupancy: Occupancy) -> Verdict:
    short = tuple(shortages(pod, node, occupancy))
    mismatch = next(_mismatches(pod, node, occupancy), None)
    if not is_critical_pod(pod):
        return short[0].refusal() if short else mismatch or ADMITTED
    if mismatch is not None or not short:
        # To push others out would not help.
        return mismatch or ADMITTED
    try:
        chosen = victims(pod, occupancy.pods(), {one.resource: one.missing for one in short})
    except NoVictims as error:
        return Verdict(
            "UnexpectedAdmissionError",
            "Unexpected error while attempting to recover from admission failure: "
            f"preemption: error finding a set of pods to preempt: {error}",
        )
    return Verdict(victims=chosen)


def shortages(pod: Pod, node: Node, occupancy: Occupancy) -> Iterator[Shortage]:
    """Every resource of which the node has too little left for a pod, in the order in which they are reported.

    A resource of somebody else's that the node does not have is not the node's to judge.
    """
    capacity = amounts(node.status.allocatable)
    if len(occupancy) + 1 > capacity.get(PODS, 0):
        yield Shortage(PODS, 1, len(occupancy), capacity.get(PODS, 0))
    requests = pod_requests(pod)
    others = sorted(name for name in requests if name not in _FIRST_RESOURCES)
    for name in (*_FIRST_RESOURCES, *others):
        requested, given, used = requests.get(name, 0), capacity.get(name, 0), occupancy.used(name)
        is_foreign = is_extended(name) and name not in capacity
        if requested > 0 and not is_foreign and requested > given - used:
            yield Shortage(name, requested, used, given)


def _mismatches(pod: Pod, node: Node, occupancy: Occupancy) -> Iterator[Verdict]:
    if not matches_node(pod.spec, node):
        yield _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if pod.spec.node_name not in ("", node.metadata.name):
        yield _predicate("NodeName", "node(s) didn't match the requested node name")
    if any(occupancy.is_port_taken(port) for port in host_ports(pod)):
        yield _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    evicting = (taint for taint in node.spec.taints if taint.effect == "NoExecute")
    if not is_static_pod(pod) and any(not is_tolerated(taint, pod.spec.tolerations) for taint in evicting):
        yield _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _predicate(name: str, description: str) -> Verdict:
    return Verdict(name, f"Predicate {name} failed: {description}")


def _app_armor(pod: Pod, view: NodeView) -> Verdict:
    """Profiles are looked at before the pod has started; one that runs is let be."""
    if pod.status.phase != "Pending":
        return ADMITTED
    profiles = tuple(app_armor_profiles(pod))
    error = view.app_armor_error if any(profile.type != "Unconfined" for profile in profiles) else ""
    if not error and any(one.type == "Localhost" and not (one.localhost_profile or "").strip() for one in profiles):
        error = "invalid empty AppArmor profile name"
    return Verdict("AppArmor", f"Cannot enforce AppArmor: {error}") if error else ADMITTED


def _shutdown(pod: Pod, view: NodeView) -> Verdict:  # noqa: ARG001  a node that goes down takes nobody
    return Verdict("NodeShutdown", view.shutdown) if view.shutdown else ADMITTED


_CHECKS: tuple[Callable[[Pod, NodeView], Verdict], ...] = (_pressure, _sysctls, _node, _app_armor, _shutdown)
