"""Structs of the API group storage; written by tools/generate_api.py, not by hand."""

from collections.abc import Mapping

from msgspec import Struct, field

from pykubelet.api.generated.core import TopologySelectorTerm
from pykubelet.api.generated.meta import ObjectMeta


class StorageClass(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """StorageClass of storage.v1."""

    allow_volume_expansion: bool | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
    api_version: str = field(default_factory=lambda: "storage.k8s.io/v1")
    kind: str = field(default_factory=lambda: "StorageClass")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    mount_options: tuple[str, ...] = ()
    parameters: Mapping[str, str] = {}
    provisioner: str = field(default_factory=str)
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None
