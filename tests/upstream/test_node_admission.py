"""Section 6.5 and cases 6.24-02 and -03: pod admission on a node.

Departure: when several other resources are short, the message names the first in sorted order; upstream names any.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.core import (
    AppArmorProfile,
    ContainerPort,
    Node,
    NodeFeatures,
    NodeSpec,
    NodeStatus,
    Pod,
    PodOS,
    PodSecurityContext,
    PodStatus,
    ResourceRequirements,
    SecurityContext,
    Sysctl,
    Taint,
    Toleration,
)
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.kubelet.lifecycle.predicate import (
    AdmissionNodeInfo,
    AllocatedResources,
    NoPreemptionVictims,
    SysctlAllowlist,
    admit,
    insufficient_resources,
    preemption_victims,
    safe_sysctls,
)
from pykubelet.kubelet.pod_workers.state import is_active
from pykubelet.kubelet.types import PodWorkerState
from pykubelet.testing.build import container, pod, static_pod

SAFE = SysctlAllowlist(safe_sysctls((6, 1)))
CRITICAL = 2_000_000_000


def sized(name: str = "web", **requests: Any) -> Pod:
    """A pod with one container that requests these resources; `_` in a resource's name stands for `-`."""
    limits = requests.pop("limits", False)
    wanted = {key.replace("_", "-"): text for key, text in requests.items()}
    resources = ResourceRequirements(requests=wanted, limits=wanted if limits else {})
    return pod(name, containers=[container(resources=resources)])


def machine(*taints: Taint, **allocatable: str) -> Node:
    given = {"cpu": "10m", "memory": "20", "pods": "32"} | allocatable
    return Node(
        metadata=ObjectMeta(name="node-1"),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(allocatable=given, capacity=given),
    )


def view(*others: Pod, node: Node | None = None, **rest: Any) -> AdmissionNodeInfo:
    allocated = AllocatedResources()
    for other in others:
        allocated.put(other)
    return AdmissionNodeInfo(node=node or machine(), allocated=allocated, sysctls=rest.pop("sysctls", SAFE), **rest)


def with_port(name: str, port: int, ip: str = "", protocol: str = "") -> Pod:
    wanted = ContainerPort(container_port=1, host_port=port, host_ip=ip, protocol=protocol)
    return pod(name, containers=[container(ports=(wanted,))])


def toleration(**fields: Any) -> tuple[Toleration, ...]:
    return (Toleration(**fields),)


FITS = [
    pytest.param(pod(), view(sized("other", cpu="9m", memory="19")), id="nothing asked for"),
    pytest.param(sized(cpu="1m", memory="1"), view(sized("other", cpu="9m", memory="19")), id="just enough"),
    pytest.param(sized("web", **{"example.com/gpu": "1"}), view(), id="a resource the node does not know"),
    pytest.param(with_port("web", 80, "10.0.0.1"), view(with_port("other", 80, "10.0.0.2")), id="other address"),
    pytest.param(with_port("web", 80), view(with_port("other", 80, protocol="UDP")), id="other protocol"),
    pytest.param(
        pod(tolerations=toleration(key="bar")),
        view(node=machine(Taint(key="foo", effect="NoSchedule"), Taint(key="bar", effect="NoExecute"))),
        id="taint tolerated",
    ),
    pytest.param(pod(), view(node=machine(Taint(key="foo", effect="NoSchedule"))), id="only scheduling is forbidden"),
    pytest.param(
        static_pod(), view(node=machine(Taint(key="bar", effect="NoExecute"))), id="static pods ignore taints"
    ),
    pytest.param(pod(os=PodOS(name="linux"), labels={"kubernetes.io/os": "linux"}), view(), id="our OS"),
    pytest.param(sized(cpu="1m"), view(pressures=("MemoryPressure",)), id="memory pressure, not best effort"),
    pytest.param(
        pod(tolerations=toleration(key="node.kubernetes.io/memory-pressure", operator="Exists")),
        view(pressures=("MemoryPressure",)),
        id="memory pressure tolerated",
    ),
    pytest.param(static_pod(), view(pressures=("DiskPressure",)), id="pressure, critical"),
]


@pytest.mark.parametrize(("candidate", "node"), FITS)
def test_pod_is_admitted(candidate: Pod, node: AdmissionNodeInfo) -> None:
    assert admit(candidate, node).admitted


STRICT = PodSecurityContext(supplemental_groups_policy="Strict")
REFUSALS = [
    pytest.param(
        pod(), view(pressures=("MemoryPressure",)), "Evicted", "The node had condition: [MemoryPressure]. ", id="memory"
    ),
    pytest.param(
        sized(cpu="1m"),
        view(pressures=("MemoryPressure", "DiskPressure")),
        "Evicted",
        "The node had condition: [MemoryPressure DiskPressure]. ",
        id="memory and disk",
    ),
    pytest.param(
        pod(security_context=PodSecurityContext(sysctls=(Sysctl(name="kernel/sem"),))),
        view(),
        "SysctlForbidden",
        'forbidden sysctl: "kernel.sem" not allowlisted',
        id="sysctl",
    ),
    pytest.param(
        pod(labels={"kubernetes.io/os": "windows"}),
        view(),
        "PodOSSelectorNodeLabelDoesNotMatch",
        "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        id="OS label",
    ),
    pytest.param(
        pod(os=PodOS(name="windows")),
        view(),
        "PodOSNotSupported",
        "Failed to admit pod as the OS field doesn't match node OS",
        id="OS field",
    ),
    pytest.param(
        pod(security_context=STRICT),
        view(),
        "SupplementalGroupsPolicyNotSupported",
        "SupplementalGroupsPolicy=Strict is not supported in this node",
        id="groups policy",
    ),
    pytest.param(
        sized(cpu="8m", memory="10"),
        view(sized("other", cpu="5m", memory="19")),
        "OutOfcpu",
        "Node didn't have enough resource: cpu, requested: 8, used: 5, capacity: 10",
        id="cpu before memory",
    ),
    pytest.param(
        sized(memory="2"),
        view(sized("other", memory="19")),
        "OutOfmemory",
        "Node didn't have enough resource: memory, requested: 2, used: 19, capacity: 20",
        id="memory",
    ),
    pytest.param(
        sized(ephemeral_storage="5Ki"),
        view(),
        "OutOfephemeral-storage",
        "Node didn't have enough resource: ephemeral-storage, requested: 5120, used: 0, capacity: 0",
        id="ephemeral storage",
    ),
    pytest.param(
        pod(),
        view(pod("other"), node=machine(pods="1")),
        "OutOfpods",
        "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1",
        id="pods",
    ),
    pytest.param(
        sized("web", **{"example.com/gpu": "2"}),
        view(node=machine(**{"example.com/gpu": "1"})),
        "OutOfexample.com/gpu",
        "Node didn't have enough resource: example.com/gpu, requested: 2, used: 0, capacity: 1",
        id="extended resource",
    ),
    pytest.param(
        pod(node_selector={"disk": "ssd"}),
        view(),
        "NodeAffinity",
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        id="selector",
    ),
    pytest.param(
        pod(node_name="node-2"),
        view(),
        "NodeName",
        "Predicate NodeName failed: node(s) didn't match the requested node name",
        id="name",
    ),
    pytest.param(
        with_port("web", 123, "10.0.0.1"),
        view(with_port("other", 123)),
        "NodePorts",
        "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        id="port",
    ),
    pytest.param(
        pod(),
        view(node=machine(Taint(key="bar", effect="NoExecute"))),
        "TaintToleration",
        "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
        id="taint",
    ),
    pytest.param(
        pod(security_context=PodSecurityContext(app_armor_profile=AppArmorProfile(type="RuntimeDefault"))),
        view(app_armor_error="AppArmor is not enabled on the host"),
        "AppArmor",
        "Cannot enforce AppArmor: AppArmor is not enabled on the host",
        id="AppArmor",
    ),
    pytest.param(
        pod(),
        view(shutdown="Pod was rejected as the node is shutting down."),
        "NodeShutdown",
        "Pod was rejected as the node is shutting down.",
        id="shutdown",
    ),
]


@pytest.mark.parametrize(("candidate", "node", "reason", "message"), REFUSALS)
def test_pod_is_refused(candidate: Pod, node: AdmissionNodeInfo, reason: str, message: str) -> None:
    """Reason and message are those of upstream."""
    verdict = admit(candidate, node)
    assert (verdict.reason, verdict.message) == (reason, message)


def test_pod_is_refused_while_the_node_is_not_known() -> None:
    verdict = admit(pod(), AdmissionNodeInfo(node=None, allocated=AllocatedResources(), sysctls=SAFE))
    assert (verdict.reason, verdict.message) == ("InvalidNodeInfo", "Kubelet cannot get node info.")


def test_strict_groups_are_admitted_where_the_runtime_has_them() -> None:
    """The node's status reports the feature."""
    node = machine()
    node = replace(node, status=replace(node.status, features=NodeFeatures(supplemental_groups_policy=True)))
    assert admit(pod(security_context=STRICT), view(node=node)).admitted


PROFILE = "container.apparmor.security.beta.kubernetes.io/main"


@pytest.mark.parametrize(
    ("candidate", "is_refused"),
    [
        pytest.param(pod(annotations={PROFILE: "localhost/mine"}), True, id="annotation"),
        pytest.param(pod(annotations={PROFILE: "unconfined"}), False, id="annotation, unconfined"),
        pytest.param(pod(annotations={PROFILE: "nonsense"}), False, id="annotation, nonsense"),
        pytest.param(
            pod(annotations={PROFILE: "runtime/default"}, status=PodStatus(phase="Running")), False, id="runs"
        ),
        pytest.param(
            pod(
                containers=[
                    container(
                        security_context=SecurityContext(app_armor_profile=AppArmorProfile(type="RuntimeDefault"))
                    )
                ]
            ),
            True,
            id="container",
        ),
    ],
)
def test_profiles_are_refused_where_they_cannot_be_enforced(candidate: Pod, is_refused: bool) -> None:
    """A pod that already runs is admitted."""
    assert admit(candidate, view(app_armor_error="no AppArmor")).admitted != is_refused


def test_profile_without_a_name_is_refused_everywhere() -> None:
    nameless = pod(security_context=PodSecurityContext(app_armor_profile=AppArmorProfile(type="Localhost")))
    assert admit(nameless, view()).message == "Cannot enforce AppArmor: invalid empty AppArmor profile name"


ALLOWED = SysctlAllowlist([*safe_sysctls((6, 1)), "kernel.msg*", "kernel.sem", "net.b.*"])


@pytest.mark.parametrize(
    ("name", "shared", "refusal"),
    [
        ("kernel.shm_rmid_forced", {}, ""),
        ("kernel/shm_rmid_forced", {}, ""),
        ("net.ipv4.ip_local_port_range", {}, ""),
        ("kernel.msgmax", {}, ""),
        ("kernel.sem", {}, ""),
        ("kernel.shm_rmid_forced", {"host_ipc": True}, '"kernel.shm_rmid_forced" not allowed with host IPC enabled'),
        (
            "net.ipv4.ip_local_port_range",
            {"host_network": True},
            '"net.ipv4.ip_local_port_range" not allowed with host Net enabled',
        ),
        ("foo", {}, '"foo" not allowlisted'),
        ("net.a.b.c", {}, '"net.a.b.c" not allowlisted'),
        ("net.b.c", {"host_network": True}, '"net.b.c" not allowed with host Net enabled'),
        ("net/ipv4/conf/eth0.1/x", {}, '"net.ipv4.conf.eth0/1.x" not allowlisted'),
    ],
)
def test_sysctls_are_allowed_by_name_and_prefix(name: str, shared: dict[str, Any], refusal: str) -> None:
    """A sysctl is refused when the pod shares the host namespace that it would change."""
    candidate = pod(security_context=PodSecurityContext(sysctls=(Sysctl(name=name),)), **shared)
    assert ALLOWED.refusal(candidate.spec) == refusal


@pytest.mark.parametrize("bad", [" kernel.msg*", "kernel.msg* ", "net.-", "net.*.foo", "net.*/foo", "foo", "foo*"])
def test_sysctl_pattern_that_makes_no_sense_is_a_value_error(bad: str) -> None:
    """An administrator's mistake is thus reported at startup."""
    with pytest.raises(ValueError, match="sysctl"):
        SysctlAllowlist([bad])


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("ip_local_reserved_ports", (3, 16)),
        ("tcp_keepalive_time", (4, 5)),
        ("tcp_fin_timeout", (4, 6)),
        ("tcp_keepalive_intvl", (4, 5)),
        ("tcp_keepalive_probes", (4, 5)),
        ("tcp_rmem", (4, 15)),
        ("tcp_wmem", (4, 15)),
    ],
)
def test_safe_sysctls_depend_on_the_kernel(name: str, first: tuple[int, int]) -> None:
    """Fewer sysctls are safe on older kernels."""
    assert f"net.ipv4.{name}" in safe_sysctls(first)
    assert f"net.ipv4.{name}" not in safe_sysctls((first[0], first[1] - 1))
    assert len(safe_sysctls((0, 0))) == 5


MI = 1024**2
BEST_EFFORT = pod("best-effort")
BURSTABLE = sized("burstable", cpu="100m", memory="100Mi")
HIGH_BURSTABLE = sized("high-burstable", cpu="300m", memory="300Mi")
GUARANTEED = sized("guaranteed", limits=True, cpu="100m", memory="100Mi")
HIGH_GUARANTEED = sized("high-guaranteed", limits=True, cpu="300m", memory="300Mi")
ORDINARY = (BEST_EFFORT, BURSTABLE, HIGH_BURSTABLE, GUARANTEED, HIGH_GUARANTEED)


def prioritized(known: Pod, priority: int) -> Pod:
    return replace(known, spec=replace(known.spec, priority=priority))


CLUSTER_CRITICAL = prioritized(sized("cluster-critical", cpu="100m", memory="100Mi"), CRITICAL)
NODE_CRITICAL = prioritized(sized("node-critical", cpu="100m", memory="100Mi"), CRITICAL + 1000)


@pytest.mark.parametrize(
    ("preemptor", "others", "missing", "chosen"),
    [
        pytest.param(CLUSTER_CRITICAL, (), {}, (), id="nothing missing"),
        pytest.param(CLUSTER_CRITICAL, (CLUSTER_CRITICAL,), {"pods": 1}, None, id="equals cannot be pushed out"),
        pytest.param(CLUSTER_CRITICAL, (BEST_EFFORT,), {"memory": MI}, None, id="best effort frees nothing"),
        pytest.param(CLUSTER_CRITICAL, ORDINARY, {"pods": 1}, (BEST_EFFORT,), id="one pod: the least"),
        pytest.param(
            CLUSTER_CRITICAL,
            (BURSTABLE, HIGH_BURSTABLE),
            {"cpu": 150, "memory": 150 * MI},
            (HIGH_BURSTABLE,),
            id="one that is enough",
        ),
        pytest.param(
            CLUSTER_CRITICAL,
            ORDINARY,
            {"cpu": 350, "memory": 350 * MI},
            (HIGH_BURSTABLE, BURSTABLE),
            id="several",
        ),
        pytest.param(
            CLUSTER_CRITICAL,
            ORDINARY,
            {"memory": 550 * MI},
            (HIGH_BURSTABLE, HIGH_GUARANTEED),
            id="guaranteed only if needed",
        ),
        pytest.param(NODE_CRITICAL, (CLUSTER_CRITICAL,), {"cpu": 100}, (CLUSTER_CRITICAL,), id="by priority"),
        pytest.param(CLUSTER_CRITICAL, (NODE_CRITICAL,), {"cpu": 100}, None, id="not against priority"),
    ],
)
def test_victims_are_few_and_unimportant(
    preemptor: Pod, others: tuple[Pod, ...], missing: dict[str, int], chosen: tuple[Pod, ...] | None
) -> None:
    """The victims are those that upstream chooses."""
    if chosen is None:
        with pytest.raises(NoPreemptionVictims, match="no set of running pods found to reclaim resources"):
            preemption_victims(preemptor, others, missing)
    else:
        assert preemption_victims(preemptor, others, missing) == chosen


def test_critical_pod_preempts_others_only_for_resources() -> None:
    """When it is refused for another reason too, no pod is preempted."""
    others = (sized("small", cpu="4m"), sized("large", cpu="6m"))
    critical = prioritized(sized("critical", cpu="5m"), CRITICAL)
    assert admit(critical, view(*others)).victims == (others[1],)
    elsewhere = replace(critical, spec=replace(critical.spec, node_name="node-2"))
    assert admit(elsewhere, view(*others)).reason == "NodeName"
    assert admit(critical, view(*others, shutdown="down")).reason == "NodeShutdown"


def test_critical_pod_is_refused_when_no_victims_free_enough() -> None:
    verdict = admit(prioritized(sized("critical", cpu="11m"), CRITICAL), view(sized("other", cpu="4m")))
    assert verdict.reason == "UnexpectedAdmissionError"
    assert verdict.message == (
        "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods "
        "to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 1), ]"
    )


@pytest.mark.case("6.24-02 (values) every shortage is found, in order")
def test_shortages_are_found_in_order() -> None:
    wanted = sized("web", cpu="8m", memory="10", **{"hugepages-2Mi": "2Mi", "example.com/gpu": "1"})
    allocated = view(sized("other", cpu="5m", memory="19")).allocated
    found = insufficient_resources(wanted, machine(**{"example.com/gpu": "0"}), allocated)
    assert [one.resource for one in found] == ["cpu", "memory", "example.com/gpu", "hugepages-2Mi"]


def phased(phase: str) -> Pod:
    return pod(status=PodStatus(phase=phase))


@pytest.mark.parametrize(
    ("known", "worker", "own_phase", "counts"),
    [
        pytest.param(phased("Failed"), None, "", False, id="failed"),
        pytest.param(phased("Succeeded"), None, "", False, id="succeeded"),
        pytest.param(phased("Running"), PodWorkerState.TERMINATING, "Running", True, id="deleting but running"),
        pytest.param(phased("Pending"), None, "", True, id="pending"),
        pytest.param(phased("Running"), PodWorkerState.SYNC, "Running", True, id="running"),
        pytest.param(phased("Running"), None, "Failed", False, id="running but refused here"),
        pytest.param(phased("Running"), PodWorkerState.TERMINATED, "Running", False, id="running but known terminated"),
        pytest.param(phased("Failed"), PodWorkerState.TERMINATING, "", True, id="failed but terminating"),
    ],
)
@pytest.mark.case("6.24-03 inactive pods")
def test_inactive_pods_do_not_count(known: Pod, worker: PodWorkerState | None, own_phase: str, counts: bool) -> None:
    assert is_active(known, worker, own_phase) == counts
