"""The rolling update of a DaemonSet: limits, order, and availability with maxSurge."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.apps import DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, RollingUpdateDaemonSet
from pykubelet.api.generated.core import Node, NodeSpec, Pod, PodCondition, PodSpec, PodStatus, Taint
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheduling import NodeFit
from pykubelet.api.times import format_time
from pykubelet.controllers.daemon.placement import DaemonPodRevision, SurgePolicy, max_surge, max_unavailable, plan_node
from pykubelet.controllers.daemon.update import DaemonPodChanges, plan_rolling_update
from pykubelet.controllers.framework.active_pods import is_pod_available
from pykubelet.testing.virtual_time import EPOCH

NEW = DaemonPodRevision("new")
MIN_READY = 10
AT = format_time(EPOCH)


def daemon_set(surge: int | str = 0, unavailable: int | str = 0, kind: str = "RollingUpdate") -> DaemonSet:
    rolling = RollingUpdateDaemonSet(max_surge=surge, max_unavailable=unavailable)
    strategy = DaemonSetUpdateStrategy(type=kind, rolling_update=rolling)
    return DaemonSet(spec=DaemonSetSpec(min_ready_seconds=MIN_READY, update_strategy=strategy))


def node(name: str, *, wanted: bool = True) -> Node:
    taints = () if wanted else (Taint(key="k", effect="NoSchedule"),)
    return Node(metadata=ObjectMeta(name=name), spec=NodeSpec(taints=taints))


def pod(name: str, version: str, *, up: bool = True, ready: bool = True, **meta: Any) -> Pod:
    """A pod of a version; `up` means available, not only ready."""
    since = EPOCH - timedelta(seconds=MIN_READY if up else 1)
    condition = PodCondition(
        type="Ready", status="True" if up or ready else "False", last_transition_time=format_time(since)
    )
    return Pod(
        metadata=ObjectMeta(name=name, uid=name, labels={"controller-revision-hash": version}, **meta),
        spec=PodSpec(node_name="n"),
        status=PodStatus(phase="Running", conditions=(condition,)),
    )


KINDS: dict[str, list[Pod]] = {
    "": [],
    "old": [pod("old", "old")],
    "down": [pod("down", "old", up=False, ready=False)],
    "new": [pod("new", "new")],
    "starting": [pod("starting", "new", up=False)],
    "surging": [pod("before", "old"), pod("after", "new", up=False)],
    "surged": [pod("before", "old"), pod("after", "new")],
    "ending": [pod("ending", "old", deletion_timestamp=AT)],
    "crowded": [pod("one", "old"), pod("two", "old")],
}


def step(surge: int | str, unavailable: int | str, *kinds: str) -> tuple[list[str], list[str]]:
    """Nodes that get a pod, and pods that are deleted; a kind with a `-` is on a node that should not run a pod."""
    names = [f"n{number}" for number in range(len(kinds))]
    nodes = [node(name, wanted=not kind.startswith("-")) for name, kind in zip(names, kinds, strict=True)]
    by_node = {name: KINDS[kind.removeprefix("-")] for name, kind in zip(names, kinds, strict=True) if kind}
    made = plan_rolling_update(daemon_set(surge, unavailable), nodes, by_node, NEW, EPOCH)
    return list(made.create), [one.metadata.name for one in made.delete]


@pytest.mark.parametrize(
    ("unavailable", "kinds", "deleted"),
    [
        pytest.param(1, ("new", "new"), [], id="done"),
        pytest.param(1, ("old", "old"), ["old"], id="one at a time"),
        pytest.param("50%", ("old", "old", "old"), ["old", "old"], id="a share, rounded up"),
        pytest.param(1, ("old", "starting"), [], id="waits for a new pod"),
        pytest.param(2, ("old", "starting"), ["old"], id="room for one more"),
        pytest.param(1, ("old", "down", "down"), ["down", "down"], id="broken ones go in any case"),
        pytest.param(1, ("old", "ending"), [], id="one is on its way out"),
        pytest.param(1, ("old", "crowded"), [], id="cleared up first"),
        pytest.param(1, ("old", "surged"), [], id="two pods count as none"),
        pytest.param(1, ("old", ""), [], id="node without a pod"),
        pytest.param(0, ("old", "old"), ["old"], id="never stands still"),
    ],
)
def test_replacing_keeps_to_the_bound(unavailable: int | str, kinds: tuple[str, ...], deleted: list[str]) -> None:
    """The plan creates no pods here, because nodes without a pod get one anyway."""
    assert step(0, unavailable, *kinds) == ([], deleted)


@pytest.mark.parametrize(
    ("surge", "kinds", "expected"),
    [
        pytest.param(1, ("old", "old"), (["n0"], []), id="one at a time"),
        pytest.param("100%", ("old", "old"), (["n0", "n1"], []), id="all at once"),
        pytest.param(1, ("old", "surging"), ([], []), id="waits for the new pod"),
        pytest.param(1, ("old", "surged"), (["n0"], ["before"]), id="the old one goes, the next begins"),
        pytest.param(1, ("down", "down", "old"), (["n0", "n1", "n2"], []), id="broken ones do not count"),
        pytest.param(1, ("old", "crowded"), ([], []), id="cleared up first"),
        pytest.param(1, ("new", "starting", ""), ([], []), id="nothing to do"),
        pytest.param(1, ("-old", "starting"), ([], []), id="leaves when there is enough without it"),
        pytest.param(1, ("-old", "new"), ([], ["old"]), id="there is enough without it"),
        pytest.param(1, ("-down", "starting"), ([], ["down"]), id="is of no use"),
    ],
)
def test_surging_leaves_no_gap(surge: int | str, kinds: tuple[str, ...], expected: tuple[list[str], list[str]]) -> None:
    """The expected values are the nodes that get a second pod, and the old pods to delete."""
    assert step(surge, 0, *kinds) == expected


@settings(deadline=None, max_examples=200)
@given(
    kinds=st.lists(st.sampled_from(sorted(KINDS)), max_size=6), surge=st.integers(0, 3), unavailable=st.integers(1, 3)
)
def test_update_never_makes_more_unavailable_than_allowed(kinds: list[str], surge: int, unavailable: int) -> None:
    """Without surge, available pods are deleted within maxUnavailable; with surge, none becomes unavailable."""
    by_node = {f"n{number}": [_renamed(one, number) for one in KINDS[kind]] for number, kind in enumerate(kinds)}
    nodes = [node(name) for name in by_node]
    made = plan_rolling_update(daemon_set(surge, 0 if surge else unavailable), nodes, by_node, NEW, EPOCH)
    assert all(not NEW.matches(one) and one.metadata.deletion_timestamp is None for one in made.delete)
    assert not any(NEW.matches(one) for name in made.create for one in by_node[name])
    assert surge or not made.create

    def up(pods: list[Pod]) -> bool:
        return any(is_pod_available(one, MIN_READY, EPOCH) for one in pods if one.metadata.deletion_timestamp is None)

    before = sum(up(pods) for pods in by_node.values())
    after = sum(up([one for one in pods if one not in made.delete]) for pods in by_node.values())
    assert before - after <= (0 if surge else max(0, unavailable - (len(kinds) - before)))


def _renamed(one: Pod, number: int) -> Pod:
    name = f"{one.metadata.name}-{number}"
    return replace(one, metadata=replace(one.metadata, name=name, uid=name))


def test_bounds_are_of_a_rolling_update() -> None:
    """Percentages are rounded up; with OnDelete the limits are zero."""
    assert (max_surge(daemon_set("30%"), 4), max_unavailable(daemon_set(0, "30%"), 4)) == (2, 2)
    assert (max_surge(daemon_set(2, 2, "OnDelete"), 4), max_unavailable(daemon_set(2, 2, "OnDelete"), 4)) == (0, 0)
    assert max_surge(DaemonSet(), 1) == 0
    assert plan_rolling_update(daemon_set(), (), {}, NEW, EPOCH) == DaemonPodChanges()


@pytest.mark.parametrize(
    ("pods", "create", "surplus"),
    [
        pytest.param(KINDS["ending"], True, [], id="ending: a new one at once"),
        pytest.param(KINDS["old"], False, [], id="one"),
        pytest.param(KINDS["surging"], False, [], id="both, for now"),
        pytest.param(KINDS["surged"], False, ["before"], id="new one available"),
        pytest.param([*KINDS["down"], *KINDS["starting"]], False, ["down"], id="old one not ready"),
        pytest.param([*KINDS["crowded"], *KINDS["starting"]], False, ["two"], id="one old too many"),
        pytest.param([*KINDS["new"], *KINDS["starting"]], False, ["starting"], id="one new too many"),
    ],
)
def test_surging_node_may_have_two_pods(pods: list[Pod], create: bool, surplus: list[str]) -> None:
    """A new and an old pod coexist while the old one is ready and the new one is not yet available."""
    plan = plan_node(NodeFit(True, True), pods, may_kill_failed=True, surge=SurgePolicy(NEW, MIN_READY, EPOCH))
    assert (plan.create, [one.metadata.name for one in plan.surplus]) == (create, surplus)
