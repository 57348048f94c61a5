"""Structs of the API group batch; written by tools/generate_api.py, not by hand."""

from types import NoneType

from msgspec import Struct, field

from pykubelet.api.generated.core import ObjectReference, PodTemplateSpec
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta


class PodFailurePolicyOnExitCodesRequirement(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodFailurePolicyOnExitCodesRequirement of batch.v1."""

    container_name: str | None = None
    operator: str = field(default_factory=str)
    values: tuple[int, ...] = ()


class PodFailurePolicyOnPodConditionsPattern(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodFailurePolicyOnPodConditionsPattern of batch.v1."""

    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class PodFailurePolicyRule(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodFailurePolicyRule of batch.v1."""

    action: str = field(default_factory=str)
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodFailurePolicyOnPodConditionsPattern, ...] = ()


class PodFailurePolicy(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodFailurePolicy of batch.v1."""

    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SuccessPolicyRule of batch.v1."""

    succeeded_count: int | None = None
    succeeded_indexes: str | None = None


class SuccessPolicy(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SuccessPolicy of batch.v1."""

    rules: tuple[SuccessPolicyRule, ...] = ()


class JobSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """JobSpec of batch.v1."""

    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    completion_mode: str | None = None
    completions: int | None = None
    managed_by: str | None = None
    manual_selector: bool | None = None
    max_failed_indexes: int | None = None
    parallelism: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: str | None = None
    selector: LabelSelector | None = None
    success_policy: SuccessPolicy | None = None
    suspend: bool | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    ttl_seconds_after_finished: int | None = None


class JobTemplateSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """JobTemplateSpec of batch.v1."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JobSpec = field(default_factory=JobSpec)


class CronJobSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CronJobSpec of batch.v1."""

    concurrency_policy: str = ""
    failed_jobs_history_limit: int | None = None
    job_template: JobTemplateSpec = field(default_factory=JobTemplateSpec)
    schedule: str = field(default_factory=str)
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int | None = None
    suspend: bool | None = None
    time_zone: str | None = None


class CronJobStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CronJobStatus of batch.v1."""

    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CronJob of batch.v1."""

    api_version: str = field(default_factory=lambda: "batch/v1")
    kind: str = field(default_factory=lambda: "CronJob")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: CronJobSpec = field(default_factory=CronJobSpec)
    status: CronJobStatus = field(default_factory=CronJobStatus)


class JobCondition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """JobCondition of batch.v1."""

    last_probe_time: str | None = field(default_factory=NoneType)
    last_transition_time: str | None = field(default_factory=NoneType)
    message: str = ""
    reason: str = ""
    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class UncountedTerminatedPods(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """UncountedTerminatedPods of batch.v1."""

    failed: tuple[str, ...] = ()
    succeeded: tuple[str, ...] = ()


class JobStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """JobStatus of batch.v1."""

    active: int = 0
    completed_indexes: str = ""
    completion_time: str | None = None
    conditions: tuple[JobCondition, ...] = ()
    failed: int = 0
    failed_indexes: str | None = None
    ready: int | None = None
    start_time: str | None = None
    succeeded: int = 0
    terminating: int | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class Job(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Job of batch.v1."""

    api_version: str = field(default_factory=lambda: "batch/v1")
    kind: str = field(default_factory=lambda: "Job")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)
