"""Graceful node shutdown: the groups of pods, their order, grace periods and status."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.core import PodCondition, PodStatus
from pykubelet.api.pods import SYSTEM_CRITICAL_PRIORITY
from pykubelet.kubelet.nodeshutdown.nodeshutdown_manager import (
    ShutdownGroup,
    ShutdownPeriod,
    grace_seconds,
    shutdown_groups,
    shutdown_periods,
    shutdown_status,
)
from pykubelet.testing.build import pod


def test_grace_is_shared_between_ordinary_and_critical_pods() -> None:
    """Critical pods get the last part of it; without a grace period there are no groups."""
    first, second = shutdown_periods(30, 10)
    assert first == ShutdownPeriod(priority=0, seconds=20)
    assert second == ShutdownPeriod(priority=SYSTEM_CRITICAL_PRIORITY, seconds=10)
    assert shutdown_periods(0, 0) == ()


@pytest.mark.parametrize(("grace", "critical"), [(10, 11), (-1, 0), (10, -1)])
def test_grace_that_cannot_be_shared_is_refused(grace: int, critical: int) -> None:
    """The critical part cannot exceed the total, and neither may be negative."""
    with pytest.raises(ValueError, match=r"grace period"):
        shutdown_periods(grace, critical)


def test_pods_end_with_the_period_of_their_priority() -> None:
    """A period starts at its priority; lower priorities join the lowest period, and no priority counts as zero."""
    periods = [ShutdownPeriod(priority=1000, seconds=5), ShutdownPeriod(priority=0, seconds=7)]
    named = [("none", None), ("low", -5), ("edge", 1000), ("under", 999), ("top", SYSTEM_CRITICAL_PRIORITY)]
    groups = shutdown_groups(periods, [pod(name, priority=priority) for name, priority in named])
    told = [(group.seconds, [one.metadata.name for one in group.pods]) for group in groups]
    assert told == [(7, ["none", "low", "under"]), (5, ["edge", "top"])]


@given(st.lists(st.integers(-10, 10), max_size=20), st.sets(st.integers(-5, 5), min_size=1, max_size=4))
def test_every_pod_is_in_one_group_and_lower_priorities_go_first(priorities: list[int], starts: set[int]) -> None:
    """No pod stops before the pods of a lower group."""
    periods = [ShutdownPeriod(priority=start, seconds=1) for start in starts]
    groups = shutdown_groups(periods, [pod(f"p{n}", priority=each) for n, each in enumerate(priorities)])
    found = [[one.spec.priority or 0 for one in group.pods] for group in groups]
    assert sorted(itertools.chain(*found)) == sorted(priorities)
    assert all(max(first) < min(second) for first, second in itertools.pairwise(found))


@pytest.mark.parametrize(("wanted", "given"), [(None, 20), (30, 20), (20, 20), (5, 5), (0, 0)])
def test_grace_is_that_of_the_pod_up_to_that_of_its_group(wanted: int | None, given: int) -> None:
    """A pod's own grace period can only shorten it."""
    one = pod("web", termination_grace_period_seconds=wanted)
    assert grace_seconds(one, ShutdownGroup(seconds=20, pods=(one,))) == given


@pytest.mark.parametrize(("phase", "after"), [("Running", "Failed"), ("Pending", "Failed"), ("Succeeded", "Succeeded")])
def test_shutdown_status_has_phase_and_reason(phase: str, after: str) -> None:
    """The phase is Failed unless it was Succeeded; an old DisruptionTarget condition is replaced, others stay."""
    ready = PodCondition(type="Ready", status="True")
    old = PodCondition(type="DisruptionTarget", status="True", reason="Other")
    told = shutdown_status(3, replace(PodStatus(), phase=phase, conditions=(old, ready)))
    assert (told.phase, told.reason) == (after, "Terminated")
    assert [(one.type, one.reason, one.observed_generation) for one in told.conditions] == [
        ("DisruptionTarget", "TerminationByKubelet", 3),
        ("Ready", "", 0),
    ]
