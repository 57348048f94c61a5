"""How fast an autoscaler may scale: windows, rate policies and bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.generated.autoscaling import (
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
    HPAScalingPolicy,
    HPAScalingRules,
)
from pykubelet.controllers.podautoscaler.behavior import (
    ScaleHistory,
    TimedCount,
    limited_replicas,
    min_replicas,
    scale_down_limit,
    scale_up_limit,
)

NOW = 10_000.0
PODS, PERCENT = (
    HPAScalingPolicy(type="Pods", value=4, period_seconds=60),
    HPAScalingPolicy(type="Percent", value=50, period_seconds=60),
)


def spec(most: int = 100, least: int | None = None, **behavior: HPAScalingRules) -> HorizontalPodAutoscalerSpec:
    return HorizontalPodAutoscalerSpec(
        max_replicas=most,
        min_replicas=least,
        behavior=HorizontalPodAutoscalerBehavior(**behavior) if behavior else None,
    )


def recommended(*counts: tuple[float, int]) -> ScaleHistory:
    """A history of recommendations, each some seconds ago."""
    return ScaleHistory([TimedCount(NOW - ago, count) for ago, count in counts])


def test_replicas_fall_to_one_unless_the_spec_says_another_minimum() -> None:
    for least, expected in ((None, 1), (0, 0), (1, 1), (2, 2)):
        assert min_replicas(spec(least=least)) == expected
        assert limited_replicas(spec(least=least), ScaleHistory(), 4, 0, NOW).replicas == expected


def test_replicas_at_most_double_or_grow_to_four_without_behavior() -> None:
    found = limited_replicas(spec(), ScaleHistory(), 1, 50, NOW)
    assert (found.replicas, found.is_limited, found.limit[0]) == (4, True, "ScaleUpLimit")
    assert limited_replicas(spec(), ScaleHistory(), 5, 50, NOW).replicas == 10
    found = limited_replicas(spec(6), ScaleHistory(), 5, 50, NOW)
    assert (found.replicas, found.limit[0]) == (6, "TooManyReplicas")


def test_replicas_stay_at_the_highest_recommendation_of_five_minutes_without_behavior() -> None:
    found = limited_replicas(spec(), recommended((301, 9), (299, 5)), 8, 2, NOW)
    assert (found.replicas, found.able[0]) == (5, "ScaleDownStabilized")
    found = limited_replicas(spec(least=3), recommended((301, 9)), 8, 2, NOW)
    assert (found.replicas, found.able[0], found.limit[0]) == (3, "ReadyForNewScale", "TooFewReplicas")


def test_windows_move_replicas_as_far_as_all_recommendations_agree() -> None:
    slow = spec(scale_up=HPAScalingRules(stabilization_window_seconds=60, policies=(PODS,)))
    found = limited_replicas(slow, recommended((30, 4)), 3, 6, NOW)
    assert (found.replicas, found.able[0]) == (4, "ScaleUpStabilized")
    found = limited_replicas(slow, recommended((250, 7)), 8, 2, NOW)
    assert (found.replicas, found.able[0]) == (8, "ScaleDownStabilized")
    assert limited_replicas(slow, recommended((61, 4)), 3, 6, NOW).replicas == 6


def test_policies_count_what_changed_in_their_period() -> None:
    history = ScaleHistory(added=[TimedCount(NOW - 30, 3), TimedCount(NOW - 90, 5)])
    rules = HPAScalingRules(policies=(PODS, PERCENT))
    # Ten at the start of the period: four more by number, five more by percentage.
    assert scale_up_limit(rules, history, 13, NOW) == 15
    assert scale_up_limit(HPAScalingRules(policies=(PODS, PERCENT), select_policy="Min"), history, 13, NOW) == 14
    assert scale_up_limit(HPAScalingRules(policies=(PODS,), select_policy="Disabled"), history, 13, NOW) == 13
    assert scale_down_limit(rules, ScaleHistory(removed=[TimedCount(NOW - 5, 2)]), 8, NOW) == 5
    assert (
        scale_down_limit(HPAScalingRules(policies=(PODS, PERCENT), select_policy="Min"), ScaleHistory(), 10, NOW) == 6
    )


UP, DOWN, MORE = "ScaleUpLimit", "ScaleDownLimit", "TooManyReplicas"
FEW, FINE = "TooFewReplicas", "DesiredWithinRange"


@pytest.mark.parametrize(
    ("current", "desired", "expected"),
    [
        *((3, 6, (6, FINE)), (3, 7, (7, FINE)), (3, 8, (7, UP)), (26, 30, (30, FINE)), (27, 31, (30, MORE))),
        *((26, 31, (30, MORE)), (25, 31, (29, UP)), (10, 10, (10, FINE))),
        *((10, 5, (5, FINE)), (10, 4, (5, DOWN)), (4, 2, (2, FINE)), (4, 1, (2, FEW)), (3, 0, (2, FEW))),
    ],
)
def test_change_is_limited_by_policies_and_bounds(current: int, desired: int, expected: tuple[int, str]) -> None:
    """Between 2 and 30; up by four pods, down by half."""
    now = HPAScalingRules(stabilization_window_seconds=0, policies=(PODS,))
    half = HPAScalingRules(stabilization_window_seconds=0, policies=(PERCENT,))
    found = limited_replicas(spec(30, 2, scale_up=now, scale_down=half), ScaleHistory(), current, desired, NOW)
    assert (found.replicas, found.limit[0]) == expected
    assert found.is_limited == (expected[0] != desired)


@pytest.mark.parametrize(
    ("current", "desired", "expected"),
    [
        *((5, 10, (10, FINE)), (5, 11, (10, UP)), (15, 30, (30, FINE)), (15, 31, (30, MORE)), (14, 31, (28, UP))),
        *((2, 4, (4, FINE)), (2, 5, (4, UP)), (9, 2, (2, FINE)), (9, 1, (2, FEW))),
    ],
)
def test_change_is_limited_by_the_default_rate(current: int, desired: int, expected: tuple[int, str]) -> None:
    """Without behavior: to the double or four, and between 2 and 30."""
    found = limited_replicas(spec(30, 2), ScaleHistory(), current, desired, NOW)
    assert (found.replicas, found.limit[0]) == expected


@pytest.mark.parametrize(
    ("kind", "changed", "value", "up", "down"),
    [
        ("Pods", {}, 3, 13, 7),
        ("Percent", {}, 25, 13, 7),
        ("Pods", {"added": [(59, 2)]}, 3, 11, 5),
        ("Pods", {"added": [(60, 2)]}, 3, 13, 7),
        ("Pods", {"removed": [(59, 2), (1, 1)]}, 3, 16, 10),
        ("Percent", {"added": [(1, 2)], "removed": [(1, 6)]}, 50, 21, 7),
    ],
)
def test_limit_starts_from_the_replicas_at_the_start_of_the_period(
    kind: str, changed: dict[str, list[tuple[int, int]]], value: int, up: int, down: int
) -> None:
    """Of ten replicas now; each change was some seconds ago, and the period is a minute."""
    history = ScaleHistory(**{side: [TimedCount(NOW - ago, n) for ago, n in made] for side, made in changed.items()})
    rules = HPAScalingRules(policies=(HPAScalingPolicy(type=kind, value=value, period_seconds=60),))
    assert scale_up_limit(rules, history, 10, NOW) == up
    assert scale_down_limit(rules, history, 10, NOW) == down


@pytest.mark.parametrize(
    ("past", "current", "desired", "expected"),
    [
        # The lowest of the last minute limits growth; the highest of the last two minutes limits shrinking.
        *(([(59, 7)], 5, 9, 7), ([(60, 7)], 5, 9, 9), ([(59, 4)], 5, 9, 5), ([(59, 12)], 5, 9, 9)),
        *(([(119, 4)], 5, 2, 4), ([(120, 4)], 5, 2, 2), ([(119, 8)], 5, 2, 5), ([(119, 1)], 5, 2, 2)),
        *(([(30, 6), (100, 9)], 5, 9, 6), ([(30, 6), (100, 3)], 5, 2, 5), ([], 5, 5, 5)),
    ],
)
def test_recommendations_of_the_windows_stabilize(
    past: list[tuple[float, int]], current: int, desired: int, expected: int
) -> None:
    many = (HPAScalingPolicy(type="Pods", value=100, period_seconds=60),)
    up = HPAScalingRules(stabilization_window_seconds=60, policies=many)
    down = HPAScalingRules(stabilization_window_seconds=120, policies=many)
    history = recommended(*past)
    found = limited_replicas(spec(scale_up=up, scale_down=down), history, current, desired, NOW)
    is_up = desired >= current
    told = "ReadyForNewScale" if expected == desired else "ScaleUpStabilized" if is_up else "ScaleDownStabilized"
    assert (found.replicas, found.able[0]) == (expected, told)
    # The longer of the two windows is kept.
    assert history.recommendations == [*(TimedCount(NOW - ago, n) for ago, n in past if ago < 120), (NOW, desired)]


def test_changes_are_recorded_by_their_direction() -> None:
    history, behavior = ScaleHistory(), spec(scale_up=HPAScalingRules(policies=(PODS,))).behavior
    history.scaled(1, 5, NOW, None)
    assert history == ScaleHistory()
    history.scaled(1, 5, NOW, behavior)
    history.scaled(5, 2, NOW + 1, behavior)
    assert (history.added, history.removed) == ([(NOW, 4)], [(NOW + 1, 3)])
    history.scaled(2, 1, NOW + 30, behavior)
    assert (history.added, history.removed) == ([(NOW, 4)], [(NOW + 1, 3), (NOW + 30, 1)])
    history.scaled(2, 3, NOW + 90, behavior)
    assert (history.added, history.removed) == ([(NOW + 90, 1)], [])


def test_changes_are_kept_for_the_longest_period_of_a_policy() -> None:
    long = HPAScalingPolicy(type="Pods", value=4, period_seconds=120)
    behavior = spec(scale_up=HPAScalingRules(policies=(PODS,)), scale_down=HPAScalingRules(policies=(long,))).behavior
    history = ScaleHistory()
    history.scaled(1, 5, NOW, behavior)
    history.scaled(5, 6, NOW + 119, behavior)
    assert history.added == [(NOW, 4), (NOW + 119, 1)]
    history.scaled(6, 7, NOW + 120, behavior)
    assert history.added == [(NOW + 119, 1), (NOW + 120, 1)]


def test_changes_older_than_every_period_are_dropped() -> None:
    history, behavior = ScaleHistory(), spec(scale_up=HPAScalingRules(policies=(PODS,))).behavior
    for second in range(0, 600, 15):
        history.scaled(1, 2, NOW + second, behavior)
    assert len(history.added) == 4


@given(
    st.lists(st.tuples(st.floats(0, 600), st.integers(0, 50)), max_size=10),
    st.integers(1, 60),
    st.integers(0, 80),
    st.booleans(),
)
def test_result_is_within_bounds_and_never_overshoots(
    past: list[tuple[float, int]], current: int, desired: int, has_behavior: bool
) -> None:
    rules = {"scale_up": HPAScalingRules(policies=(PODS,)), "scale_down": HPAScalingRules(policies=(PERCENT,))}
    limits = spec(60, 1, **(rules if has_behavior else {}))
    found = limited_replicas(limits, recommended(*past), current, desired, NOW)
    assert 1 <= found.replicas <= 60
    if has_behavior:
        low, high = sorted((current, max(desired, 1)))
        assert low <= found.replicas <= high
