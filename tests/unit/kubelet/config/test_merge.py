"""Merging of source messages: correct for any order of messages, at a cost of O(changed pods)."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Container, ObjectReference, Pod, PodSpec, PodStatus
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.pods import CONFIG_SEEN, CONFIG_SOURCE, LOCAL_ANNOTATIONS, pod_full_name
from pykubelet.kubelet.config.config import NotificationMode, PodConfig, notifications
from pykubelet.kubelet.config.merge import PodDifference, compare_pods, merge_update, stored_after
from pykubelet.kubelet.types import PodOperation, PodUpdate
from pykubelet.testing.virtual_time import ManualClock

MakePod = Callable[..., Pod]
SEEN = "2026-01-01T00:00:00.000000Z"


class Silent:
    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        pass


PODS = st.builds(
    lambda name, uid, image, phase, label, note, deleted: Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=uid,
            labels=label,
            annotations=note,
            deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None,
        ),
        spec=PodSpec(containers=(Container(name="c", image=image),)),
        status=PodStatus(phase=phase),
    ),
    st.sampled_from("abc"),
    st.sampled_from("1234"),
    st.sampled_from(["v1", "v2"]),
    st.sampled_from(["", "Running"]),
    st.sampled_from([{}, {"l": "1"}]),
    st.sampled_from([{}, {"n": "1"}, {CONFIG_SEEN: "x", CONFIG_SOURCE: "y"}]),
    st.booleans(),
)
OPS = st.sampled_from([op for op in PodOperation if op is not PodOperation.RESTORE])
MESSAGES = st.lists(
    st.tuples(st.sampled_from(["file", "api"]), OPS, st.lists(PODS, max_size=4).map(tuple)), max_size=12
)


def meaning(pod: Pod) -> tuple[Any, ...]:
    """All fields of a pod that its source decides."""
    metadata = pod.metadata
    notes = {key: value for key, value in metadata.annotations.items() if key not in LOCAL_ANNOTATIONS}
    return pod.spec, pod.status, metadata.labels, notes, metadata.deletion_timestamp


def first_of_each_name(pods: tuple[Pod, ...]) -> list[Pod]:
    return list({pod_full_name(pod): pod for pod in reversed(pods)}.values())[::-1]


def told_last(state: dict[str, Any], op: PodOperation, pods: tuple[Pod, ...]) -> dict[str, Any]:
    """Reference implementation: the state that the messages define."""
    if op is PodOperation.REMOVE:
        gone = {pod.metadata.uid for pod in pods}
        return {uid: told for uid, told in state.items() if uid not in gone}
    if op is PodOperation.RECONCILE:
        return state
    # In message order, which the reversal above does not keep: names are few, so order by first position.
    unique = sorted(first_of_each_name(pods), key=pods.index)
    said = {pod.metadata.uid: meaning(pod) for pod in unique}
    return said if op is PodOperation.SET else {**state, **said}


def replayed(content: dict[tuple[str, str], Pod], update: PodUpdate) -> None:
    for pod in update.pods:
        if update.op is PodOperation.REMOVE:
            del content[update.source, pod.metadata.uid]
        else:
            content[update.source, pod.metadata.uid] = pod


@settings(max_examples=200, deadline=None)
@given(messages=MESSAGES)
def test_any_interleaving_ends_in_the_last_inputs(messages: list[tuple[str, PodOperation, tuple[Pod, ...]]]) -> None:
    """The pods equal what the last messages define, and replaying the updates gives the same pods."""
    config = PodConfig(clock=ManualClock(), recorder=Silent())
    defined: dict[str, dict[str, Any]] = {"file": {}, "api": {}}
    content: dict[tuple[str, str], Pod] = {}
    for source, op, pods in messages:
        for update in config.merge(source, PodUpdate(op, source, pods)):
            replayed(content, update)
        defined[source] = told_last(defined[source], op, pods)
    by_source = {
        source: {pod.metadata.uid: meaning(pod) for (from_source, _), pod in content.items() if from_source == source}
        for source in defined
    }
    assert by_source == defined
    assert sorted(map(id, config.pods())) == sorted(map(id, content.values()))
    assert all(pod.metadata.annotations[CONFIG_SOURCE] == source for (source, _), pod in content.items())
    assert all(pod.metadata.annotations[CONFIG_SEEN] == SEEN for pod in content.values())


@settings(max_examples=100, deadline=None)
@given(
    first=st.lists(PODS, max_size=4).map(tuple),
    op=st.sampled_from(PodOperation),
    pods=st.lists(PODS, max_size=4).map(tuple),
)
def test_merge_touches_nothing_it_is_given(first: tuple[Pod, ...], op: PodOperation, pods: tuple[Pod, ...]) -> None:
    """The stored pods and their map do not change; a pod is stored under its own UID."""
    stored = stored_after({}, merge_update({}, PodUpdate(PodOperation.SET, "s", first), source="s", seen_at=SEEN))
    before = dict(stored)
    merged = merge_update(stored, PodUpdate(op, "s", pods), source="s", seen_at=SEEN)
    assert stored == before
    result = stored_after(dict(stored), merged)
    assert all(uid == pod.metadata.uid for uid, pod in result.items())
    uids = [pod.metadata.uid for pod in pods]
    assert all(stored[uid] is pod for uid, pod in result.items() if stored.get(uid) == pod and uids.count(uid) < 2)


class Watched(dict[str, Pod]):
    """A map that counts its lookups and rejects iteration."""

    looks = 0

    def __getitem__(self, uid: str) -> Pod:
        self.looks += 1
        return super().__getitem__(uid)

    def __iter__(self) -> Any:
        raise AssertionError("a change of one pod must not walk over all")

    keys = values = items = __iter__


@pytest.mark.parametrize(
    "op", [PodOperation.ADD, PodOperation.UPDATE, PodOperation.DELETE, PodOperation.REMOVE, PodOperation.RESTORE]
)
def test_one_change_reads_one_pod(op: PodOperation, make_pod: MakePod) -> None:
    """Among a thousand stored pods, only the pod of the message is read."""
    stored = Watched({f"p{number}": make_pod(f"p{number}") for number in range(1000)})
    changed = make_pod("p7", image="v2")
    merged = merge_update(stored, PodUpdate(op, "s", (changed,)), source="s", seen_at=SEEN)
    assert stored.looks <= 1
    result = stored_after(stored, merged)
    assert result is stored
    assert len(result) == (999 if op is PodOperation.REMOVE else 1000)


def test_uid_named_twice_shows_its_last_state_in_both_lists(make_pod: MakePod) -> None:
    """An ADD with two names and one UID; upstream's lists share one object, too."""
    pods = (make_pod("a", "1"), make_pod("b", "1", image="v2"))
    merged = merge_update({}, PodUpdate(PodOperation.ADD, "s", pods), source="s", seen_at=SEEN)
    assert merged.adds == merged.updates == (merged.stored["1"],)
    assert merged.stored["1"].metadata.name == "a"
    assert merged.stored["1"].spec.containers[0].image == "v2"
    merged = merge_update({}, PodUpdate(PodOperation.SET, "s", pods), source="s", seen_at=SEEN)
    assert [pod.metadata.name for pod in merged.adds] == ["a", "b"]
    assert merged.stored["1"] is merged.adds[1]


def test_restore_adds_what_is_unknown_and_marks_nothing(make_pod: MakePod) -> None:
    """Pods of an earlier run come out as RESTORE; the first SET then removes those that no longer exist."""
    config = PodConfig(clock=ManualClock(), recorder=Silent())
    config.channel("api")
    old = make_pod("old", annotations={CONFIG_SEEN: "2025-01-01T00:00:00.000000Z"})
    [update] = config.merge("api", PodUpdate(PodOperation.RESTORE, "api", (old, make_pod("stays"))))
    assert (update.op, [pod.metadata.name for pod in update.pods]) == (PodOperation.RESTORE, ["old", "stays"])
    stamps = [pod.metadata.annotations[CONFIG_SEEN] for pod in update.pods]
    assert stamps == ["2025-01-01T00:00:00.000000Z", SEEN]
    assert not config.seen_all_sources({"api"})
    assert config.merge("api", PodUpdate(PodOperation.RESTORE, "api", (make_pod("old", image="v0"),))) == ()
    told = [
        (update.op, [pod.metadata.name for pod in update.pods])
        for update in config.merge("api", PodUpdate(PodOperation.SET, "api", (make_pod("stays"), make_pod("new"))))
    ]
    assert told == [(PodOperation.REMOVE, ["old"]), (PodOperation.ADD, ["new"])]
    assert config.seen_all_sources({"api"})


@pytest.mark.parametrize("mode", [NotificationMode.SNAPSHOT, NotificationMode.SNAPSHOT_AND_UPDATES])
def test_restore_is_a_snapshot_in_snapshot_modes(mode: NotificationMode, make_pod: MakePod) -> None:
    """In these modes a RESTORE becomes a SET with all pods."""
    merged = merge_update({}, PodUpdate(PodOperation.RESTORE, "s", (make_pod(),)), source="s", seen_at=SEEN)
    [update] = notifications(mode, merged, source="s", first_set=False, everything=lambda: merged.restores)
    assert update == PodUpdate(PodOperation.SET, "s", merged.restores)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({}, PodDifference.NONE),
        ({"phase": "Running"}, PodDifference.STATUS),
        ({"generation": 2}, PodDifference.NONE),
        ({"finalizers": ("f",)}, PodDifference.NONE),
        ({"resource_version": "2"}, PodDifference.NONE),
        ({"labels": {"a": "b"}}, PodDifference.UPDATE),
        ({"annotations": {"a": "b"}, "phase": "Running"}, PodDifference.UPDATE),
        ({"deletion_timestamp": "2026-01-01T00:00:00Z"}, PodDifference.DELETION),
        ({"deletion_timestamp": "2026-01-01T00:00:00Z", "image": "v2"}, PodDifference.DELETION),
        ({"deletion_grace_period_seconds": 1}, PodDifference.UPDATE),
    ],
    ids=str,
)
def test_difference_is_of_the_right_kind(
    change: Mapping[str, Any], difference: PodDifference, make_pod: MakePod
) -> None:
    """Only a status change or a real change yields a new pod."""
    existing, incoming = make_pod(generation=1), make_pod(**{"generation": 1, **change})
    found, pod = compare_pods(existing, incoming)
    assert found is difference
    assert (pod is existing) is (difference is PodDifference.NONE)
    assert meaning(pod) == meaning(incoming)


def test_deletion_time_in_another_form_is_no_difference(make_pod: MakePod) -> None:
    """Deletion times are compared as instants, not as text."""
    existing = make_pod(deletion_timestamp="2026-01-01T00:00:00Z")
    found, _ = compare_pods(existing, make_pod(deletion_timestamp="2026-01-01T02:00:00+02:00"))
    assert found is PodDifference.NONE
