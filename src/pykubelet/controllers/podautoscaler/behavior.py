"""Limits how fast a workload is scaled: stabilisation windows and rate policies.

Without `spec.behavior`, replicas may double or grow to four per sync, and decrease to the highest recommendation of
the last five minutes. Times are those of a monotonic clock in seconds.

Upstream: pkg/controller/podautoscaler/horizontal.go
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pykubelet.api.generated.autoscaling import (
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
    HPAScalingPolicy,
    HPAScalingRules,
)

STABILIZATION_SECONDS = 300
"""kube-controller-manager's default of --horizontal-pod-autoscaler-downscale-stabilization."""
# Without policies the replicas at most double, and may always grow to this many.
_SCALE_UP_FACTOR, _SCALE_UP_LEAST = 2, 4
_HIGHEST_RECENT = "recent recommendations were higher than current one, applying the highest recent recommendation"
_LOWEST_RECENT = "recent recommendations were lower than current one, applying the lowest recent recommendation"
_TOO_FAST_UP = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_TOO_FAST_DOWN = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
_READY = ("ReadyForNewScale", "recommended size matches current size")


class TimedCount(NamedTuple):
    """A number of replicas, recommended, added or removed at a time."""

    at: float
    replicas: int


@dataclass(slots=True)
class ScaleHistory:
    """What an autoscaler has recommended and done as far as its windows and policies reach back."""

    recommendations: list[TimedCount] = field(default_factory=list)
    added: list[TimedCount] = field(default_factory=list)
    removed: list[TimedCount] = field(default_factory=list)

    def recommend(self, count: int, now: float, *, kept_seconds: float) -> None:
        """Adds a recommendation, and drops those that are older than `kept_seconds`."""
        kept = [one for one in self.recommendations if one.at > now - kept_seconds]
        self.recommendations = [*kept, TimedCount(now, count)]

    def scaled(self, current: int, new: int, now: float, behavior: HorizontalPodAutoscalerBehavior | None) -> None:
        """Adds a change of the replicas, and drops those that are older than every policy's period."""
        if behavior is None:
            return
        kept_seconds = max((policy.period_seconds for rules in _both(behavior) for policy in rules.policies), default=0)
        self.added = [one for one in self.added if one.at > now - kept_seconds]
        self.removed = [one for one in self.removed if one.at > now - kept_seconds]
        if new > current:
            self.added.append(TimedCount(now, new - current))
        else:
            self.removed.append(TimedCount(now, current - new))


class LimitedReplicas(NamedTuple):
    """The replicas to scale to, with reason and message of the conditions AbleToScale and ScalingLimited."""

    replicas: int
    able: tuple[str, str]
    is_limited: bool
    limit: tuple[str, str]


def limited_replicas(
    spec: HorizontalPodAutoscalerSpec, history: ScaleHistory, current: int, desired: int, now: float
) -> LimitedReplicas:
    """The replicas that windows, policies and bounds allow; records the recommendation."""
    least = min_replicas(spec)
    if spec.behavior is None:
        stable = _stabilized_down(history, desired, now)
        able = _READY if stable == desired else ("ScaleDownStabilized", _HIGHEST_RECENT)
        replicas, limit = _within_default_rate(spec, current, stable, least)
    else:
        stable = _stabilized(spec.behavior, history, current, desired, now)
        able = _READY
        if stable != desired:
            is_up = desired >= current
            able = ("ScaleUpStabilized", _LOWEST_RECENT) if is_up else ("ScaleDownStabilized", _HIGHEST_RECENT)
        replicas, limit = _within_policies(spec, spec.behavior, history, current, stable, least, now)
    return LimitedReplicas(replicas, able, replicas != stable, limit)


def min_replicas(spec: HorizontalPodAutoscalerSpec) -> int:
    return 1 if spec.min_replicas is None else spec.min_replicas


def _stabilized_down(history: ScaleHistory, desired: int, now: float) -> int:
    recent = [one.replicas for one in history.recommendations if one.at > now - STABILIZATION_SECONDS]
    history.recommend(desired, now, kept_seconds=STABILIZATION_SECONDS)
    return max(desired, *recent) if recent else desired


def _within_default_rate(
    spec: HorizontalPodAutoscalerSpec, current: int, desired: int, least: int
) -> tuple[int, tuple[str, str]]:
    fastest = max(_SCALE_UP_FACTOR * current, _SCALE_UP_LEAST)
    most, why = (fastest, _TOO_FAST_UP) if spec.max_replicas > fastest else (spec.max_replicas, _TOO_MANY)
    if desired < least:
        return least, _TOO_FEW
    return (most, why) if desired > most else (desired, _WITHIN)


def _stabilized(
    behavior: HorizontalPodAutoscalerBehavior, history: ScaleHistory, current: int, desired: int, now: float
) -> int:
    """The current replicas, moved as far as all recommendations of the windows agree."""
    up, down = _rules(behavior.scale_up), _rules(behavior.scale_down)
    up_seconds = up.stabilization_window_seconds or 0
    down_seconds = down.stabilization_window_seconds
    down_seconds = STABILIZATION_SECONDS if down_seconds is None else down_seconds
    recent = history.recommendations
    lowest = min((one.replicas for one in recent if one.at > now - up_seconds), default=desired)
    highest = max((one.replicas for one in recent if one.at > now - down_seconds), default=desired)
    history.recommend(desired, now, kept_seconds=max(up_seconds, down_seconds))
    return min(max(current, min(lowest, desired)), max(highest, desired))


def _within_policies(
    spec: HorizontalPodAutoscalerSpec,
    behavior: HorizontalPodAutoscalerBehavior,
    history: ScaleHistory,
    current: int,
    desired: int,
    least: int,
    now: float,
) -> tuple[int, tuple[str, str]]:
    if desired > current:
        fastest = max(scale_up_limit(_rules(behavior.scale_up), history, current, now), current)
        most, why = (fastest, _TOO_FAST_UP) if spec.max_replicas > fastest else (spec.max_replicas, _TOO_MANY)
        if desired > most:
            return most, why
    elif desired < current:
        fastest = min(scale_down_limit(_rules(behavior.scale_down), history, current, now), current)
        fewest, why = (fastest, _TOO_FAST_DOWN) if least < fastest else (least, _TOO_FEW)
        if desired < fewest:
            return fewest, why
    return desired, _WITHIN


def scale_up_limit(rules: HPAScalingRules, history: ScaleHistory, current: int, now: float) -> int:
    """The most replicas that the policies allow now."""
    if rules.select_policy == "Disabled":
        return current

    def limit(policy: HPAScalingPolicy) -> int:
        start = _at_period_start(policy, history, current, now)
        return start + policy.value if policy.type == "Pods" else math.ceil(start * (1 + policy.value / 100))

    choose = min if rules.select_policy == "Min" else max
    return choose(map(limit, rules.policies), default=current)


def scale_down_limit(rules: HPAScalingRules, history: ScaleHistory, current: int, now: float) -> int:
    """The fewest replicas that the policies allow now."""
    if rules.select_policy == "Disabled":
        return current

    def limit(policy: HPAScalingPolicy) -> int:
        start = _at_period_start(policy, history, current, now)
        return start - policy.value if policy.type == "Pods" else int(start * (1 - policy.value / 100))

    # The smallest change leaves the most replicas.
    choose = max if rules.select_policy == "Min" else min
    return choose(map(limit, rules.policies), default=current)


def _at_period_start(policy: HPAScalingPolicy, history: ScaleHistory, current: int, now: float) -> int:
    def since(changes: Iterable[TimedCount]) -> int:
        return sum(one.replicas for one in changes if one.at > now - policy.period_seconds)

    return current - since(history.added) + since(history.removed)


def _rules(rules: HPAScalingRules | None) -> HPAScalingRules:
    return HPAScalingRules() if rules is None else rules


def _both(behavior: HorizontalPodAutoscalerBehavior) -> tuple[HPAScalingRules, HPAScalingRules]:
    return _rules(behavior.scale_up), _rules(behavior.scale_down)
