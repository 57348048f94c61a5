"""Structs of the API group autoscaling; written by tools/generate_api.py, not by hand."""

from types import NoneType

from msgspec import Struct, field

from pykubelet.api.generated.meta import LabelSelector, ObjectMeta


class ScaleSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ScaleSpec of autoscaling.v1."""

    replicas: int = 0


class ScaleStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ScaleStatus of autoscaling.v1."""

    replicas: int = field(default_factory=int)
    selector: str = ""


class Scale(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Scale of autoscaling.v1."""

    api_version: str = field(default_factory=lambda: "autoscaling/v1")
    kind: str = field(default_factory=lambda: "Scale")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ScaleSpec = field(default_factory=ScaleSpec)
    status: ScaleStatus = field(default_factory=ScaleStatus)


class MetricTarget(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """MetricTarget of autoscaling.v2."""

    average_utilization: int | None = None
    average_value: str | None = None
    type: str = field(default_factory=str)
    value: str | None = None


class ContainerResourceMetricSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerResourceMetricSource of autoscaling.v2."""

    container: str = field(default_factory=str)
    name: str = field(default_factory=str)
    target: MetricTarget = field(default_factory=MetricTarget)


class MetricValueStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """MetricValueStatus of autoscaling.v2."""

    average_utilization: int | None = None
    average_value: str | None = None
    value: str | None = None


class ContainerResourceMetricStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ContainerResourceMetricStatus of autoscaling.v2."""

    container: str = field(default_factory=str)
    current: MetricValueStatus = field(default_factory=MetricValueStatus)
    name: str = field(default_factory=str)


class CrossVersionObjectReference(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CrossVersionObjectReference of autoscaling.v2."""

    api_version: str = ""
    kind: str = field(default_factory=str)
    name: str = field(default_factory=str)


class MetricIdentifier(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """MetricIdentifier of autoscaling.v2."""

    name: str = field(default_factory=str)
    selector: LabelSelector | None = None


class ExternalMetricSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ExternalMetricSource of autoscaling.v2."""

    metric: MetricIdentifier = field(default_factory=MetricIdentifier)
    target: MetricTarget = field(default_factory=MetricTarget)


class ExternalMetricStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ExternalMetricStatus of autoscaling.v2."""

    current: MetricValueStatus = field(default_factory=MetricValueStatus)
    metric: MetricIdentifier = field(default_factory=MetricIdentifier)


class HPAScalingPolicy(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HPAScalingPolicy of autoscaling.v2."""

    period_seconds: int = field(default_factory=int)
    type: str = field(default_factory=str)
    value: int = field(default_factory=int)


class HPAScalingRules(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HPAScalingRules of autoscaling.v2."""

    policies: tuple[HPAScalingPolicy, ...] = ()
    select_policy: str | None = None
    stabilization_window_seconds: int | None = None
    tolerance: str | None = None


class HorizontalPodAutoscalerBehavior(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HorizontalPodAutoscalerBehavior of autoscaling.v2."""

    scale_down: HPAScalingRules | None = None
    scale_up: HPAScalingRules | None = None


class ObjectMetricSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ObjectMetricSource of autoscaling.v2."""

    described_object: CrossVersionObjectReference = field(default_factory=CrossVersionObjectReference)
    metric: MetricIdentifier = field(default_factory=MetricIdentifier)
    target: MetricTarget = field(default_factory=MetricTarget)


class PodsMetricSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodsMetricSource of autoscaling.v2."""

    metric: MetricIdentifier = field(default_factory=MetricIdentifier)
    target: MetricTarget = field(default_factory=MetricTarget)


class ResourceMetricSource(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ResourceMetricSource of autoscaling.v2."""

    name: str = field(default_factory=str)
    target: MetricTarget = field(default_factory=MetricTarget)


class MetricSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """MetricSpec of autoscaling.v2."""

    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    type: str = field(default_factory=str)


class HorizontalPodAutoscalerSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HorizontalPodAutoscalerSpec of autoscaling.v2."""

    behavior: HorizontalPodAutoscalerBehavior | None = None
    max_replicas: int = field(default_factory=int)
    metrics: tuple[MetricSpec, ...] = ()
    min_replicas: int | None = None
    scale_target_ref: CrossVersionObjectReference = field(default_factory=CrossVersionObjectReference)


class HorizontalPodAutoscalerCondition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HorizontalPodAutoscalerCondition of autoscaling.v2."""

    last_transition_time: str | None = field(default_factory=NoneType)
    message: str = ""
    reason: str = ""
    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class ObjectMetricStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ObjectMetricStatus of autoscaling.v2."""

    current: MetricValueStatus = field(default_factory=MetricValueStatus)
    described_object: CrossVersionObjectReference = field(default_factory=CrossVersionObjectReference)
    metric: MetricIdentifier = field(default_factory=MetricIdentifier)


class PodsMetricStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodsMetricStatus of autoscaling.v2."""

    current: MetricValueStatus = field(default_factory=MetricValueStatus)
    metric: MetricIdentifier = field(default_factory=MetricIdentifier)


class ResourceMetricStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ResourceMetricStatus of autoscaling.v2."""

    current: MetricValueStatus = field(default_factory=MetricValueStatus)
    name: str = field(default_factory=str)


class MetricStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """MetricStatus of autoscaling.v2."""

    container_resource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    type: str = field(default_factory=str)


class HorizontalPodAutoscalerStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HorizontalPodAutoscalerStatus of autoscaling.v2."""

    conditions: tuple[HorizontalPodAutoscalerCondition, ...] = ()
    current_metrics: tuple[MetricStatus, ...] = ()
    current_replicas: int = 0
    desired_replicas: int = field(default_factory=int)
    last_scale_time: str | None = None
    observed_generation: int | None = None


class HorizontalPodAutoscaler(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HorizontalPodAutoscaler of autoscaling.v2."""

    api_version: str = field(default_factory=lambda: "autoscaling/v2")
    kind: str = field(default_factory=lambda: "HorizontalPodAutoscaler")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: HorizontalPodAutoscalerSpec = field(default_factory=HorizontalPodAutoscalerSpec)
    status: HorizontalPodAutoscalerStatus = field(default_factory=HorizontalPodAutoscalerStatus)
