"""Whether a pod may start on this node, by which rule not, and who has to go for a critical one.

Pure. In: a pod and what is known of the node. Out: the first refusal, with reason and message as users see them, or
the pods that a critical one pushes out. Upstream:
pkg/kubelet/{eviction/eviction_manager,sysctl/allowlist,lifecycle/predicate,lifecycle/handlers}.go,
pkg/kubelet/preemption/preemption.go, AdmissionCheck in pkg/scheduler/eventhandlers.go,
pkg/security/apparmor/validate.go.

Which pods have to go so that a critical one fits.

Pure. In: what is missing, and who is on the node. Out: as few pods as possible, the least important first: a guaranteed
pod goes only if all others together would not do. Upstream: pkg/kubelet/preemption/preemption.go.

What the pods of a node take of it, kept as sums.

Pure. One pod more or less costs the same, however many there are. Counts every pod from the moment it may run here until
the last of its containers has stopped, or its source does not name it any more: an edited manifest must not be refused
because its former self still runs. Upstream adds up all active pods at each admission (NodeInfo in
pkg/scheduler/framework/types.go).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from pykubelet.api.generated.core import Node, Pod, Taint
from pykubelet.api.pod_resources import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from pykubelet.api.pods import (
    CPU,
    EPHEMERAL_STORAGE,
    EVERY_ADDRESS,
    MEMORY,
    PODS,
    HostPort,
    PodUid,
    amounts,
    app_armor_profiles,
    host_ports,
    is_critical_pod,
    is_extended,
    is_static_pod,
    may_preempt,
    pod_requests,
)
from pykubelet.api.scheduling import is_tolerated, matches_node
from pykubelet.api.serializer import to_document
from pykubelet.kubelet.sysctl import SysctlAllowlist
from pykubelet.kubelet.types import PodAdmitResult


class _Share(Struct, frozen=True):
    pod: Pod
    requests: tuple[tuple[str, int], ...]
    ports: tuple[HostPort, ...]


class AllocatedResources:
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


Missing = Mapping[str, int]
"""How much of each resource has to be freed."""


class NoPreemptionVictims(Exception):
    """Even without every pod that may go, it would not be enough."""


def qos_class_of(pod: Pod) -> str:
    """The quality of service class of a pod, which the API server has computed unless the pod is static."""
    return pod.status.qos_class or qos_class(to_document(pod.spec))


def preemption_victims(preemptor: Pod, others: Iterable[Pod], missing: Missing) -> tuple[Pod, ...]:
    """The pods to kill; NoVictims if no set of them frees enough."""
    kinds: dict[str, list[Pod]] = {BEST_EFFORT: [], BURSTABLE: [], GUARANTEED: []}
    for pod in others:
        if may_preempt(preemptor, pod):
            kinds[qos_class_of(pod)].append(pod)
    best_effort, burstable, guaranteed = kinds.values()
    if left := _without(missing, [*best_effort, *burstable, *guaranteed]):
        raise NoPreemptionVictims(f"no set of running pods found to reclaim resources: {_shown(left)}")
    # Each class gives only what the classes below it cannot.
    first = _nearest(guaranteed, _without(missing, [*best_effort, *burstable]))
    second = _nearest(burstable, _without(missing, [*best_effort, *first]))
    third = _nearest(best_effort, _without(missing, [*second, *first]))
    return (*third, *second, *first)


def _nearest(pods: Sequence[Pod], missing: Missing) -> list[Pod]:
    """Pods that together free what is missing, each time the one that comes nearest to what is still missing."""
    candidates, chosen = list(pods), list[Pod]()
    while missing:
        best = min(candidates, key=lambda pod: (_distance(missing, pod), *_size(pod)))
        candidates.remove(best)
        chosen.append(best)
        missing = _without(missing, [best])
    return chosen


def _without(missing: Missing, pods: Sequence[Pod]) -> Missing:
    """What is still missing once these pods are gone."""
    freed = [(name, needed - sum(_request(pod, name) for pod in pods)) for name, needed in missing.items()]
    return {name: needed for name, needed in freed if needed > 0}


def _distance(missing: Missing, pod: Pod) -> float:
    """How much would still be missing, each resource weighing the same."""
    left = [(needed, needed - _request(pod, name)) for name, needed in missing.items()]
    return sum((rest / needed) ** 2 for needed, rest in left if rest > 0)


def _size(pod: Pod) -> tuple[int, int]:
    return _request(pod, MEMORY), _request(pod, CPU)


def _request(pod: Pod, resource: str) -> int:
    return 1 if resource == PODS else pod_requests(pod).get(resource, 0)


def _shown(missing: Missing) -> str:
    return "[" + "".join(f"(res: {name}, q: {needed}), " for name, needed in missing.items()) + "]"


ADMITTED = PodAdmitResult()
MEMORY_PRESSURE = "MemoryPressure"
_OS_LABEL = "kubernetes.io/os"
_MEMORY_PRESSURE_TAINT = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
# These come first, in this order; others follow by name.
_FIRST_RESOURCES = (CPU, MEMORY, EPHEMERAL_STORAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionNodeInfo:
    """All that admission looks at. `node` is None while it is not known; `pressures` are conditions that hold now.

    `app_armor_error` says why profiles cannot be enforced here, `shutdown` why no pod starts any more.
    """

    node: Node | None
    occupancy: AllocatedResources
    sysctls: SysctlAllowlist
    pressures: tuple[str, ...] = ()
    operating_system: str = "linux"
    app_armor_error: str = ""
    shutdown: str = ""


class InsufficientResource(Struct, frozen=True):
    """A resource of which there is not enough."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        """How much has to be freed."""
        return self.requested - (self.capacity - self.used)

    def refusal(self) -> PodAdmitResult:
        """The shortage as users see it."""
        return PodAdmitResult(
            f"OutOf{self.resource}",
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, used: {self.used}, "
            f"capacity: {self.capacity}",
        )


def admit(pod: Pod, view: AdmissionNodeInfo) -> PodAdmitResult:
    """May this pod start? Pods that are counted in `occupancy` are the others."""
    verdict = ADMITTED
    for check in _CHECKS:
        found = check(pod, view)
        if not found.admitted:
            return found
        # Nobody has to go for a pod that something later refuses.
        verdict = found if found.victims else verdict
    return verdict


def _pressure(pod: Pod, view: AdmissionNodeInfo) -> PodAdmitResult:
    if not view.pressures or is_critical_pod(pod):
        return ADMITTED
    if view.pressures == (MEMORY_PRESSURE,):
        is_spared = qos_class_of(pod) != BEST_EFFORT or is_tolerated(_MEMORY_PRESSURE_TAINT, pod.spec.tolerations)
        if is_spared:
            return ADMITTED
    return PodAdmitResult("Evicted", f"The node had condition: [{' '.join(view.pressures)}]. ")


def _sysctls(pod: Pod, view: AdmissionNodeInfo) -> PodAdmitResult:
    refusal = view.sysctls.refusal(pod.spec)
    return PodAdmitResult("SysctlForbidden", f"forbidden sysctl: {refusal}") if refusal else ADMITTED


def _node(pod: Pod, view: AdmissionNodeInfo) -> PodAdmitResult:
    if view.node is None:
        return PodAdmitResult("InvalidNodeInfo", "Kubelet cannot get node info.")
    if pod.metadata.labels.get(_OS_LABEL, view.operating_system) != view.operating_system:
        return PodAdmitResult(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        )
    if pod.spec.os is not None and pod.spec.os.name != view.operating_system:
        return PodAdmitResult("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    if _wants_strict_groups(pod) and not _has_strict_groups(view.node):
        return PodAdmitResult(
            "SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"
        )
    return _fit(pod, view.node, view.occupancy)


def _wants_strict_groups(pod: Pod) -> bool:
    context = pod.spec.security_context
    return context is not None and context.supplemental_groups_policy == "Strict"


def _has_strict_groups(node: Node) -> bool:
    features = node.status.features
    return features is not None and bool(features.supplemental_groups_policy)


def _fit(pod: Pod, node: Node, occupancy: AllocatedResources) -> PodAdmitResult:
    short = tuple(insufficient_resources(pod, node, occupancy))
    mismatch = next(_mismatches(pod, node, occupancy), None)
    if not is_critical_pod(pod):
        return short[0].refusal() if short else mismatch or ADMITTED
    if mismatch is not None or not short:
        # To push others out would not help.
        return mismatch or ADMITTED
    try:
        chosen = preemption_victims(pod, occupancy.pods(), {one.resource: one.missing for one in short})
    except NoPreemptionVictims as error:
        return PodAdmitResult(
            "UnexpectedAdmissionError",
            "Unexpected error while attempting to recover from admission failure: "
            f"preemption: error finding a set of pods to preempt: {error}",
        )
    return PodAdmitResult(victims=chosen)


def insufficient_resources(pod: Pod, node: Node, occupancy: AllocatedResources) -> Iterator[InsufficientResource]:
    """Every resource of which the node has too little left for a pod, in the order in which they are reported.

    A resource of somebody else's that the node does not have is not the node's to judge.
    """
    capacity = amounts(node.status.allocatable)
    if len(occupancy) + 1 > capacity.get(PODS, 0):
        yield InsufficientResource(PODS, 1, len(occupancy), capacity.get(PODS, 0))
    requests = pod_requests(pod)
    others = sorted(name for name in requests if name not in _FIRST_RESOURCES)
    for name in (*_FIRST_RESOURCES, *others):
        requested, given, used = requests.get(name, 0), capacity.get(name, 0), occupancy.used(name)
        is_foreign = is_extended(name) and name not in capacity
        if requested > 0 and not is_foreign and requested > given - used:
            yield InsufficientResource(name, requested, used, given)


def _mismatches(pod: Pod, node: Node, occupancy: AllocatedResources) -> Iterator[PodAdmitResult]:
    if not matches_node(pod.spec, node):
        yield _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if pod.spec.node_name not in ("", node.metadata.name):
        yield _predicate("NodeName", "node(s) didn't match the requested node name")
    if any(occupancy.is_port_taken(port) for port in host_ports(pod)):
        yield _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    evicting = (taint for taint in node.spec.taints if taint.effect == "NoExecute")
    if not is_static_pod(pod) and any(not is_tolerated(taint, pod.spec.tolerations) for taint in evicting):
        yield _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _predicate(name: str, description: str) -> PodAdmitResult:
    return PodAdmitResult(name, f"Predicate {name} failed: {description}")


def _app_armor(pod: Pod, view: AdmissionNodeInfo) -> PodAdmitResult:
    """Profiles are looked at before the pod has started; one that runs is let be."""
    if pod.status.phase != "Pending":
        return ADMITTED
    profiles = tuple(app_armor_profiles(pod))
    error = view.app_armor_error if any(profile.type != "Unconfined" for profile in profiles) else ""
    if not error and any(one.type == "Localhost" and not (one.localhost_profile or "").strip() for one in profiles):
        error = "invalid empty AppArmor profile name"
    return PodAdmitResult("AppArmor", f"Cannot enforce AppArmor: {error}") if error else ADMITTED


def _shutdown(pod: Pod, view: AdmissionNodeInfo) -> PodAdmitResult:  # noqa: ARG001  a node that goes down takes nobody
    return PodAdmitResult("NodeShutdown", view.shutdown) if view.shutdown else ADMITTED


_CHECKS: tuple[Callable[[Pod, AdmissionNodeInfo], PodAdmitResult], ...] = (
    _pressure,
    _sysctls,
    _node,
    _app_armor,
    _shutdown,
)
