"""Admission predicates: allocated resources stay exact, and victims free enough."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.generated.core import (
    ContainerPort,
    Node,
    NodeStatus,
    Pod,
    ResourceRequirements,
)
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.pods import HostPort, PodUid, host_ports, is_extended, pod_requests
from pykubelet.kubelet.lifecycle.predicate import (
    AdmissionNodeInfo,
    AllocatedResources,
    NoPreemptionVictims,
    SysctlAllowlist,
    admit,
    insufficient_resources,
    preemption_victims,
)
from pykubelet.testing.build import container, pod

NAMES = st.sampled_from("abcd")
AMOUNTS = st.fixed_dictionaries({"cpu": st.integers(0, 9), "memory": st.integers(0, 9)})


def asking(name: str, amounts: dict[str, int], port: int = 0, address: str = "") -> Pod:
    requests = {"cpu": f"{amounts['cpu']}m", "memory": str(amounts["memory"])}
    ports = (ContainerPort(container_port=1, host_port=port, host_ip=address),) if port else ()
    made = container(resources=ResourceRequirements(requests=requests), ports=ports)
    return pod(name, uid=name, containers=[made])


PODS = st.builds(asking, NAMES, AMOUNTS, st.integers(0, 2), st.sampled_from(["", "10.0.0.1", "10.0.0.2"]))


@given(st.lists(PODS | NAMES, max_size=30))
def test_allocated_resources_equal_the_sum_of_the_pods(steps: list[Pod | str]) -> None:
    """After any sequence of adding, changing and dropping pods."""
    allocated, there = AllocatedResources(), dict[str, Pod]()
    for step in steps:
        if isinstance(step, str):
            allocated.drop(PodUid(step))
            there.pop(step, None)
        else:
            allocated.put(step)
            there[step.metadata.uid] = step
    total: Counter[str] = Counter()
    for known in there.values():
        total.update(dict(pod_requests(known)))
    assert {uid for uid in "abcd" if uid in allocated} == set(there)
    assert sorted(known.metadata.uid for known in allocated.pods()) == sorted(there)
    assert (allocated.used("cpu"), allocated.used("memory")) == (total["cpu"], total["memory"])
    assert allocated.used("pods") == len(allocated) == len(there)
    taken = [one for known in there.values() for one in host_ports(known)]
    for wanted in HostPort("TCP", 1, "0.0.0.0"), HostPort("TCP", 2, "10.0.0.1"):
        clashes = [
            one
            for one in taken
            if one.port == wanted.port and (wanted.address in (one.address, "0.0.0.0") or one.address == "0.0.0.0")
        ]
        assert allocated.is_port_taken(wanted) == bool(clashes)


@given(st.lists(PODS, max_size=8, unique_by=lambda known: known.metadata.uid), AMOUNTS, AMOUNTS)
def test_critical_pod_fits_once_its_victims_are_gone(
    others: list[Pod], wanted: dict[str, int], given_amounts: dict[str, int]
) -> None:
    """A rejected pod asks for more than the node can allocate."""
    allocatable = {"cpu": f"{given_amounts['cpu']}m", "memory": str(given_amounts["memory"]), "pods": "3"}
    node = Node(metadata=ObjectMeta(name="node-1"), status=NodeStatus(allocatable=allocatable))
    allocated = AllocatedResources()
    for other in others:
        allocated.put(other)
    critical = asking("critical", wanted)
    critical = pod("critical", containers=critical.spec.containers, priority=2_000_000_000)
    verdict = admit(critical, AdmissionNodeInfo(node=node, allocated=allocated, sysctls=SysctlAllowlist(())))
    if not verdict.admitted:
        assert any(wanted[name] > given_amounts[name] for name in wanted)
        return
    for victim in verdict.victims:
        allocated.drop(PodUid(victim.metadata.uid))
    assert list(insufficient_resources(critical, node, allocated)) == []


@given(st.lists(PODS, max_size=6, unique_by=lambda known: known.metadata.uid), AMOUNTS)
def test_victims_free_what_is_missing(others: list[Pod], wanted: dict[str, int]) -> None:
    """No victim is chosen twice; without enough pods the choice fails."""
    missing = {name: amount for name, amount in wanted.items() if amount}
    critical = pod("critical", priority=2_000_000_000)
    total = {name: sum(pod_requests(other).get(name, 0) for other in others) for name in missing}
    try:
        chosen = preemption_victims(critical, others, missing)
    except NoPreemptionVictims:
        assert any(total[name] < amount for name, amount in missing.items())
        return
    freed = {name: sum(pod_requests(other).get(name, 0) for other in chosen) for name in missing}
    assert all(freed[name] >= amount for name, amount in missing.items())
    assert len({other.metadata.uid for other in chosen}) == len(chosen)


def test_requests_count_sidecars_overhead_and_the_pod_as_a_whole() -> None:
    """The numbers are those of the scheduler."""
    main = container("main", resources=ResourceRequirements(requests={"cpu": "100m", "memory": "10"}))
    sidecar = container(
        "sidecar",
        restart_policy="Always",
        resources=ResourceRequirements(requests={"cpu": "50m"}),
        ports=(ContainerPort(container_port=1, host_port=80, protocol="UDP"),),
    )
    init = container("init", resources=ResourceRequirements(requests={"cpu": "1"}))
    made = pod(containers=[main], init_containers=(sidecar, init), overhead={"memory": "5", "example.com/x": "1"})
    assert pod_requests(made) == {"cpu": 1050, "memory": 15, "example.com/x": 1}
    assert host_ports(made) == (HostPort("UDP", 80, "0.0.0.0"),)
    whole = pod(containers=[main], resources=ResourceRequirements(requests={"cpu": "3", "example.com/x": "1"}))
    assert pod_requests(whole) == {"cpu": 3000, "memory": 10}
    extended = [name for name in ("cpu", "example.com/x", "kubernetes.io/x", "requests.a/x") if is_extended(name)]
    assert extended == ["example.com/x"]
