"""The rules of services; `service_allocation` gives them addresses and ports before these apply.

Upstream: pkg/registry/core/service/strategy.go, SetDefaults_Service in pkg/apis/core/v1/defaults.go
"""

from collections.abc import Mapping
from typing import Any

from pykubelet.api.normal_form import normal_form
from pykubelet.api.serializer import Document
from pykubelet.kinds.addresses import load_balancer_warnings, service_warnings
from pykubelet.kinds.kind import Strategy, Warnings, metadata_fields
from pykubelet.kinds.service.validation import (
    is_externally_accessible,
    needs_health_check,
    service_create_errors,
    service_status_errors,
    service_update_errors,
)

_AFFINITY_SECONDS = 10800
_ROUTED_TYPES = frozenset({"ClusterIP", "LoadBalancer", "NodePort"})
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
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
    if "ports" in spec:
        spec["ports"] = [_port(port) for port in spec["ports"]]
    if is_externally_accessible(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in _ROUTED_TYPES:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    status = service["status"]
    if kind == "LoadBalancer" and status["loadBalancer"].get("ingress"):
        status = {**status, "loadBalancer": {"ingress": [_ingress(each) for each in status["loadBalancer"]["ingress"]]}}
    return {**service, "spec": spec, "status": status}


def _port(port: Document) -> Document:
    return {"protocol": "TCP", **port, "targetPort": port["targetPort"] or port["port"]}


def _ingress(ingress: Document) -> Document:
    return {"ipMode": "VIP", **ingress} if ingress.get("ip") else ingress


def _prepare_create(service: Document) -> Document:
    return {**service, "status": {"loadBalancer": {}}}


def _prepare_update(new: Document, old: Document) -> Document:
    spec = _without_stale_fields(new["spec"], old["spec"])
    status = old["status"] if spec["type"] == "LoadBalancer" else {**old["status"], "loadBalancer": {}}
    return {**new, "spec": spec, "status": status}


def _prepare_status(new: Document, old: Document) -> Document:
    return {**new, "spec": old["spec"]}


def _without_stale_fields(new: Document, old: Document) -> Document:
    """The spec without what only the old type of the service needed, unless a user changed that."""
    stale: list[str] = []
    kind, old_kind = new["type"], old["type"]
    if kind == "ExternalName" != old_kind:
        if _same(new, old, "clusterIP") and _same(new, old, "clusterIPs"):
            stale += ["clusterIP", "clusterIPs"]
        stale += [name for name in ("ipFamilies", "ipFamilyPolicy") if _same(new, old, name)]
    if needs_health_check(old) and not needs_health_check(new) and _same(new, old, "healthCheckNodePort"):
        stale.append("healthCheckNodePort")
    if old_kind == "LoadBalancer" != kind:
        names = ("allocateLoadBalancerNodePorts", "loadBalancerClass")
        stale += [name for name in names if _same(new, old, name)]
    if is_externally_accessible(old) and not is_externally_accessible(new) and _same(new, old, "externalTrafficPolicy"):
        stale.append("externalTrafficPolicy")
    result = {name: value for name, value in new.items() if name not in stale}
    if old_kind in _WITH_NODE_PORTS and kind not in _WITH_NODE_PORTS and _node_ports(new) <= _node_ports(old):
        result["ports"] = [_without_node_port(port) for port in new.get("ports", ())]
    return result


def _same(new: Document, old: Document, name: str) -> bool:
    return bool(new.get(name) == old.get(name))


def _node_ports(spec: Document) -> set[Any]:
    return {port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")}


def _without_node_port(port: Document) -> Document:
    return {name: value for name, value in port.items() if name != "nodePort"}


def _fields(service: Document) -> Mapping[str, str]:
    spec = service["spec"]
    return {
        **metadata_fields(service),
        "spec.clusterIP": spec.get("clusterIP", ""),
        "spec.type": spec.get("type", ""),
    }


SERVICES = Strategy(
    default=_default,
    prepare_create=_prepare_create,
    validate_create=service_create_errors,
    prepare_update=_prepare_update,
    validate_update=service_update_errors,
    prepare_status=_prepare_status,
    validate_status=service_status_errors,
    warnings=Warnings.always(service_warnings, status=load_balancer_warnings),
    fields=_fields,
    allows_create_on_update=True,
)
