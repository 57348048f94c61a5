"""Decides whether the node can admit a pod, and which pods a critical pod preempts.

Pure: takes a pod and what is known of the node; returns the first rejection with upstream's reason and message, or the
preemption victims. Victims are as few as possible, the least important first; a guaranteed pod is preempted only if all
others together do not free enough. Allocated resources are kept as sums, so that admission costs the same however many
pods there are. A pod counts from its admission until its last container stopped or its source dropped it; otherwise an
edited manifest would be rejected while its predecessor still runs. A pod may set safe sysctls and those the
administrator allows, but no sysctl of a namespace it shares with the host.

Upstream: pkg/kubelet/lifecycle/predicate.go, pkg/kubelet/lifecycle/handlers.go, pkg/kubelet/preemption/preemption.go,
pkg/kubelet/sysctl/allowlist.go, pkg/kubelet/sysctl/safe_sysctls.go, pkg/kubelet/eviction/eviction_manager.go,
pkg/scheduler/eventhandlers.go, pkg/security/apparmor/validate.go
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from pykubelet.api.generated.core import Node, Pod, PodSpec, Taint
from pykubelet.api.pod_resources import BEST_EFFORT, BURSTABLE, GUARANTEED
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
    qos_class_of,
)
from pykubelet.api.scheduling import is_tolerated, matches_node

IPC, NET = "IPC", "Net"
EVICTED = "Evicted"
"""The reason of a rejection under node pressure."""

# The first kernel version in which each sysctl is namespaced.
_SAFE = {
    "kernel.shm_rmid_forced": (0, 0),
    "net.ipv4.ip_local_port_range": (0, 0),
    "net.ipv4.tcp_syncookies": (0, 0),
    "net.ipv4.ping_group_range": (0, 0),
    "net.ipv4.ip_unprivileged_port_start": (0, 0),
    "net.ipv4.ip_local_reserved_ports": (3, 16),
    "net.ipv4.tcp_keepalive_time": (4, 5),
    "net.ipv4.tcp_fin_timeout": (4, 6),
    "net.ipv4.tcp_keepalive_intvl": (4, 5),
    "net.ipv4.tcp_keepalive_probes": (4, 5),
    "net.ipv4.tcp_rmem": (4, 15),
    "net.ipv4.tcp_wmem": (4, 15),
}
_IPC_NAMES = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm", "msgmax", "msgmnb", "msgmni", "msg")
)
_MAX_LENGTH = 253
_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_PATTERN = rf"({_SEGMENT}[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]"
_SWAPPED = str.maketrans("./", "/.")


class PodAdmitResult(Struct, frozen=True):
    """The result of admission: without a `reason` the pod may start, once its `victims` have stopped."""

    reason: str = ""
    message: str = ""
    victims: tuple[Pod, ...] = ()

    @property
    def admitted(self) -> bool:
        return not self.reason


def safe_sysctls(kernel: tuple[int, int]) -> tuple[str, ...]:
    """The sysctls that affect no other pod under a kernel of this version."""
    return tuple(name for name, since in _SAFE.items() if kernel >= since)


def kernel_version(release: str) -> tuple[int, int]:
    """The first two numbers of a kernel release such as `6.1.0-13-amd64`; zeros if it has none."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


class SysctlAllowlist:
    """The allowed sysctls: names, and prefixes that end in `*`.

    ValueError for an invalid pattern, or one that is not namespaced.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}
        for pattern in patterns:
            if len(pattern) > _MAX_LENGTH or not re.fullmatch(_PATTERN, pattern):
                raise ValueError(
                    f'sysctl "{pattern}" must have at most {_MAX_LENGTH} characters and match regex {_PATTERN}'
                )
            name, star, _ = normal_name(pattern).partition("*")
            namespace = _namespace(name)
            if not namespace:
                raise ValueError(f'the sysctls "{name}" are not known to be namespaced')
            (self._prefixes if star else self._names)[name] = namespace

    def refusal(self, spec: PodSpec) -> str:
        """Why the pod's sysctls are not allowed; empty if they are."""
        wanted = spec.security_context.sysctls if spec.security_context is not None else ()
        shared = {namespace for namespace, is_shared in ((IPC, spec.host_ipc), (NET, spec.host_network)) if is_shared}
        for sysctl in wanted:
            name = normal_name(sysctl.name)
            namespace = self._allowed(name)
            if not namespace:
                return f'"{name}" not allowlisted'
            if namespace in shared:
                return f'"{name}" not allowed with host {namespace} enabled'
        return ""

    def _allowed(self, name: str) -> str:
        if name in self._names:
            return self._names[name]
        return next((namespace for prefix, namespace in self._prefixes.items() if name.startswith(prefix)), "")


def normal_name(text: str) -> str:
    """A sysctl name with dots as separators; in a name with slashes, dots within a part become slashes."""
    separator = re.search(r"[./]", text)
    return text if separator is None or separator[0] == "." else text.translate(_SWAPPED)


def _namespace(name: str) -> str:
    if name in _IPC_NAMES or name.startswith("fs.mqueue."):
        return IPC
    return NET if name.startswith("net.") else ""


class _Share(Struct, frozen=True):
    pod: Pod
    requests: tuple[tuple[str, int], ...]
    ports: tuple[HostPort, ...]


class AllocatedResources:
    """The admitted pods, and the sums of their requests and host ports."""

    def __init__(self) -> None:
        self._shares: dict[PodUid, _Share] = {}
        self._used: Counter[str] = Counter()
        self._ports: dict[tuple[str, int], Counter[str]] = {}

    def put(self, pod: Pod) -> None:
        uid = PodUid(pod.metadata.uid)
        self.drop(uid)
        share = _Share(pod, tuple(pod_requests(pod).items()), host_ports(pod))
        self._shares[uid] = share
        self._used.update(dict(share.requests))
        for port in share.ports:
            self._ports.setdefault((port.protocol, port.port), Counter())[port.address] += 1

    def drop(self, uid: PodUid) -> None:
        """Remove a pod, if it is there."""
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
        return len(self._shares)

    def used(self, resource: str) -> int:
        """The sum of all pods' requests of a resource."""
        return len(self._shares) if resource == PODS else self._used[resource]

    def is_port_taken(self, wanted: HostPort) -> bool:
        """Whether a host port is in use; a port on all addresses conflicts with one on any address."""
        taken = +self._ports.get((wanted.protocol, wanted.port), Counter())
        if wanted.address == EVERY_ADDRESS:
            return bool(taken)
        return wanted.address in taken or EVERY_ADDRESS in taken

    def pods(self) -> tuple[Pod, ...]:
        """The pods in the order of admission."""
        return tuple(share.pod for share in self._shares.values())


Missing = Mapping[str, int]
"""How much of each resource preemption has to free."""


class NoPreemptionVictims(Exception):
    """All pods that may be preempted together would not free enough."""


def preemption_victims(preemptor: Pod, others: Iterable[Pod], missing: Missing) -> tuple[Pod, ...]:
    """The pods to preempt; NoPreemptionVictims if no set of them frees enough."""
    kinds: dict[str, list[Pod]] = {BEST_EFFORT: [], BURSTABLE: [], GUARANTEED: []}
    for pod in others:
        if may_preempt(preemptor, pod):
            kinds[qos_class_of(pod)].append(pod)
    best_effort, burstable, guaranteed = kinds.values()
    if left := _without(missing, [*best_effort, *burstable, *guaranteed]):
        raise NoPreemptionVictims(f"no set of running pods found to reclaim resources: {_shown(left)}")
    # Each QoS class contributes only what the classes below it cannot.
    first = _nearest(guaranteed, _without(missing, [*best_effort, *burstable]))
    second = _nearest(burstable, _without(missing, [*best_effort, *first]))
    third = _nearest(best_effort, _without(missing, [*second, *first]))
    return (*third, *second, *first)


def _nearest(pods: Sequence[Pod], missing: Missing) -> list[Pod]:
    """Pods that together free what is missing; each round takes the pod whose requests come closest to the rest."""
    candidates, chosen = list(pods), list[Pod]()
    while missing:
        best = min(candidates, key=lambda pod: (_distance(missing, pod), _request(pod, MEMORY), _request(pod, CPU)))
        candidates.remove(best)
        chosen.append(best)
        missing = _without(missing, [best])
    return chosen


def _without(missing: Missing, pods: Sequence[Pod]) -> Missing:
    """What is still missing once these pods are gone."""
    freed = [(name, needed - sum(_request(pod, name) for pod in pods)) for name, needed in missing.items()]
    return {name: needed for name, needed in freed if needed > 0}


def _distance(missing: Missing, pod: Pod) -> float:
    """How much would still be missing, with all resources weighted equally."""
    left = [(needed, needed - _request(pod, name)) for name, needed in missing.items()]
    return sum((rest / needed) ** 2 for needed, rest in left if rest > 0)


def _request(pod: Pod, resource: str) -> int:
    return 1 if resource == PODS else pod_requests(pod).get(resource, 0)


def _shown(missing: Missing) -> str:
    return "[" + "".join(f"(res: {name}, q: {needed}), " for name, needed in missing.items()) + "]"


ADMITTED = PodAdmitResult()
MEMORY_PRESSURE = "MemoryPressure"
_OS_LABEL = "kubernetes.io/os"
_MEMORY_PRESSURE_TAINT = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
# These come first, in this order; the others follow by name.
_FIRST_RESOURCES = (CPU, MEMORY, EPHEMERAL_STORAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionNodeInfo:
    """What admission knows of the node. `node` is None while unknown; `pressures` are the conditions that hold.

    `app_armor_error` says why profiles cannot be enforced, `shutdown` why no pod is admitted any more.
    """

    node: Node | None
    allocated: AllocatedResources
    sysctls: SysctlAllowlist
    pressures: tuple[str, ...] = ()
    operating_system: str = "linux"
    app_armor_error: str = ""
    shutdown: str = ""


class InsufficientResource(Struct, frozen=True):
    """A resource of which the node has too little left."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        return self.requested - (self.capacity - self.used)

    def refusal(self) -> PodAdmitResult:
        """The rejection, with upstream's text."""
        return PodAdmitResult(
            f"OutOf{self.resource}",
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, used: {self.used}, "
            f"capacity: {self.capacity}",
        )


def admit(pod: Pod, view: AdmissionNodeInfo) -> PodAdmitResult:
    """Decide whether a pod may start beside the pods counted in `allocated`."""
    verdict = ADMITTED
    for check in _CHECKS:
        found = check(pod, view)
        if not found.admitted:
            return found
        # No pod is preempted for one that a later check rejects.
        verdict = found if found.victims else verdict
    return verdict


def _pressure(pod: Pod, view: AdmissionNodeInfo) -> PodAdmitResult:
    if not view.pressures or is_critical_pod(pod):
        return ADMITTED
    is_spared = qos_class_of(pod) != BEST_EFFORT or is_tolerated(_MEMORY_PRESSURE_TAINT, pod.spec.tolerations)
    if view.pressures == (MEMORY_PRESSURE,) and is_spared:
        return ADMITTED
    return PodAdmitResult(EVICTED, f"The node had condition: [{' '.join(view.pressures)}]. ")


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
    context, features = pod.spec.security_context, view.node.status.features
    is_strict = context is not None and context.supplemental_groups_policy == "Strict"
    if is_strict and not (features is not None and features.supplemental_groups_policy):
        return PodAdmitResult(
            "SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"
        )
    return _fit(pod, view.node, view.allocated)


def _fit(pod: Pod, node: Node, allocated: AllocatedResources) -> PodAdmitResult:
    short = tuple(insufficient_resources(pod, node, allocated))
    mismatch = next(_mismatches(pod, node, allocated), None)
    if not is_critical_pod(pod):
        return short[0].refusal() if short else mismatch or ADMITTED
    if mismatch is not None or not short:
        # Preemption would not help.
        return mismatch or ADMITTED
    try:
        chosen = preemption_victims(pod, allocated.pods(), {one.resource: one.missing for one in short})
    except NoPreemptionVictims as error:
        return PodAdmitResult(
            "UnexpectedAdmissionError",
            "Unexpected error while attempting to recover from admission failure: "
            f"preemption: error finding a set of pods to preempt: {error}",
        )
    return PodAdmitResult(victims=chosen)


def insufficient_resources(pod: Pod, node: Node, allocated: AllocatedResources) -> Iterator[InsufficientResource]:
    """Every resource of which the node has too little left for a pod, in upstream's order.

    Extended resources that the node does not have at all are not checked.
    """
    capacity = amounts(node.status.allocatable)
    if len(allocated) + 1 > capacity.get(PODS, 0):
        yield InsufficientResource(PODS, 1, len(allocated), capacity.get(PODS, 0))
    requests = pod_requests(pod)
    others = sorted(name for name in requests if name not in _FIRST_RESOURCES)
    for name in (*_FIRST_RESOURCES, *others):
        requested, given, used = requests.get(name, 0), capacity.get(name, 0), allocated.used(name)
        is_foreign = is_extended(name) and name not in capacity
        if requested > 0 and not is_foreign and requested > given - used:
            yield InsufficientResource(name, requested, used, given)


def _mismatches(pod: Pod, node: Node, allocated: AllocatedResources) -> Iterator[PodAdmitResult]:
    if not matches_node(pod.spec, node):
        yield _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if pod.spec.node_name not in ("", node.metadata.name):
        yield _predicate("NodeName", "node(s) didn't match the requested node name")
    if any(allocated.is_port_taken(port) for port in host_ports(pod)):
        yield _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    evicting = (taint for taint in node.spec.taints if taint.effect == "NoExecute")
    if not is_static_pod(pod) and any(not is_tolerated(taint, pod.spec.tolerations) for taint in evicting):
        yield _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _predicate(name: str, description: str) -> PodAdmitResult:
    return PodAdmitResult(name, f"Predicate {name} failed: {description}")


def _app_armor(pod: Pod, view: AdmissionNodeInfo) -> PodAdmitResult:
    """Only pods that have not started are checked."""
    if pod.status.phase != "Pending":
        return ADMITTED
    profiles = tuple(app_armor_profiles(pod))
    error = view.app_armor_error if any(profile.type != "Unconfined" for profile in profiles) else ""
    if not error and any(one.type == "Localhost" and not (one.localhost_profile or "").strip() for one in profiles):
        error = "invalid empty AppArmor profile name"
    return PodAdmitResult("AppArmor", f"Cannot enforce AppArmor: {error}") if error else ADMITTED


def _shutdown(pod: Pod, view: AdmissionNodeInfo) -> PodAdmitResult:  # noqa: ARG001  a node that shuts down admits no pod
    return PodAdmitResult("NodeShutdown", view.shutdown) if view.shutdown else ADMITTED


_CHECKS: tuple[Callable[[Pod, AdmissionNodeInfo], PodAdmitResult], ...] = (
    _pressure,
    _sysctls,
    _node,
    _app_armor,
    _shutdown,
)
