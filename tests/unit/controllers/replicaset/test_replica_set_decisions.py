"""Decisions of the ReplicaSet controller: bursts, the pods to delete, and the status."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.apps import ReplicaSet, ReplicaSetSpec
from pykubelet.api.generated.core import Pod, PodCondition, PodSpec, PodStatus, PodTemplateSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.times import format_time
from pykubelet.controllers.framework.active_pods import ready_condition
from pykubelet.controllers.replicaset.replica_set import (
    compute_status,
    pods_to_delete,
    replicas_to_add,
    wanted_replicas,
)
from pykubelet.testing.virtual_time import EPOCH

COUNTS = st.integers(0, 60)
BURSTS = st.integers(1, 20)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    name = f"p{draw(st.integers(0, 10**9))}"
    age = timedelta(seconds=draw(st.integers(0, 10**6)))
    ready = PodCondition(type="Ready", status=draw(st.sampled_from(["True", "False"])))
    ready = replace(ready, last_transition_time=format_time(EPOCH - age) if draw(st.booleans()) else None)
    labels = draw(st.sampled_from([{}, {"a": "1"}, {"a": "1", "b": "2"}]))
    return Pod(
        metadata=ObjectMeta(name=name, uid=name, labels=labels, creation_timestamp=format_time(EPOCH - age)),
        spec=PodSpec(node_name=draw(st.sampled_from(["", "n1", "n2"]))),
        status=PodStatus(phase=draw(st.sampled_from(["Pending", "Running"])), conditions=(ready,)),
    )


PODS = st.lists(pods(), max_size=12, unique_by=lambda pod: pod.metadata.uid)


@settings(deadline=None, max_examples=200)
@given(active=COUNTS, wanted=COUNTS, burst=BURSTS)
def test_change_is_at_most_a_burst_and_leads_to_the_wanted_count(active: int, wanted: int, burst: int) -> None:
    """The number of steps is minimal, and no step overshoots."""
    steps = -(-abs(wanted - active) // burst)
    for _ in range(steps):
        change = replicas_to_add(active, wanted, burst)
        assert 0 < abs(change) <= burst
        assert abs(change) <= abs(wanted - active)
        active += change
    assert active == wanted
    assert replicas_to_add(active, wanted, burst) == 0


@settings(deadline=None, max_examples=200)
@given(found=PODS, data=st.data())
def test_pods_to_delete_are_some_of_the_pods_and_the_least_useful(found: list[Pod], data: st.DataObject) -> None:
    """A ready pod is never deleted before an unready one of the same phase and scheduling state."""
    count = data.draw(st.integers(0, len(found)))
    chosen = pods_to_delete(found, found, count, EPOCH)
    names = {pod.metadata.uid for pod in chosen}
    assert len(names) == len(chosen) == count
    kept = [pod for pod in found if pod.metadata.uid not in names]
    assert len(kept) == len(found) - count
    for gone in chosen if kept else ():
        for stays in kept:
            assert not (gone.spec.node_name and not stays.spec.node_name)
            same = (bool(gone.spec.node_name), gone.status.phase) == (bool(stays.spec.node_name), stays.status.phase)
            assert not (same and ready_condition(gone) and not ready_condition(stays))


@settings(deadline=None, max_examples=200)
@given(found=PODS, wanted=COUNTS, min_ready=st.integers(0, 100), failure=st.sampled_from([None, "no"]))
def test_status_is_consistent_and_does_not_change_when_nothing_does(
    found: list[Pod], wanted: int, min_ready: int, failure: str | None
) -> None:
    """Available pods are ready and ready pods are counted. Computing the status again gives the same."""
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"a": "1"}))
    spec = ReplicaSetSpec(replicas=wanted, template=template, min_ready_seconds=min_ready)
    one = ReplicaSet(metadata=ObjectMeta(generation=3), spec=spec)
    status = compute_status(one, found, terminating=None, failure=failure, now=EPOCH)
    assert 0 <= status.available_replicas <= status.ready_replicas <= status.replicas == len(found)
    assert status.fully_labeled_replicas == sum("a" in pod.metadata.labels for pod in found)
    assert status.observed_generation == 3
    assert len(status.conditions) == (failure is not None)
    again = replace(one, status=status)
    later = EPOCH + timedelta(days=400)
    assert compute_status(again, found, terminating=None, failure=failure, now=EPOCH) == status
    assert compute_status(again, found, terminating=None, failure="other", now=later).conditions == (
        status.conditions
        if failure
        else compute_status(one, found, terminating=None, failure="other", now=later).conditions
    )
    assert compute_status(again, found, terminating=None, failure=None, now=later).conditions == ()


def test_wanted_replicas_default_to_one() -> None:
    """An explicit zero stays zero."""
    assert wanted_replicas(ReplicaSet()) == 1
    assert wanted_replicas(ReplicaSet(spec=ReplicaSetSpec(replicas=0))) == 0
