"""Warnings about services, endpoints, ingresses, network policies and the networks of nodes.

Upstream: pkg/api/service/warnings.go and the strategies in pkg/registry/{core,discovery,networking}
"""

from pykubelet.api.warnings.addresses import cidr_warnings, ip_warnings
from pykubelet.api.wire import Document

_HINTS, _TOPOLOGY_MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
_INGRESS_CLASS = "kubernetes.io/ingress.class"
_EXTERNAL_NAME = "ExternalName"
# Upstream's own controllers write no address that it would warn of, so theirs are not looked at.
_ENDPOINTS_MANAGER = ("endpoints.kubernetes.io/managed-by", frozenset({"endpoint-controller"}))
_SLICE_MANAGERS = (
    "endpointslice.kubernetes.io/managed-by",
    frozenset({"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"}),
)


def service_warnings(document: Document) -> list[str]:
    """About a Service."""
    spec, annotations = document["spec"], document["metadata"].get("annotations", {})
    warnings: list[str] = []
    if _HINTS in annotations:
        warnings.append(f"annotation {_HINTS} is deprecated, please use {_TOPOLOGY_MODE} instead")
    if spec.get("clusterIP", "") not in ("", "None"):
        warnings += _ips_warnings(spec.get("clusterIPs", ()), "spec.clusterIPs")
    elif spec.get("clusterIP") == "None" and spec.get("type") == "ClusterIP":
        warnings += _headless_warnings(spec)
    external, balancer = spec.get("externalIPs", ()), spec.get("loadBalancerIP", "")
    warnings += _ips_warnings(external, "spec.externalIPs")
    warnings += ip_warnings(balancer, "spec.loadBalancerIP")
    for index, cidr in enumerate(spec.get("loadBalancerSourceRanges", ())):
        warnings += cidr_warnings(cidr, f"spec.loadBalancerSourceRanges[{index}]")
    if spec.get("type") == _EXTERNAL_NAME:
        return (
            [*warnings, f'spec.externalIPs is ignored when spec.type is "{_EXTERNAL_NAME}"'] if external else warnings
        )
    if spec.get("externalName"):
        warnings.append(f'spec.externalName is ignored when spec.type is not "{_EXTERNAL_NAME}"')
    return warnings


def load_balancer_warnings(document: Document, _old: Document) -> list[str]:
    """About the addresses in the status of a Service or an Ingress."""
    ingress = document.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    return _ips_warnings([each.get("ip", "") for each in ingress], "status.loadBalancer.ingress")


def ingress_warnings(document: Document) -> list[str]:
    """About a new Ingress."""
    if _INGRESS_CLASS in document["metadata"].get("annotations", {}) and "ingressClassName" not in document["spec"]:
        return [f"annotation \"{_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"]
    return []


def endpoints_warnings(document: Document) -> list[str]:
    """About Endpoints."""
    if _is_managed(document, *_ENDPOINTS_MANAGER):
        return []
    return [
        warning
        for index, subset in enumerate(document.get("subsets", ()))
        for kind in ("addresses", "notReadyAddresses")
        for place, address in enumerate(subset.get(kind, ()))
        for warning in ip_warnings(address.get("ip", ""), f"subsets[{index}].{kind}[{place}].ip")
    ]


def endpoint_slice_warnings(document: Document) -> list[str]:
    """About a new EndpointSlice; the path is upstream's."""
    warnings = _slice_address_warnings(document)
    is_old = document.get("addressType") == "FQDN"
    return ["spec.addressType: FQDN endpoints are deprecated", *warnings] if is_old else warnings


def endpoint_slice_change_warnings(new: Document, _old: Document) -> list[str]:
    """About a changed EndpointSlice, whose type is what it was."""
    return _slice_address_warnings(new)


def _slice_address_warnings(document: Document) -> list[str]:
    if _is_managed(document, *_SLICE_MANAGERS):
        return []
    return [
        warning
        for index, endpoint in enumerate(document.get("endpoints") or ())
        for warning in _ips_warnings(endpoint.get("addresses", ()), f"endpoints[{index}].addresses")
    ]


def network_policy_warnings(document: Document) -> list[str]:
    """About a NetworkPolicy."""
    warnings: list[str] = []
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(document.get("spec", {}).get(direction, ())):
            for place, peer in enumerate(rule.get(peers, ())):
                if (block := peer.get("ipBlock")) is None:
                    continue
                path = f"spec.{direction}[{index}].{peers}[{place}].ipBlock"
                warnings += cidr_warnings(block.get("cidr", ""), f"{path}.cidr")
                for exception, cidr in enumerate(block.get("except", ())):
                    warnings += cidr_warnings(cidr, f"{path}.except[{exception}]")
    return warnings


def node_warnings(document: Document) -> list[str]:
    """About a Node."""
    spec = document["spec"]
    warnings: list[str] = []
    if "configSource" in spec:
        warnings.append("spec.configSource: the feature is removed")
    if spec.get("externalID"):
        warnings.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    for index, cidr in enumerate(spec.get("podCIDRs", ())):
        warnings += cidr_warnings(cidr, f"spec.podCIDRs[{index}]")
    return warnings


def _headless_warnings(spec: Document) -> list[str]:
    ignored = {
        "loadBalancerIP": bool(spec.get("loadBalancerIP")),
        "externalIPs": bool(spec.get("externalIPs")),
        "SessionAffinity": spec.get("sessionAffinity", "") != "None",
    }
    return [f"spec.{name} is ignored for headless services" for name, is_set in ignored.items() if is_set]


def _ips_warnings(texts: list[str] | tuple[str, ...], path: str) -> list[str]:
    return [warning for index, text in enumerate(texts) for warning in ip_warnings(text, f"{path}[{index}]")]


def _is_managed(document: Document, label: str, managers: frozenset[str]) -> bool:
    return document["metadata"].get("labels", {}).get(label) in managers
