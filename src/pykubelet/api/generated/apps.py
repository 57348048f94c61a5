"""Structs of the API group apps; written by tools/generate_api.py, not by hand."""

from types import NoneType
from typing import Any

from msgspec import Struct, field

from pykubelet.api.generated.core import PersistentVolumeClaim, PodTemplateSpec
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta


class ControllerRevision(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ControllerRevision of apps.v1."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    data: Any = None
    kind: str = field(default_factory=lambda: "ControllerRevision")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    revision: int = field(default_factory=int)


class RollingUpdateDaemonSet(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """RollingUpdateDaemonSet of apps.v1."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class DaemonSetUpdateStrategy(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DaemonSetUpdateStrategy of apps.v1."""

    rolling_update: RollingUpdateDaemonSet | None = None
    type: str = ""


class DaemonSetSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DaemonSetSpec of apps.v1."""

    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    update_strategy: DaemonSetUpdateStrategy = field(default_factory=DaemonSetUpdateStrategy)


class DaemonSetCondition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DaemonSetCondition of apps.v1."""

    last_transition_time: str | None = field(default_factory=NoneType)
    message: str = ""
    reason: str = ""
    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class DaemonSetStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DaemonSetStatus of apps.v1."""

    collision_count: int | None = None
    conditions: tuple[DaemonSetCondition, ...] = ()
    current_number_scheduled: int = field(default_factory=int)
    desired_number_scheduled: int = field(default_factory=int)
    number_available: int = 0
    number_misscheduled: int = field(default_factory=int)
    number_ready: int = field(default_factory=int)
    number_unavailable: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0


class DaemonSet(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DaemonSet of apps.v1."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "DaemonSet")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DaemonSetSpec = field(default_factory=DaemonSetSpec)
    status: DaemonSetStatus = field(default_factory=DaemonSetStatus)


class RollingUpdateDeployment(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """RollingUpdateDeployment of apps.v1."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class DeploymentStrategy(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DeploymentStrategy of apps.v1."""

    rolling_update: RollingUpdateDeployment | None = None
    type: str = ""


class DeploymentSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DeploymentSpec of apps.v1."""

    min_ready_seconds: int = 0
    paused: bool = False
    progress_deadline_seconds: int | None = None
    replicas: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector | None = None
    strategy: DeploymentStrategy = field(default_factory=DeploymentStrategy)
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)


class DeploymentCondition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DeploymentCondition of apps.v1."""

    last_transition_time: str | None = field(default_factory=NoneType)
    last_update_time: str | None = field(default_factory=NoneType)
    message: str = ""
    reason: str = ""
    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class DeploymentStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DeploymentStatus of apps.v1."""

    available_replicas: int = 0
    collision_count: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()
    observed_generation: int = 0
    ready_replicas: int = 0
    replicas: int = 0
    terminating_replicas: int | None = None
    unavailable_replicas: int = 0
    updated_replicas: int = 0


class Deployment(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Deployment of apps.v1."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "Deployment")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DeploymentSpec = field(default_factory=DeploymentSpec)
    status: DeploymentStatus = field(default_factory=DeploymentStatus)


class ReplicaSetSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ReplicaSetSpec of apps.v1."""

    min_ready_seconds: int = 0
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)


class ReplicaSetCondition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ReplicaSetCondition of apps.v1."""

    last_transition_time: str | None = field(default_factory=NoneType)
    message: str = ""
    reason: str = ""
    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class ReplicaSetStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ReplicaSetStatus of apps.v1."""

    available_replicas: int = 0
    conditions: tuple[ReplicaSetCondition, ...] = ()
    fully_labeled_replicas: int = 0
    observed_generation: int = 0
    ready_replicas: int = 0
    replicas: int = field(default_factory=int)
    terminating_replicas: int | None = None


class ReplicaSet(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ReplicaSet of apps.v1."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "ReplicaSet")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ReplicaSetSpec = field(default_factory=ReplicaSetSpec)
    status: ReplicaSetStatus = field(default_factory=ReplicaSetStatus)


class RollingUpdateStatefulSetStrategy(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """RollingUpdateStatefulSetStrategy of apps.v1."""

    max_unavailable: int | str | None = None
    partition: int | None = None


class StatefulSetOrdinals(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """StatefulSetOrdinals of apps.v1."""

    start: int = field(default_factory=int)


class StatefulSetPersistentVolumeClaimRetentionPolicy(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """StatefulSetPersistentVolumeClaimRetentionPolicy of apps.v1."""

    when_deleted: str = ""
    when_scaled: str = ""


class StatefulSetUpdateStrategy(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """StatefulSetUpdateStrategy of apps.v1."""

    rolling_update: RollingUpdateStatefulSetStrategy | None = None
    type: str = ""


class StatefulSetSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """StatefulSetSpec of apps.v1."""

    min_ready_seconds: int = 0
    ordinals: StatefulSetOrdinals | None = None
    persistent_volume_claim_retention_policy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = None
    pod_management_policy: str = ""
    replicas: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector | None = None
    service_name: str = field(default_factory=str)
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    update_strategy: StatefulSetUpdateStrategy = field(default_factory=StatefulSetUpdateStrategy)
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()


class StatefulSetCondition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """StatefulSetCondition of apps.v1."""

    last_transition_time: str | None = field(default_factory=NoneType)
    message: str = ""
    reason: str = ""
    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class StatefulSetStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """StatefulSetStatus of apps.v1."""

    available_replicas: int = field(default_factory=int)
    collision_count: int | None = None
    conditions: tuple[StatefulSetCondition, ...] = ()
    current_replicas: int = 0
    current_revision: str = ""
    observed_generation: int = 0
    ready_replicas: int = 0
    replicas: int = field(default_factory=int)
    update_revision: str = ""
    updated_replicas: int = 0


class StatefulSet(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """StatefulSet of apps.v1."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "StatefulSet")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: StatefulSetSpec = field(default_factory=StatefulSetSpec)
    status: StatefulSetStatus = field(default_factory=StatefulSetStatus)
