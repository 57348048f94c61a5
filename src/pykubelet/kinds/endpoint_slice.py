"""EndpointSlice: addresses and ports of a Service's pods.

Upstream: pkg/registry/discovery/endpointslice/strategy.go, pkg/apis/discovery/v1/defaults.go,
pkg/apis/discovery/validation/validation.go
"""

from collections.abc import Callable, Sequence
from typing import Any

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    duplicate,
    each_invalid,
    invalid,
    items_errors,
    required,
    too_many,
)
from pykubelet.api.names import (
    dns1123_label_errors,
    dns1123_subdomain_errors,
    ip_errors,
    label_value_errors,
    parse_address,
    qualified_name_errors,
    unmap_ipv4,
)
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.addresses import canonical_ip_errors, domain_name_errors, endpoint_ip_errors, ips_warnings
from pykubelet.kinds.columns import UNSET, created, first_few, name_of
from pykubelet.kinds.kind import Kind, Strategy, Warnings, first_generation, next_generation, without_fields
from pykubelet.kinds.metadata import metadata_errors
from pykubelet.kinds.rules import PROTOCOL, OneOf, immutable_fields_errors, repeated_indexes

_ADDRESS_TYPES = OneOf(("FQDN", "IPv4", "IPv6"), required=True)
_MAX_ADDRESSES = 100
_MAX_PORTS = 20_000
_MAX_ENDPOINTS = 1000
_MAX_HINTS = 8
# Upstream's own controllers write no address that it would warn about, so their objects are not checked.
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_MANAGERS = frozenset({"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"})


def _default(document: Document) -> Document:
    normal = normal_form(document, "discovery.v1.EndpointSlice")
    ports = [{"name": "", "protocol": "TCP", **port} for port in normal["ports"]] if "ports" in normal else None
    # Both lists are written even if they are empty.
    return {"endpoints": None, **normal, "ports": ports}


def _without_topology(document: Document) -> Document:
    """The slice without `deprecatedTopology`, a leftover of v1beta1."""
    if not any("deprecatedTopology" in endpoint for endpoint in document["endpoints"] or ()):
        return document
    endpoints = [without_fields(endpoint, "deprecatedTopology") for endpoint in document["endpoints"]]
    return {**document, "endpoints": endpoints}


def _validate_create(document: Document) -> list[FieldError]:
    return _slice_errors(document) + _endpoints_errors(document)


def _slice_errors(document: Document) -> list[FieldError]:
    errors = metadata_errors(document["metadata"]) + _ADDRESS_TYPES.errors(document["addressType"], "addressType")
    return errors + _ports_errors(document["ports"] or (), "ports")


def _ports_errors(ports: Sequence[Document], path: str) -> list[FieldError]:
    if len(ports) > _MAX_PORTS:
        return [too_many(path, len(ports), _MAX_PORTS)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at, name, protocol = f"{path}[{index}]", port["name"], port["protocol"]
        if name:
            errors += each_invalid(f"{at}.name", name, dns1123_label_errors(name))
        if name in seen:
            errors.append(duplicate(f"{at}.name", TypedString(name)))
        seen.add(name)
        errors += PROTOCOL.errors(protocol, f"{at}.protocol")
        if (application := port.get("appProtocol")) is not None:
            errors += each_invalid(f"{at}.appProtocol", application, qualified_name_errors(application))
    return errors


def _endpoints_errors(document: Document) -> list[FieldError]:
    endpoints, kind = document["endpoints"] or (), document["addressType"]
    if len(endpoints) > _MAX_ENDPOINTS:
        return [too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)]
    return items_errors(endpoints, lambda endpoint, path: _endpoint_errors(endpoint, kind, path), "endpoints")


def _endpoint_errors(endpoint: Document, kind: str, path: str) -> list[FieldError]:
    addresses, at = endpoint.get("addresses", ()), f"{path}.addresses"
    errors: list[FieldError] = []
    if not addresses:
        errors.append(required(at, "must contain at least 1 address"))
    elif len(addresses) > _MAX_ADDRESSES:
        errors.append(too_many(at, len(addresses), _MAX_ADDRESSES))
    for index, address in enumerate(addresses):
        errors += _address_errors(address, kind, at, index)
    if (node := endpoint.get("nodeName")) is not None:
        errors += each_invalid(f"{path}.nodeName", node, dns1123_subdomain_errors(node))
    if (host := endpoint.get("hostname")) is not None:
        errors += each_invalid(f"{path}.hostname", host, dns1123_label_errors(host))
    return errors + _hints_errors(endpoint.get("hints", {}), f"{path}.hints")


def _address_errors(address: str, kind: str, path: str, index: int) -> list[FieldError]:
    at = f"{path}[{index}]"
    match kind:
        case "IPv4" | "IPv6":
            is_ipv6, found = kind == "IPv6", parse_address(address)
            errors = canonical_ip_errors(address, at) if is_ipv6 else each_invalid(at, address, ip_errors(address))
            if errors or found is None:
                return errors
            if f"IPv{unmap_ipv4(found).version}" != kind:
                errors.append(invalid(path, address, f"must be an {kind} address"))
            return errors + endpoint_ip_errors(address, at)
        case "FQDN":
            return domain_name_errors(address, at)
        case _:
            return []


def _hints_errors(hints: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    rules: dict[str, Callable[[str], list[str]]] = {
        "forZones": label_value_errors,
        "forNodes": dns1123_subdomain_errors,
    }
    for field, rule in rules.items():
        items, at = hints.get(field, ()), f"{path}.{field}"
        if len(items) > _MAX_HINTS:
            return [*errors, too_many(at, len(items), _MAX_HINTS)]
        names = [item["name"] for item in items]
        repeated = repeated_indexes(names)
        for index, name in enumerate(names):
            if index in repeated:
                errors.append(duplicate(f"{at}[{index}].name", name))
            errors += each_invalid(f"{at}[{index}].name", name, rule(name))
    return errors


def _prepare_update(new: Document, old: Document) -> Document:
    return _without_topology(next_generation(new, old, changed=_consumed_part(new) != _consumed_part(old)))


def _consumed_part(document: Document) -> Document:
    """The part of a slice that consumers use: everything but the metadata, and its labels."""
    return {**document, "metadata": document["metadata"].get("labels", {})}


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    errors = _slice_errors(new)
    # Existing values that an older server accepted stay valid.
    if new["endpoints"] != old["endpoints"]:
        errors += _endpoints_errors(new)
    return errors + immutable_fields_errors(new, old, ("addressType",))


def endpoint_slice_warnings(document: Document) -> list[str]:
    """Warns about a new EndpointSlice; the field path is upstream's."""
    warnings = _slice_address_warnings(document)
    is_old = document.get("addressType") == "FQDN"
    return ["spec.addressType: FQDN endpoints are deprecated", *warnings] if is_old else warnings


def _slice_address_warnings(document: Document) -> list[str]:
    if document["metadata"].get("labels", {}).get(_MANAGED_BY) in _MANAGERS:
        return []
    return [
        warning
        for index, endpoint in enumerate(document.get("endpoints") or ())
        for warning in ips_warnings(endpoint.get("addresses", ()), f"endpoints[{index}].addresses")
    ]


def endpoint_slice_change_warnings(new: Document, _old: Document) -> list[str]:
    """Warns about a changed EndpointSlice, whose address type is immutable."""
    return _slice_address_warnings(new)


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, address type, ports, endpoints, age."""
    ports = [_slice_port(port) for port in document.get("ports") or ()]
    addresses = [address for each in document.get("endpoints") or () for address in each.get("addresses") or ()]
    return [
        name_of(document),
        document.get("addressType", ""),
        first_few(ports, empty=UNSET),
        first_few(addresses, empty=UNSET),
        created(document, age),
    ]


def _slice_port(port: Document) -> str:
    if port.get("port") is not None:
        return str(port["port"])
    return "*" if port.get("name") is None else str(port["name"])


KIND = Kind(
    resource=Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    definition="discovery.v1.EndpointSlice",
    strategy=Strategy(
        default=_default,
        prepare_create=lambda document: _without_topology(first_generation(document)),
        validate_create=_validate_create,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
        warnings=Warnings(create=endpoint_slice_warnings, update=endpoint_slice_change_warnings),
    ),
    cells=_cells,
)
