"""Allowed disruptions of a PodDisruptionBudget, and stale DisruptionTarget conditions."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Pod, PodCondition, PodStatus
from pykubelet.api.generated.meta import Condition, LabelSelector, LabelSelectorRequirement, ObjectMeta
from pykubelet.api.generated.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from pykubelet.api.times import format_time
from pykubelet.controllers.disruption.budget import (
    DisruptedPods,
    disrupted_pods,
    expectation,
    failed_status,
    healthy_count,
    needs_scale,
    new_status,
    selector_text,
    status_document,
)
from pykubelet.controllers.disruption.disruption import disruption_target_removal_patch, seconds_until_stale

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(name: str, *conditions: PodCondition, ready: bool = True, deleted: bool = False, phase: str = "Running") -> Pod:
    at = format_time(NOW) if deleted else None
    all_conditions = (PodCondition(type="Ready", status=str(ready)), *conditions)
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ns", uid=name, deletion_timestamp=at),
        status=PodStatus(phase=phase, conditions=all_conditions),
    )


def budget(**status: Any) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="ns", generation=3), status=PodDisruptionBudgetStatus(**status)
    )


def status(healthy: int, desired: int, expected: int, **old: Any) -> PodDisruptionBudgetStatus:
    return new_status(budget(**old), healthy=healthy, desired=desired, expected=expected, disrupted={}, now=NOW)


@pytest.mark.parametrize(
    ("spec", "scales", "expected"),
    [
        ({"min_available": 2}, False, (5, 2)),
        ({"min_available": "50%"}, True, (7, 4)),
        ({"max_unavailable": 2}, True, (7, 5)),
        ({"max_unavailable": "50%"}, True, (7, 3)),
        ({"max_unavailable": 9}, True, (7, 0)),
        ({}, False, (0, 0)),
    ],
    ids=["number that stays", "share that stays", "number that goes", "share that goes", "all may go", "nothing said"],
)
def test_expectation_of_a_budget(spec: dict[str, Any], scales: bool, expected: tuple[int, int]) -> None:
    """Five pods exist and the owner wants seven; percentages are rounded up."""
    given = PodDisruptionBudgetSpec(**spec)
    assert needs_scale(given) is scales
    assert expectation(given, 5, 7) == expected


def test_invalid_min_available_is_an_error() -> None:
    with pytest.raises(ValueError, match="invalid value for IntOrString"):
        expectation(PodDisruptionBudgetSpec(min_available="half"), 1, 1)


@settings(max_examples=100)
@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_allowed_disruptions_never_take_a_healthy_pod_too_many(healthy: int, desired: int, expected: int) -> None:
    """A budget that expects no pods allows no disruption."""
    found = status(healthy, desired, expected)
    assert found.disruptions_allowed >= 0
    assert found.disruptions_allowed == 0 or healthy - found.disruptions_allowed >= desired
    assert expected > 0 or found.disruptions_allowed == 0
    (condition,) = found.conditions
    assert (condition.status == "True") == (found.disruptions_allowed > 0)
    assert (found.observed_generation, condition.observed_generation) == (3, 3)


def test_time_of_the_condition_moves_only_with_its_status() -> None:
    """Other conditions are kept."""
    other = Condition(type="Other", status="True")
    old = Condition(type="DisruptionAllowed", status="True", reason="SufficientPods", last_transition_time="before")
    found = status(3, 1, 3, conditions=(other, old))
    assert [one.last_transition_time for one in found.conditions] == [None, "before"]
    found = status(1, 1, 3, conditions=(other, old))
    assert [one.last_transition_time for one in found.conditions] == [None, format_time(NOW)]
    assert found.conditions[1].reason == "InsufficientPods"


def test_failure_allows_nothing_and_keeps_the_rest() -> None:
    """The known counts and the observed generation stay in the status."""
    found = failed_status(budget(disruptions_allowed=2, current_healthy=5, observed_generation=2), "why", NOW)
    assert (found.disruptions_allowed, found.current_healthy, found.observed_generation) == (0, 5, 2)
    (condition,) = found.conditions
    assert (condition.reason, condition.message, condition.status) == ("SyncFailed", "why", "False")


def test_evicted_pods_are_waited_for_two_minutes() -> None:
    """Pods that are terminating, gone or overdue are not waited for; overdue pods count as healthy again."""
    evicted = {
        "new": format_time(NOW - timedelta(seconds=30)),
        "old": format_time(NOW - timedelta(seconds=121)),
        "ending": format_time(NOW),
        "gone": format_time(NOW),
    }
    pods = [pod("new"), pod("old"), pod("ending", deleted=True), pod("plain"), pod("sick", ready=False)]
    found = disrupted_pods(budget(disrupted_pods=evicted), pods, NOW)
    assert found.waiting == {"new": evicted["new"]}
    assert [one.metadata.name for one in found.overdue] == ["old"]
    assert found.recheck_at == NOW + timedelta(seconds=90)
    assert healthy_count(pods, found, NOW) == 2
    assert disrupted_pods(budget(), pods, NOW) == DisruptedPods({})


def test_patch_of_a_status_forgets_pods_that_are_done_with() -> None:
    """A merge patch removes a key only by null."""
    old, new = (
        PodDisruptionBudgetStatus(disrupted_pods={"a": "t"}),
        PodDisruptionBudgetStatus(disrupted_pods={"b": "u"}),
    )
    document = status_document(old, new)
    assert document["disruptedPods"] == {"a": None, "b": "u"}
    assert document["currentHealthy"] == 0


def test_selector_reads_as_go_prints_it() -> None:
    """Upstream's events contain this text."""
    rows = (LabelSelectorRequirement(key="k", operator="In", values=("x", "y")),)
    text = selector_text(LabelSelector(match_labels={"a": "b"}, match_expressions=rows))
    assert text == (
        "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement"
        "{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}"
    )
    assert selector_text(None) == "nil"


def announced(reason: str = "EvictionByEvictionAPI", value: str = "True", ago: float = 30) -> PodCondition:
    at = format_time(NOW - timedelta(seconds=ago))
    return PodCondition(type="DisruptionTarget", status=value, reason=reason, last_transition_time=at)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (pod("a"), None),
        (pod("a", announced()), 90.0),
        (pod("a", announced(ago=500)), 0.0),
        (pod("a", PodCondition(type="DisruptionTarget", status="True")), 0.0),
        (pod("a", announced(), deleted=True), None),
        (pod("a", announced(), phase="Failed"), None),
        (pod("a", announced(value="False")), None),
        (pod("a", announced("TerminationByKubelet")), None),
    ],
    ids=["nothing announced", "fresh", "stale", "without time", "ending", "over", "taken back", "by the node"],
)
def test_announced_end_is_stale_after_two_minutes(given: Pod, seconds: float | None) -> None:
    """The pod must still run, and the condition must not come from the kubelet."""
    assert seconds_until_stale(given, NOW) == seconds


def test_withdrawal_clears_the_reason() -> None:
    """The reason and message no longer apply to a pod that stays."""
    (condition,) = disruption_target_removal_patch(pod("a", announced()), NOW)["status"]["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", None, None)
