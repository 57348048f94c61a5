"""Structs of the API group policy; written by tools/generate_api.py, not by hand."""

from msgspec import Struct, field

from pykubelet.api.generated.meta import DeleteOptions, ObjectMeta


class Eviction(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Eviction of policy.v1."""

    api_version: str = field(default_factory=lambda: "policy/v1")
    delete_options: DeleteOptions | None = None
    kind: str = field(default_factory=lambda: "Eviction")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
