"""Service: its defaults, update rules, warnings and columns.

Admission allocates addresses and ports before these rules apply.

Upstream: pkg/registry/core/service/strategy.go, pkg/apis/core/v1/defaults.go, pkg/api/service/warnings.go
"""

from collections.abc import Mapping
from typing import Any

from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.addresses import (
    cidr_warnings,
    ip_warnings,
    ips_warnings,
    load_balancer_addresses,
    load_balancer_warnings,
)
from pykubelet.kinds.columns import NONE, UNKNOWN, at, created, format_labels, name_of
from pykubelet.kinds.kind import Kind, Strategy, Warnings, metadata_fields, restore_spec, without_fields
from pykubelet.kinds.service.validation import (
    ROUTED_TYPES,
    TOPOLOGY_HINTS,
    TOPOLOGY_MODE,
    is_externally_accessible,
    needs_health_check,
    service_create_errors,
    service_status_errors,
    service_update_errors,
)

_WITH_NODE_PORTS = frozenset({"LoadBalancer", "NodePort"})


def _default(document: Document) -> Document:
    service = normal_form(document, "core.v1.Service")
    spec: Document = {"sessionAffinity": "None", "type": "ClusterIP", **service["spec"]}
    kind = spec["type"]
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.get("sessionAffinityConfig", {})
        if "timeoutSeconds" not in config.get("clientIP", {}):
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    if "ports" in spec:
        spec["ports"] = [_default_port(port) for port in spec["ports"]]
    if is_externally_accessible(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ROUTED_TYPES:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    status = service["status"]
    if kind == "LoadBalancer" and (ingress := status["loadBalancer"].get("ingress")):
        status = {**status, "loadBalancer": {"ingress": [_default_ingress(each) for each in ingress]}}
    return {**service, "spec": spec, "status": status}


def _default_port(port: Document) -> Document:
    return {"protocol": "TCP", **port, "targetPort": port["targetPort"] or port["port"]}


def _default_ingress(ingress: Document) -> Document:
    return {"ipMode": "VIP", **ingress} if ingress.get("ip") else ingress


def _prepare_create(service: Document) -> Document:
    """Resets the status; a client that names one address need not repeat it in the list of addresses."""
    spec = service["spec"]
    if address := spec.get("clusterIP"):
        spec = {"clusterIPs": [address], **spec}
    return {**service, "spec": spec, "status": {"loadBalancer": {}}}


def _prepare_update(new: Document, old: Document) -> Document:
    spec = _without_stale_fields(new["spec"], old["spec"])
    status = old["status"] if spec["type"] == "LoadBalancer" else {**old["status"], "loadBalancer": {}}
    return {**new, "spec": spec, "status": status}


def _without_stale_fields(new: Document, old: Document) -> Document:
    """The spec without fields that only the old service type used, unless the update changes them."""
    stale: list[str] = []
    kind, old_kind = new["type"], old["type"]
    if kind == "ExternalName" != old_kind:
        if _is_unchanged(new, old, "clusterIP") and _is_unchanged(new, old, "clusterIPs"):
            stale += ["clusterIP", "clusterIPs"]
        stale += [name for name in ("ipFamilies", "ipFamilyPolicy") if _is_unchanged(new, old, name)]
    if needs_health_check(old) and not needs_health_check(new) and _is_unchanged(new, old, "healthCheckNodePort"):
        stale.append("healthCheckNodePort")
    if old_kind == "LoadBalancer" != kind:
        names = ("allocateLoadBalancerNodePorts", "loadBalancerClass")
        stale += [name for name in names if _is_unchanged(new, old, name)]
    becomes_internal = is_externally_accessible(old) and not is_externally_accessible(new)
    if becomes_internal and _is_unchanged(new, old, "externalTrafficPolicy"):
        stale.append("externalTrafficPolicy")
    result = without_fields(new, *stale)
    if old_kind in _WITH_NODE_PORTS and kind not in _WITH_NODE_PORTS and _node_ports(new) <= _node_ports(old):
        result["ports"] = [without_fields(port, "nodePort") for port in new.get("ports", ())]
    return result


def _is_unchanged(new: Document, old: Document, name: str) -> bool:
    return bool(new.get(name) == old.get(name))


def _node_ports(spec: Document) -> set[Any]:
    return {port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")}


def service_warnings(document: Document) -> list[str]:
    """Warns about addresses, and about fields that the service type ignores."""
    spec, annotations = document["spec"], document["metadata"].get("annotations", {})
    warnings: list[str] = []
    if TOPOLOGY_HINTS in annotations:
        warnings.append(f"annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead")
    if spec.get("clusterIP", "") not in ("", "None"):
        warnings += ips_warnings(spec.get("clusterIPs", ()), "spec.clusterIPs")
    elif spec.get("clusterIP") == "None" and spec.get("type") == "ClusterIP":
        warnings += _headless_warnings(spec)
    external = spec.get("externalIPs", ())
    warnings += ips_warnings(external, "spec.externalIPs")
    warnings += ip_warnings(spec.get("loadBalancerIP", ""), "spec.loadBalancerIP")
    for index, cidr in enumerate(spec.get("loadBalancerSourceRanges", ())):
        warnings += cidr_warnings(cidr, f"spec.loadBalancerSourceRanges[{index}]")
    if spec.get("type") == "ExternalName" and external:
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if spec.get("type") != "ExternalName" and spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    return warnings


def _headless_warnings(spec: Document) -> list[str]:
    ignored = {
        "loadBalancerIP": bool(spec.get("loadBalancerIP")),
        "externalIPs": bool(spec.get("externalIPs")),
        "SessionAffinity": spec.get("sessionAffinity", "") != "None",
    }
    return [f"spec.{name} is ignored for headless services" for name, is_set in ignored.items() if is_set]


def _fields(service: Document) -> Mapping[str, str]:
    spec = service["spec"]
    return {**metadata_fields(service), "spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, type, cluster IP, external IP, ports, age, selector."""
    spec = at(document, "spec")
    cluster_ips = spec.get("clusterIPs")
    return [
        name_of(document),
        spec.get("type", ""),
        cluster_ips[0] if cluster_ips else NONE,
        _external_ip(document),
        ",".join(map(_service_port, spec.get("ports") or ())) or NONE,
        created(document, age),
        format_labels(at(spec, "selector")),
    ]


def _external_ip(document: Document) -> str:
    spec = at(document, "spec")
    external: list[str] = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            balancer = load_balancer_addresses(document)
            return ",".join([balancer, *external] if balancer else external) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return UNKNOWN


def _service_port(port: Document) -> str:
    number, node_port = port.get("port", 0), port.get("nodePort", 0)
    shown = f"{number}:{node_port}" if node_port > 0 else str(number)
    return f"{shown}/{port.get('protocol', '')}"


KIND = Kind(
    resource=Resource("", "v1", "services", "Service"),
    definition="core.v1.Service",
    short_names=("svc",),
    categories=("all",),
    subresources=("proxy", "status"),
    strategy=Strategy(
        default=_default,
        prepare_create=_prepare_create,
        validate_create=service_create_errors,
        prepare_update=_prepare_update,
        validate_update=service_update_errors,
        prepare_status=restore_spec,
        validate_status=service_status_errors,
        warnings=Warnings.always(service_warnings, status=load_balancer_warnings),
        fields=_fields,
        allows_create_on_update=True,
    ),
    cells=_cells,
)
