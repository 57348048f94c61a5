"""Structs of the API group networking; written by tools/generate_api.py, not by hand."""

from msgspec import Struct, field

from pykubelet.api.generated.core import TypedLocalObjectReference
from pykubelet.api.generated.meta import Condition, ObjectMeta


class ServiceBackendPort(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ServiceBackendPort of networking.v1."""

    name: str = ""
    number: int = 0


class IngressServiceBackend(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IngressServiceBackend of networking.v1."""

    name: str = field(default_factory=str)
    port: ServiceBackendPort = field(default_factory=ServiceBackendPort)


class IngressBackend(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IngressBackend of networking.v1."""

    resource: TypedLocalObjectReference | None = None
    service: IngressServiceBackend | None = None


class HTTPIngressPath(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HTTPIngressPath of networking.v1."""

    backend: IngressBackend = field(default_factory=IngressBackend)
    path: str = ""
    path_type: str | None = None


class HTTPIngressRuleValue(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """HTTPIngressRuleValue of networking.v1."""

    paths: tuple[HTTPIngressPath, ...] = ()


class ParentReference(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ParentReference of networking.v1."""

    group: str = ""
    name: str = ""
    namespace: str = ""
    resource: str = ""


class IPAddressSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IPAddressSpec of networking.v1."""

    parent_ref: ParentReference | None = None


class IPAddress(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IPAddress of networking.v1."""

    api_version: str = field(default_factory=lambda: "networking.k8s.io/v1")
    kind: str = field(default_factory=lambda: "IPAddress")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: IPAddressSpec = field(default_factory=IPAddressSpec)


class IngressRule(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IngressRule of networking.v1."""

    host: str = ""
    http: HTTPIngressRuleValue | None = None


class IngressTLS(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IngressTLS of networking.v1."""

    hosts: tuple[str, ...] = ()
    secret_name: str = ""


class IngressSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IngressSpec of networking.v1."""

    default_backend: IngressBackend | None = None
    ingress_class_name: str | None = None
    rules: tuple[IngressRule, ...] = ()
    tls: tuple[IngressTLS, ...] = ()


class IngressPortStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IngressPortStatus of networking.v1."""

    error: str | None = None
    port: int = field(default_factory=int)
    protocol: str = field(default_factory=str)


class IngressLoadBalancerIngress(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IngressLoadBalancerIngress of networking.v1."""

    hostname: str = ""
    ip: str = ""
    ports: tuple[IngressPortStatus, ...] = ()


class IngressLoadBalancerStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IngressLoadBalancerStatus of networking.v1."""

    ingress: tuple[IngressLoadBalancerIngress, ...] = ()


class IngressStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IngressStatus of networking.v1."""

    load_balancer: IngressLoadBalancerStatus = field(default_factory=IngressLoadBalancerStatus)


class Ingress(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Ingress of networking.v1."""

    api_version: str = field(default_factory=lambda: "networking.k8s.io/v1")
    kind: str = field(default_factory=lambda: "Ingress")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: IngressSpec = field(default_factory=IngressSpec)
    status: IngressStatus = field(default_factory=IngressStatus)


class IngressClassParametersReference(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IngressClassParametersReference of networking.v1."""

    api_group: str | None = None
    kind: str = field(default_factory=str)
    name: str = field(default_factory=str)
    namespace: str | None = None
    scope: str | None = None


class IngressClassSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IngressClassSpec of networking.v1."""

    controller: str = ""
    parameters: IngressClassParametersReference | None = None


class IngressClass(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """IngressClass of networking.v1."""

    api_version: str = field(default_factory=lambda: "networking.k8s.io/v1")
    kind: str = field(default_factory=lambda: "IngressClass")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: IngressClassSpec = field(default_factory=IngressClassSpec)


class ServiceCIDRSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ServiceCIDRSpec of networking.v1."""

    cidrs: tuple[str, ...] = ()


class ServiceCIDRStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ServiceCIDRStatus of networking.v1."""

    conditions: tuple[Condition, ...] = ()


class ServiceCIDR(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ServiceCIDR of networking.v1."""

    api_version: str = field(default_factory=lambda: "networking.k8s.io/v1")
    kind: str = field(default_factory=lambda: "ServiceCIDR")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ServiceCIDRSpec = field(default_factory=ServiceCIDRSpec)
    status: ServiceCIDRStatus = field(default_factory=ServiceCIDRStatus)
