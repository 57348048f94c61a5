"""Decisions of the node controllers: health, taints, evictions and orphaned pods."""

import asyncio
import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import Conflict
from pykubelet.api.generated.coordination import Lease
from pykubelet.api.generated.core import Node, ObjectReference, Pod, PodCondition, Taint, Toleration
from pykubelet.api.pods import condition_patch
from pykubelet.api.scheme import NODES, PODS
from pykubelet.api.serializer import from_document, to_document
from pykubelet.api.times import format_time
from pykubelet.client.indexer import ObjectIndex, PodIndex
from pykubelet.client.informers import PodsByNode
from pykubelet.controllers.nodelifecycle.node_health import (
    EvictionPolicy,
    NodeHealthData,
    is_evicting,
    is_silent,
    missing_labels,
    observe,
    unknown_patch,
    wanted_taints,
)
from pykubelet.controllers.nodelifecycle.node_lifecycle_controller import (
    NodeLifecycleController,
    ZoneEvictionLimiter,
    zone_states,
)
from pykubelet.controllers.podgc.gc_controller import (
    nodes_past_quarantine,
    pods_on_out_of_service_nodes,
    quarantined_nodes,
    surplus_terminated_pods,
    unscheduled_terminating_pods,
)
from pykubelet.controllers.tainteviction.taint_eviction import TaintEvictionController, seconds_to_stay
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import EPOCH, VirtualClock

CREATED = format_time(EPOCH)
CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def node(name: str = "n1", *, labels: dict[str, str] | None = None, beat: str = "", **fields: Any) -> Node:
    """A node whose conditions are given as `Ready="True"`."""
    listed = [
        {"type": kind, "status": fields.pop(kind), "lastHeartbeatTime": beat or CREATED}
        for kind in CONDITIONS
        if kind in fields
    ]
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels or {}, "creationTimestamp": CREATED}
    return from_document({"metadata": metadata, "spec": fields, "status": {"conditions": listed}}, Node)


def pod(name: str, *, node_name: str = "", age: int = 0, **status: Any) -> Pod:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": name, "generation": 3}
    metadata["creationTimestamp"] = format_time(EPOCH + timedelta(seconds=age))
    return from_document({"metadata": metadata, "spec": {"nodeName": node_name}, "status": status}, Pod)


def lease(second: int) -> Lease:
    return from_document({"spec": {"renewTime": f"2026-01-01T00:00:{second:02}.000000Z"}}, Lease)


@pytest.mark.parametrize(
    ("old", "seen", "renewed", "expected_at"),
    [
        (None, node(), None, 70.0),
        (None, node(Ready="True"), None, 100.0),
        (NodeHealthData("uid-n1", 20, CREATED, None), node(Ready="True"), None, 20.0),
        (NodeHealthData("uid-n1", 20, "earlier", None), node(Ready="True"), None, 100.0),
        (NodeHealthData("uid-n1", 20, CREATED, None), node(Ready="True"), lease(1), 100.0),
        (NodeHealthData("uid-n1", 20, CREATED, "2026-01-01T00:00:01.000000Z"), node(Ready="True"), lease(1), 20.0),
        (NodeHealthData("uid-n1", 20, CREATED, "2026-01-01T00:00:02.000000Z"), node(Ready="True"), lease(1), 100.0),
        (NodeHealthData("uid-n1", 20, None, None), node(Ready="True"), None, 100.0),
        (NodeHealthData("another", 20, CREATED, None), node(Ready="True"), None, 100.0),
    ],
    ids=["never spoke", "new", "same", "status", "lease", "same lease", "clock set back", "first status", "namesake"],
)
def test_health_is_what_changed_when(
    old: NodeHealthData | None, seen: Node, renewed: Lease | None, expected_at: float
) -> None:
    """The observation is at second 100 of the clock, thirty seconds after the node's creation."""
    health = observe(old, seen, renewed, now=EPOCH + timedelta(seconds=30), at=100.0)
    assert health.seen_at == expected_at


@given(st.floats(0, 200), st.booleans())
@settings(max_examples=60)
def test_node_is_silent_only_after_its_grace(seconds: float, has_spoken: bool) -> None:
    """The grace is 50 s, or 60 s for a node that has never reported."""
    health = NodeHealthData("u", 0.0, "x" if has_spoken else None, None)
    assert is_silent(health, at=seconds) == (seconds > (50 if has_spoken else 60))


def test_silent_node_is_declared_unknown_once() -> None:
    """Conditions that the node never reported get their own reason; NetworkUnavailable is not changed."""
    patch = unknown_patch(node(Ready="True", NetworkUnavailable="False"), EPOCH)
    assert patch is not None
    listed = patch["status"]["conditions"]
    assert [(each["type"], each["reason"]) for each in listed] == [
        ("Ready", "NodeStatusUnknown"),
        ("MemoryPressure", "NodeStatusNeverUpdated"),
        ("DiskPressure", "NodeStatusNeverUpdated"),
        ("PIDPressure", "NodeStatusNeverUpdated"),
    ]
    assert unknown_patch(node(Ready="Unknown"), EPOCH) is None


def keys(taints: Sequence[Taint]) -> list[tuple[str, str]]:
    return [(taint.key.removeprefix("node.kubernetes.io/"), taint.effect) for taint in taints]


NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("seen", "evictions", "expected"),
    [
        (node(Ready="False"), EvictionPolicy.GO_ON, [("not-ready", "NoSchedule")]),
        (node(Ready="False"), EvictionPolicy.START, [("not-ready", "NoExecute"), ("not-ready", "NoSchedule")]),
        (
            node(Ready="Unknown", taints=[NOT_READY]),
            EvictionPolicy.GO_ON,
            [("unreachable", "NoExecute"), ("unreachable", "NoSchedule")],
        ),
        (node(Ready="Unknown", taints=[NOT_READY]), EvictionPolicy.STOP, [("unreachable", "NoSchedule")]),
        (node(Ready="True", taints=[NOT_READY]), EvictionPolicy.START, []),
        (node(Ready="True", unschedulable=True), EvictionPolicy.GO_ON, [("unschedulable", "NoSchedule")]),
    ],
    ids=["not ready", "evicting", "swapped", "halted", "ready again", "cordoned"],
)
def test_taints_follow_the_node(seen: Node, evictions: EvictionPolicy, expected: list[tuple[str, str]]) -> None:
    """The not-ready and unreachable taints exclude each other."""
    assert keys(wanted_taints(seen, evictions, EPOCH)) == expected


statuses = st.sampled_from(["True", "False", "Unknown"])
some_taints = st.lists(
    st.builds(
        lambda key, effect: {"key": key, "effect": effect},
        st.sampled_from(["example.com/a", "node.kubernetes.io/not-ready", "node.kubernetes.io/disk-pressure"]),
        st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    ),
    unique_by=lambda taint: (taint["key"], taint["effect"]),
    max_size=5,
)


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(CONDITIONS, statuses)),
    some_taints,
    st.sampled_from(EvictionPolicy),
)
@settings(max_examples=80)
def test_taints_are_settled_and_leave_those_of_others(
    conditions: dict[str, Any], taints: list[dict[str, str]], evictions: EvictionPolicy
) -> None:
    """A second computation changes nothing, and taints of other owners stay."""
    first = wanted_taints(node(taints=taints, **conditions), evictions, EPOCH)
    documents = [{"key": taint.key, "effect": taint.effect, "timeAdded": taint.time_added} for taint in first]
    again = wanted_taints(node(taints=documents, **conditions), evictions, EPOCH + timedelta(seconds=9))
    assert again == first
    foreign = [(each["key"], each["effect"]) for each in taints if each["key"].startswith("example.com")]
    assert [(taint.key, taint.effect) for taint in first if taint.key.startswith("example.com")] == foreign


def test_old_labels_follow_the_stable_ones() -> None:
    """Beta labels are added or corrected."""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "amd64"}
    assert missing_labels(node(labels=labels)) == {"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64"}


@pytest.mark.parametrize(
    ("states", "rate", "is_total"),
    [
        ([True, False], 0.1, False),
        ([False, False], 0.0, True),
        ([True, True, False, False, False, False], 0.0, False),
        ([True] * 20 + [False] * 40, 0.01, False),
        ([True, True, False, False], 0.1, False),
    ],
    ids=["one down", "all down", "many of a small zone", "many of a large zone", "only two"],
)
def test_rate_of_evictions_by_state_of_the_zone(states: list[bool], rate: float, is_total: bool) -> None:
    """The rate falls as more nodes are down, because the cause may be the network."""
    found = zone_states((node(f"n{index}"), is_ready) for index, is_ready in enumerate(states))
    assert (found.rates[""], found.is_total) == (rate, is_total)


def test_zone_that_is_down_alone_is_evicted() -> None:
    """Other zones are up, so our network works. Excluded nodes do not count."""
    zone = "topology.kubernetes.io/zone"
    nodes = [(node("a", labels={zone: "a"}), False), (node("b", labels={zone: "b"}), True)]
    excluded = (node("c", labels={"node.kubernetes.io/exclude-disruption": ""}), False)
    found = zone_states([*nodes, excluded])
    assert (sorted(found.rates.values()), found.is_total) == ([0.1, 0.1], False)


def test_node_is_evicting_if_one_of_its_taints_evicts() -> None:
    """Taints of others, or without execution, do not count."""
    other = {"key": "example.com/other", "effect": "NoExecute"}
    assert is_evicting(node(taints=[other, NOT_READY]))
    assert not is_evicting(node(taints=[other, {**NOT_READY, "effect": "NoSchedule"}]))
    assert not is_evicting(node())


def test_permits_let_one_node_pass_in_ten_seconds() -> None:
    """The limit is per zone; rate zero permits none."""
    permits = ZoneEvictionLimiter()
    asked = [("a", 0.1, 0), ("a", 0.1, 5), ("b", 0.1, 5), ("a", 0.1, 10), ("a", 0.0, 100)]
    assert [permits.take(zone, rate, at=at) for zone, rate, at in asked] == [True, False, True, True, False]


def tolerating(key: str, seconds: int | None) -> Toleration:
    return Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=seconds)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(-5, 500)), max_size=5),
    st.sets(st.sampled_from("abc")),
)
@settings(max_examples=80)
def test_stay_is_the_shortest_that_is_tolerated(pairs: list[tuple[str, int | None]], tainted: set[str]) -> None:
    """The first toleration of each taint counts; an untolerated taint evicts at once."""
    first: dict[str, int | None] = {}
    for key, seconds in pairs:
        first.setdefault(key, seconds)
    found = seconds_to_stay(
        [tolerating(key, seconds) for key, seconds in pairs],
        [Taint(key=key, effect="NoExecute") for key in sorted(tainted)],
    )
    if not tainted <= set(first):
        assert found == 0
    else:
        assert found == min((max(limit, 0) for key in tainted if (limit := first[key]) is not None), default=math.inf)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=12), st.integers(0, 8))
@settings(max_examples=60)
def test_surplus_of_finished_pods_is_the_evicted_and_oldest(ages: list[tuple[bool, int]], threshold: int) -> None:
    """Evicted pods come first, then older ones, down to the threshold."""
    pods = [
        pod(f"p{index}", age=age, phase="Failed", reason="Evicted" if is_evicted else "")
        for index, (is_evicted, age) in enumerate(ages)
    ]
    gone = {each.metadata.name for each in surplus_terminated_pods(pods, threshold)}
    order = [(not is_evicted, age, f"p{index}") for index, (is_evicted, age) in enumerate(ages)]
    expected = sorted(order)[: len(pods) - threshold] if 0 < threshold < len(pods) else []
    assert gone == {name for _, _, name in expected}


def test_pods_that_no_kubelet_ends() -> None:
    """They have no node, or their node is out of service and not ready."""
    out = [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]
    nodes = {"dead": node("dead", Ready="Unknown", taints=out), "back": node("back", Ready="True", taints=out)}
    pods = [pod("none"), pod("dead", node_name="dead"), pod("back", node_name="back"), pod("lost", node_name="lost")]
    assert [each.metadata.name for each in pods_on_out_of_service_nodes(pods, nodes)] == ["dead"]
    assert [each.metadata.name for each in unscheduled_terminating_pods(pods)] == ["none"]


def test_missing_nodes_are_in_quarantine_as_long_as_they_are_missed() -> None:
    """A node that reappears in between starts over."""
    since = quarantined_nodes({}, ["a", "b"], at=0)
    since = quarantined_nodes(since, ["a"], at=20)
    since = quarantined_nodes(since, ["a", "b"], at=30)
    assert (nodes_past_quarantine(since, at=39), nodes_past_quarantine(since, at=40)) == ([], ["a"])


def test_pods_of_a_node_follow_their_changes() -> None:
    """A recreated pod of the same name may be on another node."""
    index = PodsByNode()
    index.put(pod("a", node_name="n1"))
    index.put(pod("b"))
    index.replace(pod("a", node_name="n1"), pod("a", node_name="n2"))
    assert ([each.metadata.name for each in index.on("n2")], list(index.nodes())) == (["a"], ["n2"])
    index.remove(pod("a", node_name="n2"))
    assert list(index.nodes()) == []


def test_condition_is_patched_if_it_is_new_and_keeps_its_time_if_its_status_stays() -> None:
    """The patch also sets the phase if one is given."""
    old = {"type": "Ready", "status": "False", "reason": "R", "lastTransitionTime": CREATED}
    made = pod("a", conditions=[old])
    later = EPOCH + timedelta(hours=1)
    assert condition_patch(made, PodCondition(type="Ready", status="False", reason="R"), later) is None
    patch = condition_patch(made, PodCondition(type="Ready", status="False", reason="S"), later, phase="Failed")
    assert patch == {
        "metadata": {"uid": "a"},
        "status": {
            "phase": "Failed",
            "observedGeneration": 3,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False",
                    "reason": "S",
                    "lastTransitionTime": CREATED,
                    "observedGeneration": 3,
                }
            ],
        },
    }
    turned = condition_patch(made, PodCondition(type="Ready", status="True"), later)
    assert turned is not None
    assert turned["status"]["conditions"][0]["lastTransitionTime"] == format_time(later)


class NoEvents:
    """An event recorder that discards all events."""

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        return None


async def test_pod_whose_kubelet_has_just_spoken_is_not_marked() -> None:
    """The informer may be late: a condition that is False already keeps its time."""
    api, pods = MemoryApi(clock := VirtualClock()), PodIndex()
    controller = NodeLifecycleController(
        client=api, recorder=NoEvents(), leases=ObjectIndex(), pods=pods, pods_by_node=PodsByNode(), clock=clock
    )
    controller.node_added(node(Ready="Unknown"))

    def stored(status: str) -> Pod:
        condition = {"type": "Ready", "status": status, "lastTransitionTime": CREATED}
        shown = pod("a", node_name="n1", phase="Running", conditions=[condition])
        return from_document(api.put(PODS.resource, to_document(shown)), Pod)

    pods.put(stored("True"))
    current = stored("False")
    await asyncio.sleep(60)
    with pytest.raises(Conflict):
        await controller.sync_pod("default/a")
    pods.put(current)
    await controller.sync_pod("default/a")
    (found,) = api.documents(PODS.resource)
    assert found == to_document(current)
    pods.put(stored("True"))
    await controller.sync_pod("default/a")
    (found,) = api.documents(PODS.resource)
    assert found["status"]["conditions"][0]["status"] == "False"


async def test_node_that_was_added_again_waits_for_its_turn_to_be_evicted() -> None:
    """Only one node in ten seconds is tainted for eviction; a permit ends with the node that got it."""
    api = MemoryApi(clock := VirtualClock())
    controller = NodeLifecycleController(
        client=api, recorder=NoEvents(), leases=ObjectIndex(), pods=PodIndex(), pods_by_node=PodsByNode(), clock=clock
    )

    async def taints_after_a_check(*nodes: Node) -> dict[str, list[tuple[str, str]]]:
        for one in nodes:
            controller.node_added(from_document(api.put(NODES.resource, to_document(one)), Node))
        await controller.check()
        for one in nodes:
            await controller.sync_taints(one.metadata.name)
        found = (from_document(document, Node) for document in api.documents(NODES.resource))
        return {one.metadata.name: keys(one.spec.taints) for one in found}

    evicted, held = [("not-ready", "NoExecute"), ("not-ready", "NoSchedule")], [("not-ready", "NoSchedule")]
    broken = node("broken", Ready="False")
    assert await taints_after_a_check(node("fine", Ready="True"), broken) == {"fine": [], "broken": evicted}
    controller.node_deleted(broken)
    await asyncio.sleep(10)
    assert (await taints_after_a_check(node("next", Ready="False")))["next"] == evicted
    assert (await taints_after_a_check(broken))["broken"] == held


async def test_new_pod_of_the_same_name_is_not_evicted_for_the_old_one() -> None:
    """The informer may be late, and an earlier try may have written the condition before."""
    api, pods = MemoryApi(clock := VirtualClock()), PodIndex()
    controller = TaintEvictionController(
        client=api, recorder=NoEvents(), pods=pods, pods_by_node=PodsByNode(), clock=clock
    )
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
    }
    old = pod("a", node_name="n1", conditions=[condition])
    new = to_document(old) | {"metadata": {"name": "a", "namespace": "default", "uid": "new"}}
    api.put(PODS.resource, new)
    pods.put(old)
    controller.node_added(node(taints=[NOT_READY]))
    controller.pod_added(old)
    with pytest.raises(Conflict):
        await controller.sync("default/a")
    (found,) = api.documents(PODS.resource)
    assert (found["metadata"]["uid"], "deletionTimestamp" in found["metadata"]) == ("new", False)
