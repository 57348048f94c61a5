"""How fast an autoscaler may scale: windows, rate policies and bounds."""

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
