"""Structs of the API group node; written by tools/generate_api.py, not by hand."""

from collections.abc import Mapping

from msgspec import Struct, field

from pykubelet.api.generated.core import Toleration
from pykubelet.api.generated.meta import ObjectMeta


class Overhead(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Overhead of node.v1."""

    pod_fixed: Mapping[str, str] = {}


class Scheduling(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Scheduling of node.v1."""

    node_selector: Mapping[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """RuntimeClass of node.v1."""

    api_version: str = field(default_factory=lambda: "node.k8s.io/v1")
    handler: str = field(default_factory=str)
    kind: str = field(default_factory=lambda: "RuntimeClass")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None
