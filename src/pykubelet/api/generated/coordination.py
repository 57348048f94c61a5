"""Structs of the API group coordination; written by tools/generate_api.py, not by hand."""

from msgspec import Struct, field

from pykubelet.api.generated.meta import ObjectMeta


class LeaseSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """LeaseSpec of coordination.v1."""

    acquire_time: str | None = None
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    preferred_holder: str | None = None
    renew_time: str | None = None
    strategy: str | None = None


class Lease(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Lease of coordination.v1."""

    api_version: str = field(default_factory=lambda: "coordination.k8s.io/v1")
    kind: str = field(default_factory=lambda: "Lease")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: LeaseSpec = field(default_factory=LeaseSpec)
