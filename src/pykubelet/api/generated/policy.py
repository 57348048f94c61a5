"""Structs of the API group policy; written by tools/generate_api.py, not by hand."""

from collections.abc import Mapping

from msgspec import Struct, field

from pykubelet.api.generated.meta import Condition, DeleteOptions, LabelSelector, ObjectMeta


class Eviction(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Eviction of policy.v1."""

    api_version: str = field(default_factory=lambda: "policy/v1")
    delete_options: DeleteOptions | None = None
    kind: str = field(default_factory=lambda: "Eviction")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class PodDisruptionBudgetSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodDisruptionBudgetSpec of policy.v1."""

    max_unavailable: int | str | None = None
    min_available: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodDisruptionBudgetStatus of policy.v1."""

    conditions: tuple[Condition, ...] = ()
    current_healthy: int = field(default_factory=int)
    desired_healthy: int = field(default_factory=int)
    disrupted_pods: Mapping[str, str] = {}
    disruptions_allowed: int = field(default_factory=int)
    expected_pods: int = field(default_factory=int)
    observed_generation: int = 0


class PodDisruptionBudget(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PodDisruptionBudget of policy.v1."""

    api_version: str = field(default_factory=lambda: "policy/v1")
    kind: str = field(default_factory=lambda: "PodDisruptionBudget")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)
