"""Structs of the API group discovery; written by tools/generate_api.py, not by hand."""

from collections.abc import Mapping

from msgspec import Struct, field

from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.generated.meta import ObjectMeta


class EndpointConditions(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EndpointConditions of discovery.v1."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class ForNode(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ForNode of discovery.v1."""

    name: str = field(default_factory=str)


class ForZone(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ForZone of discovery.v1."""

    name: str = field(default_factory=str)


class EndpointHints(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EndpointHints of discovery.v1."""

    for_nodes: tuple[ForNode, ...] = ()
    for_zones: tuple[ForZone, ...] = ()


class Endpoint(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Endpoint of discovery.v1."""

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = field(default_factory=EndpointConditions)
    deprecated_topology: Mapping[str, str] = {}
    hints: EndpointHints | None = None
    hostname: str | None = None
    node_name: str | None = None
    target_ref: ObjectReference | None = None
    zone: str | None = None


class EndpointPort(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EndpointPort of discovery.v1."""

    app_protocol: str | None = None
    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class EndpointSlice(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """EndpointSlice of discovery.v1."""

    address_type: str = field(default_factory=str)
    api_version: str = field(default_factory=lambda: "discovery.k8s.io/v1")
    endpoints: tuple[Endpoint, ...] = ()
    kind: str = field(default_factory=lambda: "EndpointSlice")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    ports: tuple[EndpointPort, ...] = ()
