"""Structs of the API group scheduling; written by tools/generate_api.py, not by hand."""

from msgspec import Struct, field

from pykubelet.api.generated.meta import ObjectMeta


class PriorityClass(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """PriorityClass of scheduling.v1."""

    api_version: str = field(default_factory=lambda: "scheduling.k8s.io/v1")
    description: str = ""
    global_default: bool = False
    kind: str = field(default_factory=lambda: "PriorityClass")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    preemption_policy: str | None = None
    value: int = field(default_factory=int)
