"""Structs of the API group autoscaling; written by tools/generate_api.py, not by hand."""

from msgspec import Struct, field

from pykubelet.api.generated.meta import ObjectMeta


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
