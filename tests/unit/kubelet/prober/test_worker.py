"""Properties of the probe worker, for any status and any sequence of outcomes."""

import dataclasses
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    PodStatus,
    Probe,
)
from pykubelet.api.times import format_time
from pykubelet.kubelet.prober.prober_manager import (
    INITIAL_RESULTS,
    ProbeRecord,
    conclude,
    examine,
    first_delay_seconds,
    initial_record,
    next_tick,
    probe_of,
)
from pykubelet.kubelet.prober.results import ProbedContainer
from pykubelet.kubelet.types import ProbeOutcome, ProbeType
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import EPOCH

KINDS = st.sampled_from(ProbeType)
FOUND = st.sampled_from([ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE])
STATES = st.sampled_from(
    [
        ContainerState(),
        ContainerState(running=ContainerStateRunning(started_at=format_time(EPOCH))),
        ContainerState(running=ContainerStateRunning()),
        ContainerState(terminated=ContainerStateTerminated()),
    ]
)
STATUSES = st.builds(
    ContainerStatus,
    name=st.sampled_from(["c", "other"]),
    container_id=st.sampled_from(["", "test://1", "test://2"]),
    state=STATES,
    started=st.sampled_from([None, False, True]),
    ready=st.booleans(),
)
POD_STATUSES = st.none() | st.builds(
    PodStatus,
    phase=st.sampled_from(["", "Pending", "Running", "Succeeded"]),
    container_statuses=st.lists(STATUSES, max_size=2).map(tuple),
    init_container_statuses=st.lists(STATUSES, max_size=2).map(tuple),
)


def probed(
    kind: ProbeType, *, policy: str = "Always", failure_threshold: int = 3, success_threshold: int = 1
) -> ProbedContainer:
    probe = Probe(failure_threshold=failure_threshold, success_threshold=success_threshold, initial_delay_seconds=5)
    probed = container("c", liveness_probe=probe, readiness_probe=probe, startup_probe=probe)
    return ProbedContainer(
        pod=pod(containers=[probed], restart_policy=policy), container=probed, kind=kind, probe=probe
    )


@settings(max_examples=150)
@given(KINDS, st.lists(st.tuples(POD_STATUSES, FOUND), max_size=12), st.sampled_from(["Always", "Never"]))
def test_results_are_only_ever_those_of_the_present_container(
    kind: ProbeType, looks: list[tuple[PodStatus | None, ProbeOutcome]], policy: str
) -> None:
    """At most one result is kept, a new container has its initial result at once, and probes on hold do not run."""
    what, record, results = probed(kind, policy=policy), ProbeRecord(), dict[str, ProbeOutcome]()
    for status, found in looks:
        before = record
        step = examine(what, record, status, EPOCH + timedelta(seconds=60))
        record = step.record
        results.pop(step.forgotten, None)
        results |= dict.fromkeys([record.container_id] * bool(step.results), (step.results or (found,))[-1])
        assert not (step.should_probe and record.is_on_hold)
        assert not (step.should_probe and not step.keep_going)
        if record.container_id != before.container_id:
            assert step.results[0] == INITIAL_RESULTS[kind]
        if step.should_probe:
            step = conclude(what, record, found)
            record = step.record
            results |= dict.fromkeys([record.container_id] * bool(step.results), found)
        assert set(results) == ({record.container_id} if record.container_id else set())


@settings(max_examples=100)
@given(KINDS, st.lists(FOUND, min_size=1, max_size=20), st.integers(1, 4), st.integers(1, 4))
def test_verdict_needs_as_many_equal_findings_as_its_threshold(
    kind: ProbeType, findings: list[ProbeOutcome], failures: int, successes: int
) -> None:
    """Outcomes from before a hold do not count."""
    what = probed(kind, failure_threshold=failures, success_threshold=successes)
    record = ProbeRecord(container_id="test://1")
    since: list[ProbeOutcome] = []
    for found in findings:
        since.append(found)
        step = conclude(what, record, found)
        threshold = failures if found == ProbeOutcome.FAILURE else successes
        run = next((n for n, one in enumerate(reversed(since)) if one != found), len(since))
        assert step.results == ((found,) if run >= threshold else ())
        record = step.record
        if record.is_on_hold:
            # A new container ends the hold.
            since, record = [], dataclasses.replace(record, is_on_hold=False)
            assert kind == ProbeType.STARTUP or (kind, found) == (ProbeType.LIVENESS, ProbeOutcome.FAILURE)


@pytest.mark.parametrize("kind", ProbeType)
def test_probe_of_a_container_without_one_is_none(kind: ProbeType) -> None:
    """Checked for each kind of probe."""
    assert probe_of(container(), kind) is None


@pytest.mark.parametrize(
    ("kind", "ready", "started", "is_taken_over"),
    [
        (ProbeType.READINESS, True, True, True),
        (ProbeType.READINESS, False, True, False),
        (ProbeType.STARTUP, False, True, True),
        (ProbeType.STARTUP, False, False, False),
        (ProbeType.LIVENESS, True, True, False),
    ],
)
def test_shown_success_is_taken_over(kind: ProbeType, ready: bool, started: bool, is_taken_over: bool) -> None:
    """A container that the API shows as ready or started begins with that result."""
    running = ContainerState(running=ContainerStateRunning())
    shown = ContainerStatus(name="c", container_id="test://1", state=running, ready=ready, started=started)
    expected = (ProbeRecord(container_id="test://1"), ProbeOutcome.SUCCESS) if is_taken_over else (ProbeRecord(), None)
    assert initial_record("c", kind, PodStatus(container_statuses=(shown,))) == expected
    ended = replace(shown, state=ContainerState(terminated=ContainerStateTerminated()))
    assert initial_record("c", kind, PodStatus(container_statuses=(ended,))) == (ProbeRecord(), None)
    assert initial_record("other", kind, PodStatus(container_statuses=(shown,))) == (ProbeRecord(), None)


@given(st.floats(0, 100), st.floats(0, 100), st.integers(1, 20))
def test_next_tick_stays_on_the_grid(last: float, took: float, period: int) -> None:
    """It is a whole number of periods after the last, and at most one period from now."""
    tick = next_tick(last, last + took, period)
    periods = (tick - last) / period
    assert periods == pytest.approx(round(periods))
    assert last + period <= tick <= last + max(took, period) + 1e-9


@given(st.floats(0, 0.99), st.integers(1, 60), st.floats(0, 120))
def test_first_delay_is_within_the_period_of_a_young_agent(random: float, period: int, age: float) -> None:
    """A kubelet older than the period probes at once."""
    delay = first_delay_seconds(period, age, random)
    assert 0 <= delay < period
    assert delay == 0 or age < period
