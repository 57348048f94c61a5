"""The sizes of ReplicaSets stay within the limits, and the new revision completes, in any order of events."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.apps import (
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdateDeployment,
)
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.controllers.deployment.replica_sets import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    desired_replicas,
    max_replicas,
    min_available,
)
from pykubelet.controllers.deployment.rolling import (
    ReplicaSetScale,
    grown_size,
    is_scaling_event,
    rolling_plan,
    scale_plan,
)
from pykubelet.controllers.replicaset.replica_set import wanted_replicas

BOUNDS = st.one_of(st.integers(0, 6), st.integers(0, 100).map(lambda percent: f"{percent}%"))


def deployment(replicas: int, surge: int | str, unavailable: int | str) -> Deployment:
    rolling = RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable)
    strategy = DeploymentStrategy(type="RollingUpdate", rolling_update=rolling)
    return Deployment(spec=DeploymentSpec(replicas=replicas, strategy=strategy))


def replica_set(
    name: str, replicas: int, annotations: Mapping[str, str] | None = None, available: int = 0
) -> ReplicaSet:
    return ReplicaSet(
        metadata=ObjectMeta(name=name, annotations=annotations or {}),
        spec=ReplicaSetSpec(replicas=replicas),
        status=ReplicaSetStatus(replicas=replicas, available_replicas=available),
    )


class Model:
    """A rollout between v0 and v1 of pods that are available or not.

    A ReplicaSet's status is from before its last step.
    """

    def __init__(self, of: Deployment) -> None:
        self.of = of
        size = desired_replicas(of)
        self.pods = {"v0": [True] * size}
        self.sets = {"v0": replica_set("v0", size, available=size)}
        self.new = "v0"

    def roll_to(self, name: str) -> None:
        self.new = name
        if name not in self.sets:
            old = tuple(self.sets.values())
            self.pods[name], self.sets[name] = [], replica_set(name, 0)
            self.resize(ReplicaSetScale(name, grown_size(self.of, 0, old)))

    def resize(self, step: ReplicaSetScale) -> None:
        one = self.sets[step.name]
        metadata = replace(one.metadata, generation=one.metadata.generation + 1)
        self.sets[step.name] = replace(one, metadata=metadata, spec=replace(one.spec, replicas=step.replicas))

    def step(self) -> None:
        """One sync of the Deployment controller."""
        old = [one for name, one in self.sets.items() if name != self.new]
        for step in rolling_plan(self.of, self.sets[self.new], old):
            self.resize(step)

    def report(self, name: str) -> None:
        """A sync of the ReplicaSet controller that only updates the status, because its expectations are pending."""
        one, pods = self.sets[name], self.pods[name]
        status = ReplicaSetStatus(
            replicas=len(pods), available_replicas=sum(pods), observed_generation=one.metadata.generation
        )
        self.sets[name] = replace(one, status=status)

    def run_set(self, name: str) -> None:
        """A sync of the ReplicaSet controller: unavailable pods are deleted first, and the status is from before."""
        self.report(name)
        one, pods = self.sets[name], self.pods[name]
        kept = sorted(pods, reverse=True)[: wanted_replicas(one)]
        self.pods[name] = kept + [False] * (wanted_replicas(one) - len(kept))

    def make_available(self, name: str) -> None:
        self.pods[name] = [True, *sorted(self.pods[name], reverse=True)][: len(self.pods[name])]

    def check(self) -> None:
        pods = [pod for found in self.pods.values() for pod in found]
        assert min_available(self.of) <= sum(pods)
        assert len(pods) <= max_replicas(self.of)


SETS = ("v0", "v1")
ACTIONS = st.lists(
    st.sampled_from(["step"] * 3 + [f"{word} {name}" for word in ("run", "report", "ready", "to") for name in SETS]),
    min_size=30,
    max_size=80,
)


@settings(deadline=None, max_examples=200)
@given(replicas=st.integers(0, 12), surge=BOUNDS, unavailable=BOUNDS, actions=ACTIONS)
def test_limits_hold_and_the_new_version_gets_there(
    replicas: int, surge: int | str, unavailable: int | str, actions: list[str]
) -> None:
    """Enough pods are available and no more than the limit exist at each step; in the end all have the new version."""
    model = Model(deployment(replicas, surge, unavailable))
    for action in actions:
        match action.split():
            case ["run", name] if name in model.sets:
                model.run_set(name)
            case ["report", name] if name in model.sets:
                model.report(name)
            case ["ready", name] if name in model.sets:
                model.make_available(name)
            case ["to", name]:
                model.roll_to(name)
            case ["step"]:
                model.step()
        model.check()
    for _ in range(4 * replicas + 8):
        model.step()
        for name in model.sets:
            model.run_set(name)
            model.make_available(name)
            model.check()
    assert {name: len(pods) for name, pods in model.pods.items() if pods} == ({model.new: replicas} if replicas else {})


SIZES = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 20), min_size=2)


@given(before=st.integers(1, 60), after=st.integers(0, 60), surge=BOUNDS, sizes=SIZES)
def test_change_of_size_is_shared_out_exactly(before: int, after: int, surge: int | str, sizes: dict[str, int]) -> None:
    """The new sizes add up to the allowed number of pods, unless a ReplicaSet reaches zero."""
    old, new = deployment(before, surge, 1), deployment(after, surge, 1)
    noted = {DESIRED_REPLICAS: str(before), MAX_REPLICAS: str(max_replicas(old))}
    sets = [replica_set(name, size, noted) for name, size in sizes.items()]
    planned = scale_plan(new, None, sets)
    assert {step.name for step in planned} == set(sizes)
    assert all(step.replicas >= 0 for step in planned)
    total = sum(step.replicas for step in planned)
    assert total == (max_replicas(new) if after else 0) or any(step.replicas == 0 for step in planned)
    assert is_scaling_event(new, sets) == (before != after)


@pytest.mark.parametrize(
    ("before", "after", "sizes", "expected"),
    [
        (10, 20, {"a": 5, "b": 3, "c": 2}, {"a": 10, "b": 6, "c": 4}),
        # 6.5 rounds up, and nothing is left for the last.
        (10, 13, {"a": 5, "b": 3, "c": 2}, {"a": 7, "b": 4, "c": 2}),
        (10, 4, {"a": 5, "b": 3, "c": 2}, {"a": 2, "b": 1, "c": 1}),
        (10, 0, {"a": 5, "b": 3, "c": 2}, {"a": 0, "b": 0, "c": 0}),
        # Of sets of the same size, the newer grows and the older shrinks.
        (6, 7, {"a": 3, "b": 3}, {"a": 3, "b": 4}),
        (6, 5, {"a": 3, "b": 3}, {"a": 2, "b": 3}),
    ],
)
def test_sizes_change_in_proportion(before: int, after: int, sizes: dict[str, int], expected: dict[str, int]) -> None:
    """The sets are named in the order of their age."""
    noted = {DESIRED_REPLICAS: str(before), MAX_REPLICAS: str(before)}
    made = [replica_set(name, size, noted) for name, size in sizes.items()]
    sets = [
        replace(one, metadata=replace(one.metadata, creation_timestamp=f"2026-01-01T00:00:0{number}Z"))
        for number, one in enumerate(made)
    ]
    planned = scale_plan(deployment(after, 0, 1), None, sets)
    assert {step.name: step.replicas for step in planned} == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # Six of eight must be available: an unavailable pod goes first, then the oldest set as far as possible.
        ([(3, 2), (2, 2)], (5, 4), [("v0", 2), ("v0", 0)]),
        ([(3, 2), (2, 2)], (3, 3), [("v0", 2), ("v0", 1)]),
        ([(3, 0), (2, 0)], (5, 4), [("v0", 0)]),
        ([(3, 3), (2, 2)], (5, 1), []),
        ([(3, 3), (2, 2)], (5, 2), [("v0", 2)]),
        ([(1, 1), (1, 1)], (8, 8), [("v0", 0), ("v1", 0)]),
        # A pod that a pending scale-down will delete does not count as available.
        ([(1, 3), (2, 2)], (5, 4), [("v0", 0)]),
    ],
)
def test_old_sets_shrink_as_far_as_availability_permits(
    old: list[tuple[int, int]], new: tuple[int, int], expected: list[tuple[str, int]]
) -> None:
    """Each set has a size and a number of available pods."""
    sets = [replica_set(f"v{number}", size, available=available) for number, (size, available) in enumerate(old)]
    current = replica_set("new", new[0], available=new[1])
    steps = rolling_plan(deployment(8, 0, 2), current, sets)
    assert [(step.name, step.replicas) for step in steps if step.name != "new"] == expected
