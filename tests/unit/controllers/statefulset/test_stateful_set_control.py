"""The next steps of a StatefulSet, in order and in parallel, and its status."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.apps import (
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetSpec,
    StatefulSetStatus,
    StatefulSetUpdateStrategy,
)
from pykubelet.api.generated.core import PersistentVolumeClaim, Pod, PodCondition, PodStatus
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta
from pykubelet.api.times import format_time
from pykubelet.controllers.statefulset.identity import new_pod, pod_name
from pykubelet.controllers.statefulset.stateful_set import compute_status
from pykubelet.controllers.statefulset.stateful_set_control import (
    StatefulSetPlan,
    StatefulSetState,
    is_of_current_revision,
    plan_update,
)
from pykubelet.testing.virtual_time import EPOCH

MIN_READY = 10
AT = format_time(EPOCH)


def stateful_set(
    replicas: int, *, parallel: bool = False, start: int = 0, partition: int | None = 0, kind: str = "RollingUpdate"
) -> StatefulSet:
    rolling = None if partition is None else RollingUpdateStatefulSetStrategy(partition=partition)
    spec = StatefulSetSpec(
        replicas=replicas,
        min_ready_seconds=MIN_READY,
        ordinals=StatefulSetOrdinals(start=start) if start else None,
        pod_management_policy="Parallel" if parallel else "OrderedReady",
        selector=LabelSelector(match_labels={"app": "web"}),
        update_strategy=StatefulSetUpdateStrategy(type=kind, rolling_update=rolling),
    )
    return StatefulSet(metadata=ObjectMeta(name="web", namespace="ns", uid="u", generation=2), spec=spec)


def pod(one: StatefulSet, ordinal: int, kind: str) -> Pod:
    """A pod of a kind: up, old (up with the old version), ready (not long enough), starting, failed, ended, ending."""
    made = new_pod(one, one.spec.template, ordinal, "old" if kind == "old" else "new")
    since = EPOCH - timedelta(seconds=1 if kind == "ready" else MIN_READY)
    is_ready = kind in ("up", "old", "ready", "ending")
    condition = PodCondition(type="Ready", status=str(is_ready), last_transition_time=format_time(since))
    phase = {"starting": "Pending", "failed": "Failed", "ended": "Succeeded"}.get(kind, "Running")
    metadata = replace(made.metadata, uid=made.metadata.name, deletion_timestamp=AT if kind == "ending" else None)
    return Pod(metadata=metadata, spec=made.spec, status=PodStatus(phase=phase, conditions=(condition,)))


def pods_of(one: StatefulSet, kinds: str) -> list[Pod]:
    """The pods by ordinal; `up - old` is a set with a first and a third pod."""
    start = one.spec.ordinals.start if one.spec.ordinals is not None else 0
    return [pod(one, start + number, kind) for number, kind in enumerate(kinds.split()) if kind != "-"]


def no_claim(_key: str) -> PersistentVolumeClaim | None:
    return None


def planned(one: StatefulSet, pods: list[Pod]) -> StatefulSetPlan:
    return plan_update(
        StatefulSetState(
            stateful_set=one,
            pods=pods,
            claim=no_claim,
            new_pod=lambda ordinal: new_pod(one, one.spec.template, ordinal, "new"),
            update_revision="new",
            now=EPOCH,
        )
    )


def words(made: StatefulSetPlan) -> str:
    steps = [f"{step.action.name.lower()} {step.pod.metadata.name}" for stage in made.stages for step in stage]
    return ", ".join(steps)


IN_TURN: list[tuple[str, int, str, str]] = [
    ("first", 3, "", "create web-0"),
    ("next once the one before is available", 3, "up", "create web-1"),
    ("waits until it is available", 3, "ready", ""),
    ("waits until it is ready", 3, "starting", ""),
    ("waits for one that ends", 3, "ending up up", ""),
    ("fills a gap", 3, "up - up", "create web-1"),
    ("failed", 3, "up failed up", "delete web-1"),
    ("succeeded", 2, "ended up", "delete web-0"),
    ("done", 2, "up up", ""),
    ("shrinks from the end", 1, "up up up", "delete web-2"),
    ("one at a time", 1, "up up ending", ""),
    ("nothing leaves while one is missing", 2, "up - up", "create web-1"),
    ("last one broken, goes", 1, "up up starting", "delete web-2"),
    ("two broken, the last one waits for the other", 1, "up starting starting", ""),
    ("broken before it, it goes", 1, "up starting up", "delete web-2"),
    ("to nothing", 0, "up", "delete web-0"),
    ("update from the end", 2, "old old", "delete web-1"),
    ("next of an update", 2, "old up", "delete web-0"),
    ("update waits until it is available", 2, "old ready", ""),
    ("smaller before newer", 1, "old old", "delete web-1"),
]


@pytest.mark.parametrize(("replicas", "kinds", "expected"), [pytest.param(*row[1:], id=row[0]) for row in IN_TURN])
def test_set_takes_one_step_at_a_time(replicas: int, kinds: str, expected: str) -> None:
    """Pods are created in ascending order, deleted and updated in descending order."""
    one = stateful_set(replicas)
    assert words(planned(one, pods_of(one, kinds))) == expected


PARALLEL: list[tuple[str, int, str, str]] = [
    ("all at once", 3, "", "create web-0, create web-1, create web-2"),
    ("does not wait", 3, "starting - ending", "create web-1"),
    ("failed ones too", 3, "failed up ended", "delete web-0, delete web-2"),
    ("all that are too many", 1, "up up starting", "delete web-2, delete web-1"),
    ("up and down together", 2, "- up up", "create web-0, delete web-2"),
    ("update one by one", 3, "old old old", "delete web-2"),
    ("update waits", 3, "old old ready", ""),
    ("update waits for one that is missing", 3, "old old", "create web-2"),
    ("update waits for one that ends", 3, "old old ending", ""),
    ("smaller and newer", 2, "old old old", "delete web-2, delete web-1"),
]


@pytest.mark.parametrize(("replicas", "kinds", "expected"), [pytest.param(*row[1:], id=row[0]) for row in PARALLEL])
def test_parallel_set_waits_only_to_update(replicas: int, kinds: str, expected: str) -> None:
    """All missing pods are created and all surplus pods deleted at once."""
    one = stateful_set(replicas, parallel=True)
    assert words(planned(one, pods_of(one, kinds))) == expected


@pytest.mark.parametrize(
    ("spec", "kinds", "expected"),
    [
        pytest.param({"partition": 2}, "old old old", "delete web-2", id="behind the partition"),
        pytest.param({"partition": 2}, "old old up", "", id="not before it"),
        pytest.param({"partition": 9}, "old old old", "", id="no pod behind it"),
        pytest.param({"partition": None}, "old old up", "delete web-1", id="no partition"),
        pytest.param({"kind": "OnDelete", "partition": None}, "old old old", "", id="on deletion"),
        pytest.param({"start": 5, "partition": 1}, "old old up", "delete web-6", id="counted from the first"),
        pytest.param({"start": 5}, "up", "create web-6", id="numbers from a start"),
    ],
)
def test_update_keeps_to_its_strategy(spec: dict[str, Any], kinds: str, expected: str) -> None:
    """The set has three replicas."""
    one = stateful_set(3, **spec)
    assert words(planned(one, pods_of(one, kinds))) == expected


def test_new_pod_is_of_the_version_of_its_place() -> None:
    """Pods before the partition, or not replaced yet, keep the current revision."""
    parted = stateful_set(3, start=5, partition=1)
    assert [is_of_current_revision(parted, ordinal) for ordinal in (5, 6)] == [True, False]
    status = StatefulSetStatus(current_replicas=1)
    plain = stateful_set(3, partition=None)
    plain = StatefulSet(metadata=plain.metadata, spec=plain.spec, status=status)
    assert [is_of_current_revision(plain, ordinal) for ordinal in (0, 1)] == [True, False]
    assert not is_of_current_revision(stateful_set(3, partition=None, kind="OnDelete"), 0)


KINDS = st.lists(st.sampled_from(["-", "up", "old", "ready", "starting", "failed", "ending"]), max_size=5)


@settings(deadline=None, max_examples=300)
@given(kinds=KINDS, replicas=st.integers(0, 4), start=st.integers(0, 2), parallel=st.booleans())
def test_plan_never_makes_or_ends_a_pod_twice(kinds: list[str], replicas: int, start: int, parallel: bool) -> None:
    """No existing pod is created, no terminating pod deleted, and an ordered set takes at most one step."""
    one = stateful_set(replicas, start=start, parallel=parallel)
    pods = [pod(one, number, kind) for number, kind in enumerate(kinds) if kind != "-"]
    names = {each.metadata.name: each for each in pods}
    made = planned(one, pods)
    steps = [step for stage in made.stages for step in stage]
    touched = [step.pod.metadata.name for step in steps]
    assert len(set(touched)) == len(touched)
    for step in steps:
        name = step.pod.metadata.name
        if step.action.name == "CREATE":
            assert name not in names
            assert name in {pod_name(one, number) for number in range(start, start + replicas)}
        else:
            assert names[name].metadata.deletion_timestamp is None
    if not parallel:
        assert len(steps) <= 1


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        pytest.param("", (0, 0, 0, 0, 0, "old"), id="none"),
        pytest.param("old old", (2, 2, 2, 2, 0, "old"), id="before"),
        pytest.param("old ready", (2, 2, 1, 1, 1, "old"), id="half"),
        pytest.param("up ending", (2, 2, 2, 0, 1, "old"), id="one ends"),
        pytest.param("up starting", (2, 1, 1, 0, 2, "old"), id="one starts"),
        pytest.param("up ready", (2, 2, 1, 2, 2, "new"), id="complete"),
        pytest.param("up up up", (3, 3, 3, 0, 3, "old"), id="too many"),
    ],
)
def test_status_counts_pods_and_versions(kinds: str, expected: tuple[Any, ...]) -> None:
    """Replicas, ready, available, current and updated; the current revision changes when the update completes."""
    one = stateful_set(2)
    status = compute_status(one, pods_of(one, kinds), "old", "new", EPOCH)
    counts = status.replicas, status.ready_replicas, status.available_replicas
    assert (*counts, status.current_replicas, status.updated_replicas, status.current_revision) == expected
    assert (status.update_revision, status.observed_generation) == ("new", 2)


def test_status_counts_the_pod_that_is_about_to_go() -> None:
    """The number is never below zero, which the server would reject."""
    one = stateful_set(2)
    of_update = [
        compute_status(one, pods_of(one, kinds), "old", "new", EPOCH, is_update=True).current_replicas
        for kinds in ("old old", "up starting")
    ]
    assert of_update == [1, 0]
    waiting = stateful_set(2, kind="OnDelete", partition=None)
    assert compute_status(waiting, pods_of(waiting, "up up"), "old", "new", EPOCH).current_revision == "old"
