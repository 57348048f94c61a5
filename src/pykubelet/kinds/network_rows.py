"""Services and what stands behind and before them as rows.

In: a document. Out: its cells, in the order of its columns.

Upstream: pkg/printers/internalversion/printers.go
"""

from typing import Any

from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import (
    NONE,
    UNKNOWN,
    UNSET,
    at,
    created,
    first_few,
    format_labels,
    format_selector,
    name_of,
)

_SHOWN_HOSTS = 3


def service_cells(document: Document, age: Age) -> list[Any]:
    """Name, type, cluster IP, external IP, ports, age, selector."""
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


def endpoints_cells(document: Document, age: Age) -> list[Any]:
    """Name, endpoints, age."""
    subsets = document.get("subsets")
    return [
        name_of(document),
        first_few([text for each in subsets for text in _subset(each)], empty="") if subsets else NONE,
        created(document, age),
    ]


def endpoint_slice_cells(document: Document, age: Age) -> list[Any]:
    """Name, address type, ports, endpoints, age."""
    ports = [_slice_port(port) for port in document.get("ports") or ()]
    addresses = [address for each in document.get("endpoints") or () for address in each.get("addresses") or ()]
    return [
        name_of(document),
        document.get("addressType", ""),
        first_few(ports, empty=UNSET),
        first_few(addresses, empty=UNSET),
        created(document, age),
    ]


def ingress_cells(document: Document, age: Age) -> list[Any]:
    """Name, class, hosts, address, ports, age."""
    spec = at(document, "spec")
    name = spec.get("ingressClassName")
    return [
        name_of(document),
        NONE if name is None else name,
        _hosts(spec.get("rules") or []),
        _balancer(document),
        "80, 443" if spec.get("tls") else "80",
        created(document, age),
    ]


def network_policy_cells(document: Document, age: Age) -> list[Any]:
    """Name, pod selector, age."""
    return [name_of(document), format_selector(at(document, "spec", "podSelector")), created(document, age)]


def _external_ip(document: Document) -> str:
    spec = at(document, "spec")
    external: list[str] = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            balancer = _balancer(document)
            return ",".join([balancer, *external] if balancer else external) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return UNKNOWN


def _balancer(document: Document) -> str:
    points = at(document, "status", "loadBalancer").get("ingress") or ()
    return ",".join(sorted({each.get("ip") or each.get("hostname") or "" for each in points} - {""}))


def _service_port(port: Document) -> str:
    number, node_port = port.get("port", 0), port.get("nodePort", 0)
    shown = f"{number}:{node_port}" if node_port > 0 else str(number)
    return f"{shown}/{port.get('protocol', '')}"


def _subset(subset: Document) -> list[str]:
    addresses = [each.get("ip", "") for each in subset.get("addresses") or ()]
    ports = [port.get("port", 0) for port in subset.get("ports") or ()]
    if not ports:
        return addresses
    return [f"{f'[{ip}]' if ':' in ip else ip}:{port}" for port in ports for ip in addresses]


def _slice_port(port: Document) -> str:
    if port.get("port") is not None:
        return str(port["port"])
    return "*" if port.get("name") is None else str(port["name"])


def _hosts(rules: list[Document]) -> str:
    hosts: list[str] = []
    for rule in rules:
        if len(hosts) == _SHOWN_HOSTS:
            return f"{','.join(hosts)} + {len(rules) - _SHOWN_HOSTS} more..."
        if host := rule.get("host"):
            hosts.append(host)
    return ",".join(hosts) or "*"
