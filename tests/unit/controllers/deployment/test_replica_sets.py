"""Decisions of the Deployment controller: templates, names, revisions, history, conditions and counts."""

from datetime import timedelta
from math import ceil, floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.apps import (
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetCondition,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdateDeployment,
)
from pykubelet.api.generated.core import Container, PodSpec, PodTemplateSpec
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta
from pykubelet.api.labels import selector_from_object
from pykubelet.api.quantity import scaled_int_or_percent
from pykubelet.api.times import format_time
from pykubelet.controllers.deployment import progress as conditions
from pykubelet.controllers.deployment.progress import (
    PROGRESSING,
    deployment_condition,
    pod_counts,
    progressing_condition,
    rollout_status,
    with_condition,
)
from pykubelet.controllers.deployment.replica_sets import (
    DESIRED_REPLICAS,
    HISTORY_LENGTH,
    REVISION,
    REVISION_HISTORY,
    active_or_latest,
    find_new_replica_set,
    new_replica_set,
    next_revision,
    set_name,
    size_annotation,
    version_annotations,
)
from pykubelet.controllers.deployment.rolling import is_scaling_event, recreate_plan, scale_plan
from pykubelet.testing.virtual_time import EPOCH

WORDS = st.text("abcdefghij", min_size=1, max_size=5)
LABELS = st.dictionaries(WORDS, WORDS, min_size=1, max_size=3)


def deployment(image: str = "one", *, labels: dict[str, str] | None = None, **spec: Any) -> Deployment:
    labels = labels or {"app": "web"}
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=(Container(name="c", image=image),))
    )
    rolling = DeploymentStrategy(type="RollingUpdate", rolling_update=RollingUpdateDeployment(max_surge=1))
    fields = {"replicas": 3, "strategy": rolling, "template": template, "progress_deadline_seconds": 60, **spec}
    selector = LabelSelector(match_labels=labels)
    metadata = ObjectMeta(name="web", namespace="default", uid="uid")
    return Deployment(metadata=metadata, spec=DeploymentSpec(selector=selector, **fields))


def replica_set(
    name: str, replicas: int = 0, status: ReplicaSetStatus | None = None, annotations: dict[str, str] | None = None
) -> ReplicaSet:
    return ReplicaSet(
        metadata=ObjectMeta(name=name, annotations=annotations or {}),
        spec=ReplicaSetSpec(replicas=replicas),
        status=status or ReplicaSetStatus(),
    )


@given(percent=st.integers(0, 200), total=st.integers(0, 10_000))
def test_percentage_is_rounded_up_or_down(percent: int, total: int) -> None:
    """The results match Go's float rounding, computed with integers."""
    assert scaled_int_or_percent(f"{percent}%", total, round_up=True) == ceil(percent * total / 100)
    assert scaled_int_or_percent(f"{percent}%", total, round_up=False) == floor(percent * total / 100)
    assert scaled_int_or_percent(percent, total, round_up=True) == percent


@given(labels=LABELS, image=WORDS, other=WORDS, collisions=st.none() | st.integers(0, 2**31 - 1))
def test_new_set_is_found_again_and_selects_its_pods(
    labels: dict[str, str], image: str, other: str, collisions: int | None
) -> None:
    """The ReplicaSet is found by its template, not by its name."""
    one = replace(deployment(image, labels=labels), status=DeploymentStatus(collision_count=collisions))
    made = new_replica_set(one, replicas=2, annotations={})
    assert selector_from_object(made.spec.selector).matches(made.spec.template.metadata.labels)
    assert selector_from_object(one.spec.selector).matches(made.metadata.labels)
    assert find_new_replica_set(one, [made]) is made
    twin = replace(made, metadata=replace(made.metadata, creation_timestamp="2026-01-01T00:00:00Z"))
    assert find_new_replica_set(one, [twin, made]) is made
    found = find_new_replica_set(deployment(other, labels=labels), [made])
    assert (found is made) == (image == other)


@given(name=st.text("abc", min_size=1, max_size=253), hashed=st.text("bcd", min_size=1, max_size=10))
def test_name_of_a_set_fits_and_keeps_the_hash(name: str, hashed: str) -> None:
    """A long Deployment name is cut."""
    made = set_name(name, hashed)
    assert len(made) <= 253
    assert made.endswith(f"-{hashed}")
    assert name.startswith(made.removesuffix(f"-{hashed}"))


@given(
    former=st.none() | st.integers(0, 10**6).map(str) | st.just("odd"),
    revision=st.integers(1, 10**6),
    history=st.lists(st.integers(1, 10**6).map(str), max_size=600).map(",".join),
    given=st.dictionaries(WORDS, WORDS, max_size=3),
)
def test_revision_of_the_new_set_never_goes_down(
    former: str | None, revision: int, history: str, given: dict[str, str]
) -> None:
    """The history keeps the latest former revisions.

    The Deployment's annotations are copied, except those that controllers and kubectl own.
    """
    own = {REVISION: "77", DESIRED_REPLICAS: "9", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    one = replace(deployment(), metadata=ObjectMeta(annotations=own | given))
    history = history[-HISTORY_LENGTH:].lstrip(",")
    present = {} if former is None else {REVISION: former} | ({REVISION_HISTORY: history} if history else {})
    wanted = version_annotations(one, present, revision)
    if former == "odd":
        assert wanted == present
        return
    assert wanted.items() >= given.items()
    assert wanted[REVISION] == str(max(revision, int(former or 0)))
    assert not own.keys() & wanted.keys() - {REVISION}
    kept = wanted.get(REVISION_HISTORY, "")
    assert len(kept) <= HISTORY_LENGTH
    if former is not None and int(former) < revision:
        assert kept.split(",")[-1] == former
        assert f"{history},{former}".endswith(kept)
    assert version_annotations(one, wanted, revision) == wanted


def test_history_forgets_the_first_revisions_when_it_is_full() -> None:
    former = ",".join(str(number) for number in range(1000, 1400))
    wanted = version_annotations(deployment(), {REVISION: "1400", REVISION_HISTORY: former}, 1401)
    kept = wanted[REVISION_HISTORY].split(",")
    assert (kept[0], kept[-1], len(kept)) == ("1001", "1400", 400)


@pytest.mark.parametrize(
    ("revisions", "expected"), [([], 1), (["3", "1"], 4), (["x", "2"], 3), (["-5"], 1), (["9" * 30], 1)]
)
def test_next_revision_is_above_all_old_ones(revisions: list[str], expected: int) -> None:
    """Revisions that are not numbers are ignored."""
    assert next_revision([replica_set("a", annotations={REVISION: revision}) for revision in revisions]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("12", 12),
        (str(2**31 - 1), 2**31 - 1),
        (str(2**31), None),
        ("-1", None),
        ("+1", None),
        ("", None),
        ("²", None),
    ],
)
def test_size_annotation_is_a_number_of_31_bits(text: str, expected: int | None) -> None:
    """Any other value counts as absent."""
    one = replica_set("a", 1, annotations={DESIRED_REPLICAS: text})
    assert size_annotation(one, DESIRED_REPLICAS) == expected
    assert is_scaling_event(deployment(replicas=12), [one]) == (expected not in {None, 12})


CONDITIONS = st.lists(
    st.tuples(st.sampled_from(["True", "False", "Unknown"]), st.sampled_from(["A", "B"])), min_size=1, max_size=6
)


@given(said=CONDITIONS)
def test_condition_remembers_when_its_status_and_when_its_reason_changed(said: list[tuple[str, str]]) -> None:
    """An unchanged condition keeps both times."""
    status, changed, updated = DeploymentStatus(), EPOCH, EPOCH
    last: tuple[str, str] | None = None
    for number, (value, reason) in enumerate(said):
        now = EPOCH + timedelta(seconds=number)
        if last is None or last[0] != value:
            changed = now
        if last != (value, reason):
            updated = now
        last = (value, reason)
        status = with_condition(status, progressing_condition(value, reason, "message", now))
        (found,) = status.conditions
        assert (found.status, found.reason) == last
        assert (found.last_transition_time, found.last_update_time) == (format_time(changed), format_time(updated))
    assert conditions.without_condition(status, PROGRESSING).conditions == ()


@pytest.mark.parametrize(
    ("paused", "reason", "deadline", "expected"),
    [
        pytest.param(True, "ReplicaSetUpdated", 60, "DeploymentPaused", id="paused"),
        pytest.param(True, "", 60, "DeploymentPaused", id="paused from the start"),
        pytest.param(True, "DeploymentPaused", 60, "DeploymentPaused", id="paused before"),
        pytest.param(False, "DeploymentPaused", 60, "DeploymentResumed", id="resumed"),
        pytest.param(False, "ReplicaSetUpdated", 60, "ReplicaSetUpdated", id="never paused"),
        pytest.param(True, "ProgressDeadlineExceeded", 60, "ProgressDeadlineExceeded", id="given up before"),
        pytest.param(True, "ReplicaSetUpdated", None, "ReplicaSetUpdated", id="nobody asks for progress"),
    ],
)
def test_pause_sets_progressing_to_unknown(paused: bool, reason: str, deadline: int | None, expected: str) -> None:
    """Resumption does so, too, so that the progress deadline counts from then."""
    known = (progressing_condition("True", reason, "", EPOCH),) if reason else ()
    one = deployment(paused=paused, progress_deadline_seconds=deadline)
    status = conditions.with_pause(replace(one, status=DeploymentStatus(conditions=known)), EPOCH)
    found = deployment_condition(status, PROGRESSING)
    assert found is not None
    assert found.reason == expected
    assert (found.status == "Unknown") == (expected != reason)


@given(counts=st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=4), has_new=st.booleans())
def test_counts_are_sums_over_all_sets(counts: list[tuple[int, int, int]], has_new: bool) -> None:
    """The number of unavailable pods is never below zero."""
    sets = [
        replica_set(
            str(number), wanted, ReplicaSetStatus(replicas=actual, ready_replicas=good, available_replicas=good)
        )
        for number, (wanted, actual, good) in enumerate(counts)
    ]
    new, old = (sets[0], sets[1:]) if has_new else (None, sets)
    status = pod_counts(deployment(), new, old, EPOCH)
    assert status.replicas == sum(one.status.replicas for one in sets)
    assert status.updated_replicas == (sets[0].status.replicas if has_new else 0)
    assert status.available_replicas == status.ready_replicas == sum(good for _, _, good in counts)
    assert status.unavailable_replicas == max(sum(wanted for wanted, _, _ in counts) - status.available_replicas, 0)
    found = deployment_condition(status, conditions.AVAILABLE)
    assert found is not None
    assert (found.status == "True") == (status.available_replicas >= 3)


def test_replica_failure_condition_is_copied_and_removed() -> None:
    """The condition of the new ReplicaSet comes before that of an old one."""
    at = "2026-01-01T00:00:00Z"
    failed = ReplicaSetCondition(
        type="ReplicaFailure", status="True", reason="FailedCreate", message="quota", last_transition_time=at
    )
    other = replace(failed, message="old")
    new = replica_set("new", status=ReplicaSetStatus(conditions=(failed,)))
    old = replica_set("old", status=ReplicaSetStatus(conditions=(replace(other, type="Else"), other)))
    for one, message in ((new, "quota"), (replica_set("new"), "old"), (None, "old")):
        found = deployment_condition(rollout_status(deployment(), one, [old], EPOCH), conditions.REPLICA_FAILURE)
        assert found is not None
        assert (found.status, found.reason, found.message) == ("True", "FailedCreate", message)
        assert (found.last_transition_time, found.last_update_time) == (at, at)
    told = replace(deployment(), status=rollout_status(deployment(), new, [], EPOCH))
    assert deployment_condition(rollout_status(told, replica_set("new"), [], EPOCH), conditions.REPLICA_FAILURE) is None


def test_one_set_is_scaled_and_otherwise_old_ones_go() -> None:
    """A saturated new ReplicaSet scales the old ones to zero; with Recreate nothing is scaled in proportion."""
    full = ReplicaSetStatus(available_replicas=3)
    new, old = replica_set("new", 3, full, {DESIRED_REPLICAS: "3"}), replica_set("old", 2)
    assert active_or_latest(None, []) is None
    assert active_or_latest(None, [replica_set("a"), replica_set("b")]) == replica_set("b")
    assert scale_plan(deployment(), None, []) == ()
    assert scale_plan(deployment(), new, [old]) == recreate_plan([old]) == (("old", 0),)
    recreated = deployment(strategy=DeploymentStrategy(type="Recreate"))
    assert scale_plan(recreated, replica_set("new", 1), [old]) == ()
