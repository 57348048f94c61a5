"""Sizes, templates, revisions and progress of Deployments: the cases of upstream's tests of pkg/controller/deployment."""

from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.apps import (
    Deployment,
    DeploymentCondition,
    DeploymentSpec,
    DeploymentStatus,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdateDeployment,
)
from pykubelet.api.generated.core import PodSpec, PodTemplateSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.times import parse_time
from pykubelet.controllers.deployment.progress import (
    PROGRESSING,
    deployment_condition,
    is_complete,
    rollout_status,
    seconds_to_deadline,
)
from pykubelet.controllers.deployment.replica_sets import (
    MAX_REPLICAS,
    REVISION,
    TEMPLATE_HASH,
    is_same_template,
    max_surge,
    max_unavailable,
    replica_sets_to_clean_up,
    set_name,
    size_annotations,
)
from pykubelet.controllers.deployment.rolling import grown_size, rolling_plan, scale_plan, share_of_change
from pykubelet.controllers.replicaset.replica_set import wanted_replicas

INFINITE = 2**31 - 1
Bound = int | str | None


def deployment(replicas: int, surge: Bound = 0, unavailable: Bound = 0, **spec: Any) -> Deployment:
    rolling = RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable)
    strategy = DeploymentStrategy(type="RollingUpdate", rolling_update=rolling)
    metadata = ObjectMeta(name="foo")
    return Deployment(metadata=metadata, spec=DeploymentSpec(**{"replicas": replicas, "strategy": strategy, **spec}))


def rs(name: str, replicas: int, minute: int = 0, *, actual: int = 0, available: int = 0, **meta: Any) -> ReplicaSet:
    created = f"2016-05-20T00:{minute:02}:00Z"
    return ReplicaSet(
        metadata=ObjectMeta(name=name, creation_timestamp=created, **meta),
        spec=ReplicaSetSpec(replicas=replicas),
        status=ReplicaSetStatus(replicas=actual, ready_replicas=available, available_replicas=available),
    )


@pytest.mark.parametrize(
    ("surge", "unavailable", "desired", "expected"),
    [
        pytest.param("39%", "39%", 10, (4, 3), id="surge is rounded up, unavailable down"),
        pytest.param(None, "39%", 10, (0, 3), id="no surge"),
        pytest.param("39%", None, 10, (4, 0), id="no unavailable"),
        pytest.param(None, None, 10, (0, 1), id="neither: one may be unavailable"),
        pytest.param("0%", "9%", 10, (0, 1), id="rounded to neither"),
        pytest.param(1, 5, 10, (1, 5), id="less than replicas"),
        pytest.param(1, 10, 5, (1, 5), id="more than replicas"),
        pytest.param(1, 10, 0, (1, 0), id="of no replicas"),
        pytest.param(1, "100%", 5, (1, 5), id="all"),
    ],
)
def test_bounds(surge: Bound, unavailable: Bound, desired: int, expected: tuple[int, int]) -> None:
    """Percentages are of the replicas; both bounds are zero only for Recreate."""
    one = deployment(desired, surge, unavailable)
    assert (max_surge(one), max_unavailable(one)) == expected
    recreated = replace(one, spec=replace(one.spec, strategy=DeploymentStrategy(type="Recreate")))
    assert (max_surge(recreated), max_unavailable(recreated)) == (0, 0)


@pytest.mark.parametrize(("surge", "unavailable"), [("oops", "39%"), ("55%", "urg"), ("5", 1), ("%", 1)])
def test_bounds_that_are_no_numbers_are_refused(surge: Bound, unavailable: Bound) -> None:
    """The API's validation rejects such values before a controller sees them."""
    with pytest.raises(ValueError, match="invalid value for IntOrString"):
        max_surge(deployment(10, surge, unavailable))


@pytest.mark.parametrize(
    ("desired", "surge", "old", "new", "expected"),
    [(10, 0, 10, 0, 0), (10, 2, 10, 0, 2), (10, 2, 5, 0, 7), (10, 2, 10, 2, 2), (10, 2, 2, 11, 10), (1, 1, 5, 5, 1)],
)
def test_new_set_grows_as_far_as_it_may(desired: int, surge: int, old: int, new: int, expected: int) -> None:
    """The set grows until all pods are replicas plus surge, and shrinks to replicas when it is larger."""
    steps = rolling_plan(deployment(desired, surge), rs("new", new), [rs("old", old)])
    assert dict(steps).get("new", new) == expected


def test_new_set_of_recreated_deployment_is_made_in_full() -> None:
    """Recreate ignores the size of old sets; a rolling update leaves room for them within the surge."""
    recreated = deployment(3, strategy=DeploymentStrategy(type="Recreate"))
    assert grown_size(recreated, 1, [rs("old", 5)]) == 3
    assert grown_size(deployment(6, 10), 2, [rs("old", 5)]) == 6
    assert grown_size(deployment(1, 1), 5, [rs("old", 5)]) == 5


@pytest.mark.parametrize(
    ("unavailable", "old", "new", "expected"),
    [
        pytest.param(0, (10, 10), (0, 0), [9], id="as neither bound is above zero, one goes"),
        pytest.param(2, (10, 10), (0, 0), [8], id="as many as may be unavailable"),
        pytest.param(2, (10, 8), (0, 0), [8], id="unhealthy ones only"),
        pytest.param(2, (10, 9), (0, 0), [9, 8], id="unhealthy ones first"),
        pytest.param(2, (8, 8), (2, 0), [], id="new ones that are not available do not count"),
        pytest.param(2, (10, 1), (0, 0), [8], id="most are unhealthy"),
        pytest.param(2, (8, 8), (2, 2), [6], id="new ones that are available do"),
    ],
)
def test_old_set_shrinks_as_far_as_it_may(
    unavailable: int, old: tuple[int, int], new: tuple[int, int], expected: list[int]
) -> None:
    """`old` and `new` are size and available pods; `expected` are the sizes of the old set, step by step."""
    sets = rs("new", new[0], available=new[1]), rs("old", old[0], actual=old[0], available=old[1])
    steps = rolling_plan(deployment(10, 0, unavailable), sets[0], [sets[1]])
    assert [step.replicas for step in steps if step.name == "old"] == expected


@pytest.mark.parametrize(
    ("before", "after", "new", "old", "expected"),
    [
        pytest.param(10, 12, 10, [], [12], id="only one, up"),
        pytest.param(10, 5, 10, [], [5], id="only one, down"),
        pytest.param(5, 10, 2, [3], [4, 6], id="5 to 10"),
        pytest.param(5, 3, 2, [3], [1, 2], id="5 to 3"),
        pytest.param(9, 4, 8, [1], [4, 0], id="9 to 4"),
        pytest.param(7, 10, 2, [3, 2], [3, 4, 3], id="7 to 10"),
        pytest.param(13, 8, 2, [8, 3], [1, 5, 2], id="13 to 8"),
        pytest.param(3, 4, 1, [1, 1], [2, 1, 1], id="the rest goes to the newest"),
        pytest.param(3, 2, 1, [1, 1], [1, 1, 0], id="the rest is taken from the oldest"),
        pytest.param(4, 5, None, [2, 2], [3, 2], id="no new set yet"),
        pytest.param(6, 0, 3, [2, 1], [0, 0, 0], id="to none"),
        pytest.param(6, 6, 0, [0, 0], [6, 0, 0], id="from none"),
        pytest.param(10, 14, None, [7, 3], [10, 4], id="size and template"),
    ],
)
def test_change_of_size_in_the_middle_of_a_rollout(
    before: int, after: int, new: int | None, old: list[int], expected: list[int]
) -> None:
    """Sets keep their proportions when replicas change."""
    noted = size_annotations(deployment(before))
    sizes = old if new is None else [new, *old]
    sets = [rs(f"foo-{9 - number}", size, 9 - number, annotations=noted) for number, size in enumerate(sizes)]
    newest = None if new is None else sets[0]
    found = {one.metadata.name: wanted_replicas(one) for one in sets}
    found |= dict(scale_plan(deployment(after), newest, sets if new is None else sets[1:]))
    assert list(found.values()) == expected


@pytest.mark.parametrize(
    ("before", "after", "sizes", "expected"),
    [
        pytest.param((10, 2), (20, 2), (6, 6), (11, 11), id="with surge"),
        pytest.param((10, 3), (50, 6), (5, 8), (22, 34), id="size and surge"),
        pytest.param((2, 1), (2, 1), (2, 1), (2, 1), id="a full but broken new set does not affect old pods"),
    ],
)
def test_change_of_size_with_surge(
    before: tuple[int, int], after: tuple[int, int], sizes: tuple[int, int], expected: tuple[int, int]
) -> None:
    """The proportions include the surge pods."""
    noted = size_annotations(deployment(*before))
    new, old = (rs(f"foo-{number}", size, 9 - number, annotations=noted) for number, size in enumerate(sizes))
    planned = dict(scale_plan(deployment(*after), new, [old]))
    assert (planned["foo-0"], planned["foo-1"]) == expected


@pytest.mark.parametrize(
    ("replicas", "surge", "status", "size", "noted", "expected"),
    [
        pytest.param(0, 0, 0, 10, None, -10, id="to none"),
        pytest.param(10, 0, 0, 5, None, 0, id="nothing known"),
        pytest.param(10, 0, 0, 5, "0", 0, id="nonsense noted"),
        pytest.param(120, 0, 100, 50, None, 10, id="by the pods there are"),
        pytest.param(120, 0, 100, 50, "0", 10, id="by the pods there are, for what is noted is nonsense"),
        pytest.param(120, 0, 0, 50, "100", 10, id="a fifth more"),
        pytest.param(120, 10, 0, 50, "110", 9, id="a fifth more, with surge"),
        pytest.param(10, 0, 0, 6, "12", -1, id="a sixth less"),
        pytest.param(100, 10, 0, 50, "130", -8, id="a sixth less, with surge"),
    ],
)
def test_share_of_a_change(replicas: int, surge: int, status: int, size: int, noted: str | None, expected: int) -> None:
    """The former size comes from the annotation of the set or, without one, from the Deployment's status."""
    one = replace(deployment(replicas, surge, 1), status=DeploymentStatus(replicas=status))
    annotations = {} if noted is None else {MAX_REPLICAS: noted}
    assert share_of_change(one, rs("foo", size, annotations=annotations)) == expected


LABELS = {TEMPLATE_HASH: "value-1", "something": "else"}


def template(node: str, labels: dict[str, str], annotations: dict[str, str] | None = None) -> PodTemplateSpec:
    metadata = ObjectMeta(labels=labels, annotations=annotations or {})
    return PodTemplateSpec(metadata=metadata, spec=PodSpec(node_name=node))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param(template("n", LABELS), template("n", LABELS), True, id="same"),
        pytest.param(template("n", LABELS), template("n", LABELS | {TEMPLATE_HASH: "2"}), True, id="another hash"),
        pytest.param(template("n", {"something": "else"}), template("n", LABELS), True, id="no hash"),
        pytest.param(template("n", {"something": "else"}), template("n", {TEMPLATE_HASH: "1"}), False, id="label gone"),
        pytest.param(template("n", {TEMPLATE_HASH: "value-1"}), template("n", LABELS), False, id="label more"),
        pytest.param(template("n", LABELS, {"a": "1"}), template("n", LABELS, {"b": "1"}), False, id="annotation"),
        pytest.param(template("n", LABELS), template("m", LABELS), False, id="spec"),
    ],
)
def test_templates_are_compared_without_their_hash(
    left: PodTemplateSpec, right: PodTemplateSpec, expected: bool
) -> None:
    """The comparison gives the same result in both directions."""
    assert (is_same_template(left, right), is_same_template(right, left)) == (expected, expected)


def test_name_of_a_set_fits() -> None:
    """A long name is cut at its end, and the hash stays whole."""
    assert set_name("web", "12345") == "web-12345"
    assert set_name("w" * 253, "12345") == "w" * 247 + "-12345"


GOING = rs("1", 0, deletion_timestamp="2016-05-20T00:00:00Z")


@pytest.mark.parametrize(
    ("old", "limit", "expected"),
    [
        pytest.param([rs("1", 0), rs("2", 0), rs("3", 0)], 1, "12", id="all but one"),
        pytest.param(
            [rs("1", 0), rs("2", 0, actual=1), rs("3", 1), rs("4", 1, actual=1)], 0, "1", id="empty ones only"
        ),
        pytest.param([rs("1", 0), rs("2", 0)], 0, "12", id="all"),
        pytest.param([rs("1", 1, actual=1), rs("2", 1, actual=1)], 0, "", id="none is empty"),
        pytest.param([GOING], 0, "", id="going already"),
        pytest.param([rs("1", 0), rs("2", 0)], INFINITE, "", id="no limit"),
        pytest.param([rs("1", 0), rs("2", 0)], None, "", id="limit unknown"),
        pytest.param([rs("1", 0, generation=2)], 0, "", id="has not reported"),
        pytest.param(
            [rs("1", 0, 1, annotations={REVISION: "2"}), rs("2", 0, 2)], 1, "2", id="without a revision first"
        ),
        pytest.param(
            [rs(str(n), 0, n, annotations={REVISION: r}) for n, r in ((1, "3"), (2, "1"), (3, "4"), (4, "2"))],
            2,
            "24",
            id="by revision",
        ),
        pytest.param(
            [rs("1", 1, 1, annotations={REVISION: "1"}), rs("2", 0, 2, annotations={REVISION: "2"}), rs("3", 0, 3)],
            1,
            "3",
            id="one in use counts",
        ),
    ],
)
def test_old_sets_above_the_limit_are_forgotten(old: list[ReplicaSet], limit: int | None, expected: str) -> None:
    """Only empty sets are removed, those with the lowest revisions first."""
    found = replica_sets_to_clean_up(deployment(1, revision_history_limit=limit), old)
    assert "".join(one.metadata.name for one in found) == expected


EARLIER, NOW = "2017-02-15T18:49:00Z", parse_time("2017-02-15T18:55:00Z")


def said(reason: str, status: str = "True") -> DeploymentCondition:
    return DeploymentCondition(
        type=PROGRESSING, status=status, reason=reason, last_update_time=EARLIER, last_transition_time=EARLIER
    )


UPDATED, AVAILABLE = said("ReplicaSetUpdated"), said("NewReplicaSetAvailable")
FAILED = said("ProgressDeadlineExceeded", "False")


def current(
    deadline: int | None, replicas: int, actual: int, available: int, condition: DeploymentCondition | None
) -> Deployment:
    status = DeploymentStatus(
        replicas=actual,
        updated_replicas=actual,
        ready_replicas=available,
        available_replicas=available,
        conditions=() if condition is None else (condition,),
    )
    return replace(deployment(replicas, progress_deadline_seconds=deadline), status=status)


def counted(name: str, replicas: int, actual: int, available: int) -> ReplicaSet:
    return rs(name, replicas, actual=actual, available=available)


@pytest.mark.parametrize(
    ("one", "new", "old", "expected"),
    [
        pytest.param(
            current(None, 3, 2, 2, UPDATED), counted("foo", 3, 2, 2), [counted("bar", 0, 1, 1)], None, id="no deadline"
        ),
        pytest.param(current(INFINITE, 3, 2, 2, UPDATED), counted("foo", 3, 2, 2), [], None, id="endless deadline"),
        pytest.param(
            current(60, 3, 3, 3, AVAILABLE), counted("foo", 3, 3, 2), [], (AVAILABLE, EARLIER, EARLIER), id="rolled out"
        ),
        pytest.param(
            current(60, 3, 2, 2, UPDATED),
            counted("foo", 3, 2, 2),
            [counted("bar", 0, 1, 1)],
            (UPDATED, "now", EARLIER),
            id="progress again",
        ),
        pytest.param(
            current(60, 3, 2, 2, FAILED),
            counted("foo", 3, 2, 2),
            [counted("bar", 0, 1, 1)],
            (UPDATED, "now", "now"),
            id="progress after all",
        ),
        pytest.param(
            current(60, 3, 2, 2, None),
            counted("foo", 3, 2, 2),
            [counted("bar", 0, 1, 1)],
            (UPDATED, "now", "now"),
            id="progress at first",
        ),
        pytest.param(
            current(60, 3, 3, 3, UPDATED), counted("foo", 3, 3, 3), [], (AVAILABLE, "now", EARLIER), id="complete"
        ),
        pytest.param(
            current(60, 3, 3, 3, FAILED),
            counted("foo", 3, 3, 3),
            [],
            (AVAILABLE, "now", "now"),
            id="complete after all",
        ),
        pytest.param(
            current(60, 3, 3, 3, None), counted("foo", 3, 3, 3), [], (AVAILABLE, "now", "now"), id="complete at once"
        ),
        pytest.param(
            current(60, 0, 3, 3, UPDATED), None, [counted("foo", 0, 0, 0)], (AVAILABLE, "now", EARLIER), id="no new set"
        ),
        pytest.param(current(60, 3, 2, 2, UPDATED), counted("foo", 3, 2, 2), [], (FAILED, "now", "now"), id="too late"),
        pytest.param(
            current(60, 3, 2, 2, FAILED), counted("foo", 3, 2, 2), [], (FAILED, EARLIER, EARLIER), id="still too late"
        ),
        pytest.param(
            current(600, 3, 2, 2, UPDATED), counted("foo", 3, 2, 2), [], (UPDATED, EARLIER, EARLIER), id="still time"
        ),
    ],
)
def test_progress(
    one: Deployment, new: ReplicaSet | None, old: list[ReplicaSet], expected: tuple[Any, str, str] | None
) -> None:
    """`expected` holds status, reason, last update time and last transition time of the condition."""
    found = deployment_condition(rollout_status(one, new, old, NOW), PROGRESSING)
    if expected is None:
        assert found is None
        return
    assert found is not None
    times = [EARLIER if at == EARLIER else "now" for at in (found.last_update_time, found.last_transition_time)]
    assert (found.status, found.reason, *times) == (expected[0].status, expected[0].reason, *expected[1:])


@pytest.mark.parametrize(
    ("one", "at", "expected"),
    [
        pytest.param(current(None, 4, 3, 2, None), "18:49:30", None, id="no deadline"),
        pytest.param(current(INFINITE, 4, 3, 2, UPDATED), "18:49:30", None, id="endless deadline"),
        pytest.param(current(60, 4, 3, 2, None), "18:49:30", None, id="nothing known"),
        pytest.param(current(60, 3, 3, 3, UPDATED), "18:49:30", None, id="complete"),
        pytest.param(current(60, 3, 3, 0, FAILED), "18:49:30", None, id="given up"),
        pytest.param(current(60, 3, 3, 1, AVAILABLE), "18:49:30", None, id="rolled out before"),
        pytest.param(current(60, 3, 3, 1, UPDATED), "18:49:30", 31.0, id="in 30 s"),
        pytest.param(current(60, 3, 3, 1, UPDATED), "18:49:59", 2.0, id="in 1 s"),
        pytest.param(current(60, 3, 3, 1, UPDATED), "18:50:00", 1.0, id="now"),
        pytest.param(current(60, 3, 3, 1, UPDATED), "18:51:00", 1.0, id="overdue"),
    ],
)
def test_stuck_rollout_is_requeued_at_its_deadline(one: Deployment, at: str, expected: float | None) -> None:
    """It is requeued a second later, because times have whole seconds."""
    assert seconds_to_deadline(one, parse_time(f"2017-02-15T{at}Z")) == expected


@pytest.mark.parametrize(
    ("updated", "replicas", "available", "observed", "expected"),
    [(5, 5, 5, 1, True), (4, 5, 5, 1, False), (5, 6, 5, 1, False), (5, 5, 4, 1, False), (5, 5, 5, 0, False)],
)
def test_deployment_is_complete_when_all_pods_are_new_and_available(
    updated: int, replicas: int, available: int, observed: int, expected: bool
) -> None:
    """The status must also be of the current generation."""
    one = replace(deployment(5), metadata=ObjectMeta(generation=1))
    status = DeploymentStatus(
        updated_replicas=updated, replicas=replicas, available_replicas=available, observed_generation=observed
    )
    assert is_complete(one, status) is expected
