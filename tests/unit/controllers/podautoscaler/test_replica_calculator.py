"""How many replicas a metric asks for: the numbers of upstream's tables, and properties that hold for all pods."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.generated.core import Container, Pod, PodCondition, PodSpec, PodStatus, ResourceRequirements
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.times import format_time
from pykubelet.controllers.podautoscaler.replica_calculator import (
    MetricError,
    ObservedPods,
    PodMetric,
    ReplicaProposal,
    Tolerances,
    is_starting,
    pod_request,
    replicas_for_average,
    replicas_for_utilization,
)

NOW = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)
WINDOW = timedelta(seconds=15)


def pod(
    name: str = "web-0",
    *,
    request: int | None = 1000,
    ready: bool = True,
    phase: str = "Running",
    started: float = 3600,
    changed: float = 3500,
) -> Pod:
    """A pod that started and became ready or unready these many seconds ago."""
    since = format_time(NOW - timedelta(seconds=changed))
    requests = {} if request is None else {"cpu": f"{request}m"}
    return Pod(
        metadata=ObjectMeta(name=name),
        spec=PodSpec(containers=(Container(name="c", resources=ResourceRequirements(requests=requests)),)),
        status=PodStatus(
            phase=phase,
            start_time=format_time(NOW - timedelta(seconds=started)),
            conditions=(PodCondition(type="Ready", status="True" if ready else "False", last_transition_time=since),),
        ),
    )


def observed(usage: list[int], *, ready: str = "", requests: tuple[int, ...] = (), phases: str = "") -> ObservedPods:
    """Pods with these usages; the last pods have none if there are more letters than usages. F is not ready, or Failed."""
    count = max(len(usage), len(ready), len(phases))
    pods = [
        pod(
            f"web-{number}",
            request=requests[number] if requests else 1000,
            ready=ready[number : number + 1] != "F",
            changed=3600 if ready[number : number + 1] == "F" else 3500,
            phase={"F": "Failed", "P": "Pending"}.get(phases[number : number + 1], "Running"),
        )
        for number in range(count)
    ]
    metrics = {f"web-{number}": PodMetric(value, NOW, WINDOW) for number, value in enumerate(usage)}
    return ObservedPods(resource="cpu", pods=pods, metrics=metrics, now=NOW)


@pytest.mark.parametrize(
    ("current", "target", "pods", "expected"),
    [
        pytest.param(3, 30, observed([300, 500, 700]), (5, 500, 50), id="above the target"),
        pytest.param(3, 30, observed([300, 500, 700], ready="FTT"), (4, 600, 60), id="unready counts as idle"),
        pytest.param(3, 30, observed([400, 500, 700], ready="TFF"), (3, 400, 40), id="unready prevents scaling up"),
        pytest.param(2, 30, observed([500, 700], ready="TTFF", phases="TTFF"), (4, 600, 60), id="failed is ignored"),
        pytest.param(5, 50, observed([100, 300, 500, 250, 250]), (3, 280, 28), id="below the target"),
        pytest.param(5, 50, observed([100, 300, 500, 250, 250], ready="TTTFF"), (2, 300, 30), id="unready, below"),
        pytest.param(
            3, 100, observed([1010, 1030, 1020], requests=(900, 1000, 1100)), (3, 1020, 102), id="within the tolerance"
        ),
        pytest.param(2, 100, observed([1000], ready="TT"), (2, 1000, 100), id="missing, at the target"),
        pytest.param(2, 100, observed([1900], ready="TT"), (2, 1900, 190), id="missing, above"),
        pytest.param(2, 100, observed([600], ready="TT"), (2, 600, 60), id="missing, below"),
        pytest.param(3, 50, observed([100, 450], ready="FTT"), (3, 450, 45), id="missing and unready, near"),
        pytest.param(3, 50, observed([100, 2000], ready="FTT"), (4, 2000, 200), id="missing and unready, above"),
        pytest.param(4, 50, observed([100, 100, 100], ready="FTTT"), (3, 100, 10), id="missing and unready, below"),
    ],
)
def test_utilization(current: int, target: int, pods: ObservedPods, expected: tuple[int, int, int]) -> None:
    replicas, average, utilization = expected
    found = replicas_for_utilization(current, target, pods, Tolerances())
    assert found == ReplicaProposal(replicas, average, utilization)


@pytest.mark.parametrize(
    ("current", "target", "pods", "expected"),
    [
        (3, 300, observed([300, 500, 700]), (5, 500)),
        (3, 500, observed([100, 150, 200]), (1, 150)),
        (3, 500, observed([500, 520, 540]), (3, 520)),
        (3, 200, observed([900, 900], ready="TTT"), (9, 900)),
    ],
)
def test_average_value(current: int, target: int, pods: ObservedPods, expected: tuple[int, int]) -> None:
    found = replicas_for_average(current, target, pods, Tolerances())
    assert (found.replicas, found.average, found.utilization) == (*expected, None)


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        (observed([]), "No pods returned by selector while calculating replica count"),
        (observed([500], ready="F"), "did not receive metrics for targeted pods (pods might be unready)"),
        (observed([500], requests=(0,)), "no metrics returned matched known pods"),
    ],
)
def test_unusable_metrics_are_an_error(pods: ObservedPods, message: str) -> None:
    with pytest.raises(MetricError) as raised:
        replicas_for_utilization(1, 50, pods, Tolerances())
    assert str(raised.value) == message


def test_request_counts_containers_sidecars_or_the_pod() -> None:
    both = (
        Container(name="a", resources=ResourceRequirements(requests={"cpu": "100m"})),
        Container(name="b", resources=ResourceRequirements(requests={"cpu": "50m"})),
    )
    sidecar = Container(name="s", restart_policy="Always", resources=ResourceRequirements(requests={"cpu": "20m"}))
    first = Container(name="i", resources=ResourceRequirements(requests={"cpu": "2"}))
    whole = Pod(spec=PodSpec(containers=both, init_containers=(first, sidecar)))
    assert (pod_request(whole, "cpu"), pod_request(whole, "cpu", "b")) == (170, 50)
    budget = Pod(spec=PodSpec(containers=both, resources=ResourceRequirements(requests={"cpu": "1"})))
    assert (pod_request(budget, "cpu"), pod_request(budget, "cpu", "a")) == (1000, 100)
    with pytest.raises(MetricError, match="missing request for cpu in container c of Pod web-0"):
        pod_request(pod(request=None), "cpu")


@pytest.mark.parametrize(
    ("given", "age", "expected"),
    [
        pytest.param(pod(started=60, changed=40), 0, False, id="ready for a window"),
        pytest.param(pod(started=60, changed=10), 0, True, id="ready for less than a window"),
        pytest.param(pod(started=60, changed=20), 6, True, id="measured too early"),
        pytest.param(pod(started=60, changed=30, ready=False), 0, True, id="unready"),
        pytest.param(pod(started=400, changed=360, ready=False), 0, False, id="was ready once"),
        pytest.param(pod(started=400, changed=380, ready=False), 0, True, id="never ready"),
        pytest.param(pod(started=400, changed=1), 0, False, id="ready again"),
        pytest.param(Pod(status=PodStatus(phase="Running")), 0, True, id="without a condition"),
        pytest.param(pod(started=299, changed=290), 280, True, id="at the end of the start"),
        pytest.param(pod(started=300, changed=290), 280, False, id="after the start"),
        pytest.param(pod(started=60, changed=40), 25, False, id="measured a window after it was ready"),
        pytest.param(pod(started=400, changed=371, ready=False), 0, True, id="unready before the delay"),
        pytest.param(pod(started=400, changed=370, ready=False), 0, False, id="unready after the delay"),
    ],
)
def test_usage_of_a_starting_pod_does_not_count(given: Pod, age: float, expected: bool) -> None:
    metric = PodMetric(100, NOW - timedelta(seconds=age), WINDOW)
    assert is_starting(given, metric, NOW) is expected


USAGES = st.lists(st.tuples(st.integers(0, 4000), st.sampled_from("TF")), min_size=1, max_size=12)


@given(USAGES, st.integers(0, 3), st.integers(1, 400))
def test_proposal_never_moves_away_from_the_target(pods: list[tuple[int, str]], missing: int, target: int) -> None:
    """Whatever is unready or missing, pods below the target never add replicas and pods above it never remove any."""
    ready = "".join(letter for _, letter in pods) + "T" * missing
    seen = observed([value for value, _ in pods], ready=ready)
    current = len(ready)
    try:
        found = replicas_for_utilization(current, target, seen, Tolerances())
    except MetricError:
        assert "T" not in ready[: len(pods)]
        return
    assert found.utilization is not None
    if found.utilization > target * 1.1:
        assert found.replicas >= min(current, ready.count("T"))
    if found.utilization < target * 0.9:
        assert found.replicas <= current
    assert found.replicas >= 0


@given(st.lists(st.integers(0, 4000), min_size=1, max_size=12), st.integers(1, 2000))
def test_proposal_for_ready_pods_brings_the_average_to_the_target(usage: list[int], target: int) -> None:
    found = replicas_for_average(len(usage), target, observed(usage), Tolerances())
    ratio = found.average / target
    if 0.9 <= ratio <= 1.1:
        assert found.replicas == len(usage)
    else:
        assert found.average * len(usage) <= found.replicas * target + 1e-6
        assert found.average * len(usage) > (found.replicas - 1) * target - 1e-6
