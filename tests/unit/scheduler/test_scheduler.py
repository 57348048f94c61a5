"""The scheduler: cached sums stay correct, chosen nodes fit, and the queue keeps its order."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.core import Pod
from pykubelet.scheduler.cache import SchedulerCache, new_pod_info
from pykubelet.scheduler.filters import ClusterEvent, run_filters, run_pre_filters
from pykubelet.scheduler.interpodaffinity import affinity_scores
from pykubelet.scheduler.podtopologyspread import HOST_NAME
from pykubelet.scheduler.schedule_one import FitError, schedule_pod
from pykubelet.scheduler.scheduling_queue import LONGEST_WAIT_SECONDS, SchedulingQueue, queue_sort_key
from pykubelet.scheduler.scores import MAX_SCORE, WEIGHTS, prioritize_nodes
from pykubelet.testing.virtual_time import VirtualClock
from scheduler_views import facts, labelled, node, pod, view

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

any_pod = st.builds(
    lambda number, cpu, port, app: pod(
        f"p{number}",
        labels={"app": app},
        containers=[
            {
                "name": "c",
                "ports": [{"containerPort": 1, "hostPort": port}] if port else [],
                "resources": {"requests": {"cpu": f"{cpu}m"}},
            }
        ],
    ),
    st.integers(0, 5),
    st.integers(0, 900),
    st.sampled_from([0, 0, 80, 81]),
    st.sampled_from(["a", "b"]),
)
changes = st.lists(st.tuples(any_pod, st.sampled_from(["", "n1", "n2"])), max_size=25)


@given(changes)
@settings(max_examples=60)
def test_view_is_the_same_however_it_came_about(events: list[tuple[Pod, str]]) -> None:
    """Sums updated incrementally equal those computed from the remaining pods."""
    nodes = [node("n1", allocatable={"cpu": "1"}), node("n2", allocatable={"cpu": "1"})]
    seen, left = view(nodes), dict[str, tuple[Pod, str]]()
    for each, place in events:
        uid = each.metadata.uid
        if place:
            seen.put_pod(each, place)
            left[uid] = each, place
        else:
            assert seen.drop_pod(uid) == (uid in left)
            left.pop(uid, None)
    anew = view(nodes)
    for each, place in left.values():
        anew.put_pod(each, place)
    for name, state in seen.nodes.items():
        other = anew.nodes[name]
        assert state.pods == other.pods
        assert (+state.requested, +state.non_zero_requested) == (+other.requested, +other.non_zero_requested)
        for port in {port for each, _ in events for port in new_pod_info(each).ports}:
            assert state.is_port_taken(port) == other.is_port_taken(port)


@given(changes, any_pod)
@settings(max_examples=60)
def test_choice_fits_and_refusal_means_that_no_node_does(events: list[tuple[Pod, str]], asking: Pod) -> None:
    """The choice does not depend on the order of the nodes."""
    nodes = [node("n1", allocatable={"cpu": "1"}), node("n2", allocatable={"cpu": "2"})]
    seen, turned = view(nodes), view(nodes[::-1])
    for each, place in events:
        if place and each.metadata.uid != asking.metadata.uid:
            seen.put_pod(each, place)
            turned.put_pod(each, place)
    wanted = facts("asking", containers=[{"name": "c", "resources": {"requests": {"cpu": "300m"}}}])
    question = run_pre_filters(wanted, seen)
    fitting = {name for name, state in seen.nodes.items() if run_filters(question, state) is None}
    choice = schedule_pod(wanted, seen)
    assert (choice in fitting) if isinstance(choice, str) else not fitting
    assert schedule_pod(wanted, turned) == choice
    for score in prioritize_nodes(wanted, list(seen.nodes.values()), seen):
        assert 0 <= score <= MAX_SCORE * sum(WEIGHTS.values())


def test_pod_that_is_gone_neither_attracts_nor_repels() -> None:
    """The cache forgets its affinity with it, also when it moves to another node."""
    term = [{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOST_NAME}]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    shy = facts("shy", affinity={"podAntiAffinity": {required: term}})
    fond = facts("fond", affinity={"podAffinity": {required: term}})
    seen = view([node("n1"), node("n2")])
    for one in (shy, fond):
        seen.put_pod(one.pod, "n1")
        seen.put_pod(one.pod, "n2")
    assert [node_info.name for node_info, _ in seen.pods_with_required_anti_affinity.values()] == ["n2"]
    assert [node_info.name for node_info, _ in seen.pods_with_affinity.values()] == ["n2"]
    for one in (shy, fond):
        assert seen.drop_pod(one.pod.metadata.uid)
    assert not seen.pods_with_required_anti_affinity
    assert not seen.pods_with_affinity


def wish(weight: int) -> list[dict[str, Any]]:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOST_NAME}
    return [{"weight": weight, "podAffinityTerm": term}]


@pytest.mark.parametrize(
    ("affinity", "best"),
    [
        ({"podAffinity": {PREFERRED: wish(10)}}, "n2"),
        ({"podAntiAffinity": {PREFERRED: wish(10)}}, "n1"),
        (
            {
                "nodeAffinity": {
                    PREFERRED: [
                        {
                            "weight": 50,
                            "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
                        }
                    ]
                }
            },
            "n3",
        ),
        ({}, "n1"),
    ],
    ids=["near", "away", "node", "none"],
)
def test_preferences_decide_among_nodes_that_fit(affinity: dict[str, Any], best: str) -> None:
    """One node has a matching pod, one a matching label, one a PreferNoSchedule taint."""
    labels = {"n3": {"disk": "ssd"}}
    nodes = [node(name, labels={HOST_NAME: name, **labels.get(name, {})}) for name in ("n1", "n2", "n3")]
    nodes.append(node("n0", labels={HOST_NAME: "n0"}, taints=[{"key": "a", "effect": "PreferNoSchedule"}]))
    seen = view(nodes, {"n2": labelled(1, "web", app="web")})
    assert schedule_pod(facts(affinity=affinity), seen) == best


def test_affinity_preferences_of_existing_pods_count() -> None:
    """Affinity and anti-affinity count, and a required term of an existing pod counts a little."""
    required = [{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOST_NAME}]
    nodes = [node(name, labels={HOST_NAME: name}) for name in ("demands", "likes", "shuns", "empty")]
    pods = {
        "demands": [pod("a", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})],
        "likes": [pod("b", affinity={"podAffinity": {PREFERRED: wish(3)}})],
        "shuns": [pod("c", affinity={"podAntiAffinity": {PREFERRED: wish(1)}})],
    }
    seen = view(nodes, pods)
    asking = facts(labels={"app": "web"})
    assert affinity_scores(asking, list(seen.nodes.values()), seen) == [50, 100, 0, 25]


def test_nodes_and_images_that_go_leave_nothing_behind() -> None:
    """The cache may know a pod before its node and after it."""
    seen = SchedulerCache()
    seen.put_pod(pod("early"), "n1")
    assert isinstance(schedule_pod(facts(), seen), FitError)
    seen.put_node(node("n1", images={"example/a:1": 5}))
    assert (len(seen.nodes["n1"].pods), seen.image_nodes) == (1, Counter({"example/a:1": 1}))
    seen.put_node(node("n1", images={"example/b:1": 5}))
    assert seen.image_nodes == Counter({"example/b:1": 1})
    seen.drop_node("n1")
    assert (dict(seen.nodes), seen.image_nodes) == ({}, Counter())
    assert seen.drop_pod("uid-default-early")


def created(name: str, second: int, priority: int = 0) -> Pod:
    made = pod(name, priority=priority)
    return replace(made, metadata=replace(made.metadata, creation_timestamp=f"2026-01-01T00:00:{second:02}Z"))


@given(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 59)), max_size=8))
@settings(max_examples=60)
def test_urgency_orders_by_priority_then_age(pairs: list[tuple[int, int]]) -> None:
    """The priorities and ages are arbitrary."""
    pods = [created(f"p{index}", second, priority) for index, (priority, second) in enumerate(pairs)]
    ordered = sorted(pods, key=queue_sort_key)
    keys = [(-(each.spec.priority or 0), each.metadata.creation_timestamp) for each in ordered]
    assert keys == sorted(keys)


async def test_unschedulable_pods_return_on_a_helpful_event_after_their_backoff() -> None:
    """Without a helpful event they return after five minutes."""
    clock = VirtualClock()
    pending = SchedulingQueue(clock)
    pods = {name: created(name, second) for second, name in enumerate(("room", "node"))}
    times: dict[str, list[float]] = {"default/room": [], "default/node": []}
    for each in pods.values():
        pending.add(each)
    for _ in range(6):
        key = await pending.get()
        times[key].append(clock.monotonic())
        name = key.removeprefix("default/")
        pending.add_unschedulable(
            pods[name], frozenset({ClusterEvent.POD_REMOVED} if name == "room" else {ClusterEvent.NODE})
        )
        pending.done(key)
        if name == "room":
            pending.move_on_event(ClusterEvent.POD_REMOVED)
    assert times["default/room"] == [0, 1, 3, 7, 15]
    assert times["default/node"] == [0]
    async with asyncio.timeout(LONGEST_WAIT_SECONDS):
        pending.delete("default/room")
        assert await pending.get() == "default/node"
    assert clock.monotonic() == LONGEST_WAIT_SECONDS
