"""The status of a HorizontalPodAutoscaler while it is synced.

Upstream: pkg/controller/podautoscaler/horizontal.go
"""

from datetime import datetime

from pykubelet.api.generated.autoscaling import (
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    MetricStatus,
)
from pykubelet.api.times import format_time

ABLE, ACTIVE, LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"


class StatusDraft:
    """The next status: starts as the old one, without current metrics. A failed sync keeps the desired replicas."""

    def __init__(self, old: HorizontalPodAutoscalerStatus, now: datetime) -> None:
        self._old, self._now = old, now
        self._conditions = {condition.type: condition for condition in old.conditions}
        self._last_scale_time = old.last_scale_time
        self.current_replicas, self.desired_replicas = old.current_replicas, old.desired_replicas
        self.current_metrics: tuple[MetricStatus, ...] = ()

    def set(self, kind: str, is_true: bool, reason: str, message: str) -> None:
        """Sets a condition; its transition time changes only with its status."""
        status, old = "True" if is_true else "False", self._conditions.get(kind)
        since = old.last_transition_time if old is not None and old.status == status else format_time(self._now)
        self._conditions[kind] = HorizontalPodAutoscalerCondition(
            type=kind, status=status, reason=reason, message=message, last_transition_time=since
        )

    def scaled(self) -> None:
        """Records that the target was scaled now."""
        self._last_scale_time = format_time(self._now)

    def status(self) -> HorizontalPodAutoscalerStatus:
        return HorizontalPodAutoscalerStatus(
            conditions=tuple(self._conditions.values()),
            current_metrics=self.current_metrics,
            current_replicas=self.current_replicas,
            desired_replicas=self.desired_replicas,
            last_scale_time=self._last_scale_time,
            observed_generation=self._old.observed_generation,
        )
