"""Which pods are deleted for a pod that fits nowhere, as in upstream's DefaultPreemption plugin."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.core import Pod, PodCondition
from pykubelet.api.generated.policy import PodDisruptionBudget
from pykubelet.api.serializer import from_document
from pykubelet.scheduler.cache import SchedulerCache
from pykubelet.scheduler.filters import VolumeNeeds
from pykubelet.scheduler.nominator import Nominator
from pykubelet.scheduler.preemption import NO_VICTIMS, WAITING, Preemption, PreemptionCandidate, preempt
from pykubelet.scheduler.schedule_one import FitError, schedule_pod
from pykubelet.scheduler.volumebinding import BindingPlan, ClaimKey
from scheduler_views import facts, node, pod, view

ZONE = {"zone": "a"}
WEB = {"matchLabels": {"app": "web"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def running(name: str, cpu: str, priority: int = 0, *, started: str = "2026-01-01T00:00:00Z", **fields: Any) -> Pod:
    made = pod(name, requests=[{"cpu": cpu}], priority=priority, **fields)
    return replace(made, status=replace(made.status, start_time=started))


def budget(allowed: int, **fields: Any) -> PodDisruptionBudget:
    status = {"disruptionsAllowed": allowed, **fields}
    document = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": WEB}, "status": status}
    return from_document(document, PodDisruptionBudget)


def preemption(
    seen: SchedulerCache,
    *,
    budgets: Sequence[PodDisruptionBudget] = (),
    nominator: Nominator | None = None,
    needs: VolumeNeeds | None = None,
    **wanted: Any,
) -> Preemption:
    """What a pod of priority 100 preempts, and that the scheduler's cache is the same afterwards."""
    nominator = nominator or Nominator()
    before = {name: (set(one.pods), +one.requested) for name, one in seen.nodes.items()}
    found = schedule_pod(facts("asking", **{"priority": 100, **wanted}), seen, nominator, needs)
    assert isinstance(found, FitError)
    assert found.cycle_state is not None
    done = preempt(found.cycle_state, found.statuses, nominator, budgets)
    assert before == {name: (set(one.pods), +one.requested) for name, one in seen.nodes.items()}
    return done


def victims(done: Preemption) -> tuple[str, list[str], int]:
    assert isinstance(done.candidate, PreemptionCandidate), done.message
    return done.candidate.node_name, [one.metadata.name for one in done.candidate.victims], done.candidate.violations


OLD, YOUNG = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
MANY = [running("a", "1", 2), running("b", "1", 1), running("c", "2", 3), running("equal", "1", 100)]
TWINS = [running("old", "1", started=OLD), running("young", "1", started=YOUNG)]
PROTECTED = [running("plain", "1", 5), running("web-1", "1", 1, labels={"app": "web"})]


@pytest.mark.parametrize(
    ("pods", "cpu", "budgets", "expected"),
    [
        pytest.param(MANY, "1", (), ["b"], id="least important"),
        pytest.param(MANY, "2", (), ["a", "b"], id="as few as needed, most important first"),
        pytest.param(MANY, "4", (), ["c", "a", "b"], id="all of lower priority"),
        pytest.param(TWINS, "4", (), ["young"], id="of the same priority the youngest"),
        pytest.param(PROTECTED, "4", (), ["web-1"], id="without a budget"),
        pytest.param(PROTECTED, "4", [budget(0)], ["plain"], id="spares what a budget protects"),
        pytest.param(PROTECTED, "4", [budget(1)], ["web-1"], id="within a budget"),
        pytest.param(PROTECTED, "4", [budget(0, disruptedPods={"web-1": OLD})], ["web-1"], id="already evicted"),
    ],
)
def test_fewest_and_least_important_pods_are_victims(
    pods: Sequence[Pod], cpu: str, budgets: Sequence[PodDisruptionBudget], expected: Sequence[str]
) -> None:
    done = preemption(
        view([node("n1", allocatable={"cpu": "5"})], {"n1": pods}), budgets=budgets, requests=[{"cpu": cpu}]
    )
    assert victims(done)[1] == expected


def test_protected_pods_go_if_nothing_else_helps() -> None:
    seen = view([node("n1", allocatable={"cpu": "2"})], {"n1": PROTECTED})
    assert victims(preemption(seen, budgets=[budget(0)], requests=[{"cpu": "2"}])) == ("n1", ["plain", "web-1"], 1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([running("x", "2", 50)], [running("y", "2", 1, labels={"app": "web"})]),
        ([running("x", "2", 1)], [running("y", "2", 2)]),
        ([running("x", "1", 2), running("x2", "1", 1)], [running("y", "1", 2), running("y2", "1", 2)]),
        ([running("x", "2", -5)], [running("y", "1", -5), running("y2", "1", -5)]),
        ([running("x", "2", started=YOUNG)], [running("y", "2", started=OLD)]),
    ],
    ids=["violations", "highest priority", "sum of priorities", "count", "start"],
)
def test_node_whose_victims_matter_least_is_chosen(first: Sequence[Pod], second: Sequence[Pod]) -> None:
    """Whatever the order of the nodes."""
    for names in (("n1", "n2"), ("n2", "n1")):
        nodes = [node(name, allocatable={"cpu": "2"}) for name in names]
        done = preemption(view(nodes, {"n1": first, "n2": second}), budgets=[budget(0)], requests=[{"cpu": "2"}])
        assert victims(done)[0] == "n1"


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": WEB}]}}},
            {"labels": {"app": "web"}},
        ),
        (
            {"labels": {"app": "web"}},
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": WEB}]}}},
        ),
        (
            {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]}]},
            {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]}]},
        ),
    ],
    ids=["existing anti-affinity", "own anti-affinity", "host port"],
)
def test_pod_in_the_way_is_a_victim(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    pods = {"n1": [pod("in-the-way", priority=1, **there), pod("other", priority=0)]}
    assert victims(preemption(view([node("n1", labels=ZONE)], pods), **wanted))[1] == ["in-the-way"]


def test_pods_that_make_a_domain_crowded_are_victims() -> None:
    """Only as many as the maximum skew demands, on the node of that domain."""
    constraint = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    nodes = [node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"}, unschedulable=True)]
    pods = {"a": [running(f"web-{number}", "1", number, labels={"app": "web"}) for number in range(3)]}
    done = preemption(view(nodes, pods), labels={"app": "web"}, topologySpreadConstraints=[constraint])
    assert victims(done) == ("a", ["web-2", "web-1", "web-0"], 0)
    pods["b"] = [running("other", "1", labels={"app": "web"})]
    done = preemption(view(nodes, pods), labels={"app": "web"}, topologySpreadConstraints=[constraint])
    assert victims(done) == ("a", ["web-1", "web-0"], 0)


def test_user_of_an_exclusive_claim_is_a_victim() -> None:
    """ReadWriteOncePod: one pod in the whole cluster."""
    using: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    needs = VolumeNeeds(lambda _: BindingPlan(), frozenset({ClaimKey("default", "data")}))
    seen = view([node("n1"), node("n2")], {"n1": [pod("user", priority=1, **using)]})
    assert victims(preemption(seen, needs=needs, **using))[:2] == ("n1", ["user"])
    same = view([node("n1")], {"n1": [pod("user", priority=100, **using)]})
    found = schedule_pod(facts("asking", priority=100, **using), same, None, needs)
    assert isinstance(found, FitError)
    text = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
    assert found.message == f"0/1 nodes are available: 1 {text}."


def test_no_victims_are_taken_in_vain() -> None:
    """Neither where the pod would not fit anyway, nor where only pods of its priority run."""
    nodes = [node("n1", allocatable={"cpu": "2"}), node("n2", allocatable={"cpu": "2"})]
    pods = {"n1": [running("big", "1500m", 100), running("small", "500m", 1)], "n2": [running("same", "2", 100)]}
    done = preemption(view(nodes, pods), requests=[{"cpu": "2"}])
    text = f"0/2 nodes are available: 1 Insufficient cpu, 1 {NO_VICTIMS}."
    assert (done.message, done.candidate, done.keeps_nomination) == (text, None, False)


def test_nominated_pod_keeps_its_room() -> None:
    """From pods of its own priority and below, but not from those above, and not from itself."""
    nominator, nodes = Nominator(), [node("n1", allocatable={"cpu": "2"})]
    nominator.put(pod("waiting", requests=[{"cpu": "2"}], priority=50), "n1")
    for priority, fits in ((49, False), (50, False), (51, True)):
        found = schedule_pod(facts(requests=[{"cpu": "1"}], priority=priority), view(nodes), nominator)
        assert (found == "n1") == fits
    itself = facts("waiting", requests=[{"cpu": "2"}], priority=50)
    assert schedule_pod(itself, view([*nodes, node("n0")]), nominator) == "n1"


def test_pod_waits_for_the_victims_on_its_node() -> None:
    """It preempts no other pods while they end; victims of something else do not count."""
    asking = facts("asking", requests=[{"cpu": "2"}], priority=100)
    nominator = Nominator()
    nominator.put(asking.pod, "n1")
    ending = replace(running("ending", "2"), metadata=replace(running("ending", "2").metadata, deletion_timestamp=OLD))
    for reason, expected in (("PreemptionByScheduler", WAITING), ("EvictionByEvictionAPI", "")):
        condition = PodCondition(type="DisruptionTarget", status="True", reason=reason)
        there = replace(ending, status=replace(ending.status, conditions=(condition,)))
        nodes = [node(name, allocatable={"cpu": "2"}) for name in ("n1", "n2")]
        done = preemption(
            view(nodes, {"n1": [there], "n2": [running("other", "2")]}), nominator=nominator, requests=[{"cpu": "2"}]
        )
        assert (done.message, done.keeps_nomination) == (expected, bool(expected))
