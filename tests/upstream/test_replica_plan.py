"""Which replicas are deleted and what the status counts: the cases of spec 5.10 from 39 to 41."""

from datetime import timedelta

import pytest

from pykubelet.api.generated.apps import ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus
from pykubelet.api.generated.core import Pod, PodCondition, PodSpec, PodStatus, PodTemplateSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.times import format_time
from pykubelet.controllers.replicaset.replica_set import compute_status, pods_to_delete
from pykubelet.testing.virtual_time import EPOCH

LABELS = {"foo": "bar"}
TEMPLATE = PodTemplateSpec(metadata=ObjectMeta(labels={**LABELS, "type": "production"}))


def placed(name: str, phase: str, node: str, *, ready: bool = False) -> Pod:
    condition = PodCondition(type="Ready", status="True" if ready else "False")
    status = PodStatus(phase=phase, conditions=(condition,))
    return Pod(metadata=ObjectMeta(name=name, uid=name), spec=PodSpec(node_name=node), status=status)


NEW = placed("unscheduled", "Pending", "")
PENDING = placed("scheduled", "Pending", "n")
NOT_READY = placed("not-ready", "Running", "n")
READY_1 = placed("ready-1", "Running", "n1", ready=True)
READY_2 = placed("ready-2", "Running", "n2", ready=True)
MIX = [READY_1, READY_1, READY_2, NOT_READY, PENDING, NEW]


@pytest.mark.parametrize(
    ("pods", "related", "count", "expected"),
    [
        pytest.param([], None, 0, [], id="5.10-39 none"),
        pytest.param([NOT_READY, READY_1], None, 2, [NOT_READY, READY_1], id="5.10-39 all"),
        pytest.param([READY_1, NOT_READY], None, 1, [NOT_READY], id="5.10-39 not ready first"),
        pytest.param(MIX, None, 6, MIX, id="5.10-39 all unsorted"),
        pytest.param(MIX, [], 6, MIX, id="5.10-39 all unsorted without related"),
        pytest.param([PENDING, NEW], None, 1, [NEW], id="5.10-39 unscheduled first"),
        pytest.param([READY_1, NOT_READY, NOT_READY], None, 2, [NOT_READY] * 2, id="5.10-39 two not ready"),
        pytest.param([READY_1, READY_2], [READY_1, READY_2, READY_2], 1, [READY_2], id="5.10-39 crowded node first"),
        pytest.param([PENDING, NOT_READY], None, 1, [PENDING], id="5.10-39 pending first"),
        pytest.param(MIX[1:], None, 3, [NEW, PENDING, NOT_READY], id="5.10-39 mixed"),
    ],
)
def test_pods_to_delete(pods: list[Pod], related: list[Pod] | None, count: int, expected: list[Pod]) -> None:
    """Pods are ordered only when some of them stay."""
    assert list(pods_to_delete(pods, pods if related is None else related, count, EPOCH)) == expected


def labelled(phase: str = "Running", *, full: bool = True, ready_for: int | None = None) -> Pod:
    labels = {**LABELS, "type": "production"} if full else LABELS
    since = None if ready_for is None else format_time(EPOCH - timedelta(seconds=ready_for))
    ready = PodCondition(type="Ready", status="True", last_transition_time=since)
    conditions = (ready,) if phase == "Running" else ()
    return Pod(metadata=ObjectMeta(labels=labels), status=PodStatus(phase=phase, conditions=conditions))


HOUR = 3600


@pytest.mark.parametrize(
    ("pods", "min_ready", "terminating", "counts"),
    [
        pytest.param([labelled()], 0, None, (1, 1, 1, 1, None), id="5.10-40 one"),
        pytest.param([labelled(full=False)], 0, None, (1, 0, 1, 1, None), id="5.10-40 one not fully labelled"),
        pytest.param([labelled(), labelled()], 0, None, (2, 2, 2, 2, None), id="5.10-40 two"),
        pytest.param([labelled(), labelled(full=False)], 0, None, (2, 1, 2, 2, None), id="5.10-40 mixed"),
        pytest.param([labelled("Pending")], 0, None, (1, 1, 0, 0, None), id="5.10-40 not ready"),
        pytest.param([labelled(ready_for=0)], HOUR, None, (1, 1, 1, 0, None), id="5.10-40 not available yet"),
        pytest.param([labelled(ready_for=HOUR)], HOUR, None, (1, 1, 1, 1, None), id="5.10-40 just available"),
        pytest.param([labelled(ready_for=2 * HOUR)], HOUR, None, (1, 1, 1, 1, None), id="5.10-40 long available"),
        pytest.param([labelled()], 0, 0, (1, 1, 1, 1, 0), id="5.10-40 none terminating"),
        pytest.param([labelled()], 0, 2, (1, 1, 1, 1, 2), id="5.10-40 two terminating"),
    ],
)
def test_status_counts(
    pods: list[Pod], min_ready: int, terminating: int | None, counts: tuple[int | None, ...]
) -> None:
    """`counts` are replicas, fully labelled, ready, available and terminating."""
    one = ReplicaSet(spec=ReplicaSetSpec(replicas=2, template=TEMPLATE, min_ready_seconds=min_ready))
    status = compute_status(one, pods, terminating=terminating, failure=None, now=EPOCH)
    assert isinstance(status, ReplicaSetStatus)
    assert counts == (
        status.replicas,
        status.fully_labeled_replicas,
        status.ready_replicas,
        status.available_replicas,
        status.terminating_replicas,
    )


PRESENT = ReplicaSetCondition(type="ReplicaFailure", status="True")
OTHER = ReplicaSetCondition(type="Other", status="True")


@pytest.mark.parametrize(
    ("before", "wanted", "active", "failure", "after"),
    [
        pytest.param([], 2, 1, "no", [("FailedCreate", "no")], id="5.10-41 too few"),
        pytest.param([], 2, 3, "no", [("FailedDelete", "no")], id="5.10-41 too many"),
        pytest.param([PRESENT], 10, 1, None, [], id="5.10-41 removed"),
        pytest.param([PRESENT], 10, 1, "no", [("", "")], id="5.10-41 left as it is"),
        pytest.param([], 2, 1, None, [], id="5.10-41 none"),
    ],
)
def test_failure_condition(
    before: list[ReplicaSetCondition], wanted: int, active: int, failure: str | None, after: list[tuple[str, str]]
) -> None:
    """The condition is added once and removed on success; other conditions stay."""
    one = ReplicaSet(
        spec=ReplicaSetSpec(replicas=wanted, template=TEMPLATE), status=ReplicaSetStatus(conditions=(*before, OTHER))
    )
    pods = [labelled() for _ in range(active)]
    status = compute_status(one, pods, terminating=None, failure=failure, now=EPOCH)
    failures = [(c.reason, c.message) for c in status.conditions if c.type == "ReplicaFailure"]
    assert failures == after
    assert OTHER in status.conditions
