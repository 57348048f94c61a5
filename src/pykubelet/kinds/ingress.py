"""Ingress: HTTP routes to Services.

Upstream: pkg/registry/networking/ingress/strategy.go, pkg/apis/networking/validation/validation.go
"""

from collections.abc import Sequence
from typing import Any

from pykubelet.api.field_errors import FieldError, TypedString, each_invalid, invalid, not_supported, required
from pykubelet.api.names import (
    dns1035_label_errors,
    dns1123_subdomain_errors,
    ip_errors,
    parse_address,
    path_segment_errors,
    port_name_errors,
    port_number_errors,
    wildcard_dns1123_subdomain_errors,
)
from pykubelet.api.schema import INGRESSES
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.addresses import load_balancer_addresses, load_balancer_warnings
from pykubelet.kinds.columns import NONE, at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, Warnings, keep_spec, keep_status, normalized, without_status
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AN_ADDRESS = "must be a DNS name, not an IP address"
_SHOWN_HOSTS = 3


def _validate_create(document: Document) -> list[FieldError]:
    errors = _ingress_errors(document)
    annotation = document["metadata"].get("annotations", {}).get(CLASS_ANNOTATION)
    class_name = document["spec"].get("ingressClassName")
    if annotation is not None and class_name is not None and annotation != class_name:
        detail = "must match `ingressClassName` when both are specified"
        errors.append(invalid(f"annotations.{CLASS_ANNOTATION}", annotation, detail))
    return errors


def _ingress_errors(document: Document) -> list[FieldError]:
    spec, path = document["spec"], "spec"
    errors = metadata_errors(document["metadata"])
    if not spec.get("rules") and "defaultBackend" not in spec:
        errors.append(invalid(path, spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if "defaultBackend" in spec:
        errors += _backend_errors(spec["defaultBackend"], f"{path}.defaultBackend")
    for index, rule in enumerate(spec.get("rules", ())):
        errors += _rule_errors(rule, f"{path}.rules[{index}]")
    for index, entry in enumerate(spec.get("tls", ())):
        errors += _tls_errors(entry, f"{path}.tls[{index}]")
    if (name := spec.get("ingressClassName")) is not None:
        errors += each_invalid(f"{path}.ingressClassName", name, dns1123_subdomain_errors(name))
    return errors


def _backend_errors(backend: Document, path: str) -> list[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _resource_errors(resource, f"{path}.resource")
    if service is not None:
        return _service_errors(service, path)
    return [invalid(path, "", "resource or service backend is required")]


def _resource_errors(resource: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if (group := resource.get("apiGroup")) is not None:
        errors += each_invalid(f"{path}.apiGroup", group, dns1123_subdomain_errors(group))
    for name in ("kind", "name"):
        value, at = resource[name], f"{path}.{name}"
        errors += each_invalid(at, value, path_segment_errors(value)) if value else [required(at)]
    return errors


def _service_errors(service: Document, path: str) -> list[FieldError]:
    name, port = service["name"], service["port"]
    at = f"{path}.service.name"
    errors = each_invalid(at, name, dns1035_label_errors(name)) if name else [required(at)]
    port_name, number = port.get("name", ""), port.get("number", 0)
    if port_name and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif port_name:
        errors += each_invalid(f"{path}.service.port.name", port_name, port_name_errors(port_name))
    elif number:
        errors += each_invalid(f"{path}.service.port.number", number, port_number_errors(number))
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def _rule_errors(rule: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if host := rule.get("host", ""):
        if parse_address(host) is not None:
            errors.append(invalid(f"{path}.host", host, _NOT_AN_ADDRESS))
        errors += _host_errors(host, f"{path}.host")
    if "http" not in rule:
        return errors
    paths, at = rule["http"].get("paths", ()), f"{path}.http.paths"
    if not paths:
        errors.append(required(at))
    for index, each in enumerate(paths):
        errors += _path_errors(each, f"{at}[{index}]")
    return errors


def _host_errors(host: str, path: str) -> list[FieldError]:
    rule = wildcard_dns1123_subdomain_errors if "*" in host else dns1123_subdomain_errors
    return each_invalid(path, host, rule(host))


def _path_errors(entry: Document, path: str) -> list[FieldError]:
    kind, text, at = entry.get("pathType"), entry.get("path", ""), f"{path}.path"
    errors: list[FieldError] = []
    match kind:
        case None:
            return [required(f"{path}.pathType", "pathType must be specified")]
        case "Exact" | "Prefix":
            errors += _absolute_errors(text, at)
            errors += [invalid(at, text, f"must not contain '{part}'") for part in _BAD_SEQUENCES if part in text]
            errors += [invalid(at, text, f"cannot end with '{end}'") for end in ("/..", "/.") if text.endswith(end)]
        case "ImplementationSpecific":
            errors += _absolute_errors(text, at) if text else []
        case _:
            errors.append(not_supported(f"{path}.pathType", TypedString(kind), _PATH_TYPES))
    return errors + _backend_errors(entry["backend"], f"{path}.backend")


def _absolute_errors(text: str, path: str) -> list[FieldError]:
    return [] if text.startswith("/") else [invalid(path, text, "must be an absolute path")]


def _tls_errors(entry: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, host in enumerate(entry.get("hosts", ())):
        errors += _host_errors(host, f"{path}.hosts[{index}]")
    if secret := entry.get("secretName", ""):
        errors += each_invalid(f"{path}.secretName", secret, dns1123_subdomain_errors(secret))
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return metadata_update_errors(new["metadata"], old["metadata"]) + _ingress_errors(new)


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    points, known = _load_balancer_ingress(new), {point.get("ip", "") for point in _load_balancer_ingress(old)}
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    for index, point in enumerate(points):
        path, address, host = f"status.loadBalancer.ingress[{index}]", point.get("ip", ""), point.get("hostname", "")
        if address and address not in known:
            errors += each_invalid(f"{path}.ip", address, ip_errors(address))
        if host:
            errors += each_invalid(f"{path}.hostname", host, dns1123_subdomain_errors(host))
            if parse_address(host) is not None:
                errors.append(invalid(f"{path}.hostname", host, _NOT_AN_ADDRESS))
    return errors


def _load_balancer_ingress(document: Document) -> Sequence[Document]:
    """The ingress points of the load balancer."""
    points: Sequence[Document] = document.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    return points


def ingress_warnings(document: Document) -> list[str]:
    """The warning for the deprecated class annotation."""
    if CLASS_ANNOTATION in document["metadata"].get("annotations", {}) and "ingressClassName" not in document["spec"]:
        return [f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]
    return []


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, class, hosts, address, ports, age."""
    spec = at(document, "spec")
    name = spec.get("ingressClassName")
    return [
        name_of(document),
        NONE if name is None else name,
        _hosts(spec.get("rules") or []),
        load_balancer_addresses(document),
        "80, 443" if spec.get("tls") else "80",
        created(document, age),
    ]


def _hosts(rules: list[Document]) -> str:
    hosts: list[str] = []
    for rule in rules:
        if len(hosts) == _SHOWN_HOSTS:
            return f"{','.join(hosts)} + {len(rules) - _SHOWN_HOSTS} more..."
        if host := rule.get("host"):
            hosts.append(host)
    return ",".join(hosts) or "*"


KIND = Kind(
    resource=INGRESSES,
    definition="networking.v1.Ingress",
    short_names=("ing",),
    subresources=("status",),
    strategy=Strategy(
        default=normalized("networking.v1.Ingress"),
        prepare_create=without_status("networking.v1.IngressStatus"),
        validate_create=_validate_create,
        prepare_update=keep_status,
        validate_update=_validate_update,
        prepare_status=keep_spec,
        validate_status=_validate_status,
        warnings=Warnings(create=ingress_warnings, status=load_balancer_warnings),
    ),
    cells=_cells,
)
