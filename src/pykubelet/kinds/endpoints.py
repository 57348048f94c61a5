"""Endpoints, the predecessor of EndpointSlice.

Upstream: pkg/registry/core/endpoint/strategy.go, pkg/apis/core/validation/validation.go
"""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from pykubelet.api.field_errors import FieldError, each_invalid, optional_errors, required
from pykubelet.api.names import dns1123_label_errors, dns1123_subdomain_errors, ip_errors, port_number_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.addresses import endpoint_ip_errors, ip_warnings
from pykubelet.kinds.columns import NONE, SHOWN, created, first_few, name_of
from pykubelet.kinds.kind import Kind, Strategy, Warnings
from pykubelet.kinds.metadata import label_name_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.rules import PROTOCOL

# Upstream's own controllers write no address that it would warn about, so their objects are not checked.
_MANAGED_BY, _MANAGERS = "endpoints.kubernetes.io/managed-by", frozenset({"endpoint-controller"})


def _default(document: Document) -> Document:
    endpoints = normal_form(document, "core.v1.Endpoints")
    if "subsets" not in endpoints:
        return endpoints
    return {**endpoints, "subsets": [_default_subset(subset) for subset in endpoints["subsets"]]}


def _default_subset(subset: Document) -> Document:
    if "ports" not in subset:
        return subset
    return {**subset, "ports": [{"protocol": "TCP", **port} for port in subset["ports"]]}


def _validate(endpoints: Document) -> list[FieldError]:
    return metadata_errors(endpoints["metadata"]) + _subsets_errors(endpoints)


def _subsets_errors(endpoints: Document) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, subset in enumerate(endpoints.get("subsets", ())):
        at, ports = f"subsets[{index}]", subset.get("ports", ())
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(at, "must specify `addresses` or `notReadyAddresses`"))
        for kind in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(kind, ())):
                errors += _address_errors(address, f"{at}.{kind}[{number}]")
        for number, port in enumerate(ports):
            errors += _port_errors(port, f"{at}.ports[{number}]", name_needed=len(ports) > 1)
    return errors


def _address_errors(address: Document, path: str) -> list[FieldError]:
    text, name, node = address["ip"], address.get("hostname", ""), address.get("nodeName")
    errors = each_invalid(f"{path}.ip", text, ip_errors(text))
    errors += optional_errors(f"{path}.hostname", name, dns1123_label_errors)
    if node is not None:
        errors += each_invalid(f"{path}.nodeName", node, dns1123_subdomain_errors(node))
    return errors + endpoint_ip_errors(text, f"{path}.ip")


def _port_errors(port: Document, path: str, *, name_needed: bool) -> list[FieldError]:
    name, protocol, app_protocol = port.get("name", ""), port["protocol"], port.get("appProtocol")
    errors: list[FieldError] = []
    if name:
        errors += each_invalid(f"{path}.name", name, dns1123_label_errors(name))
    elif name_needed:
        errors.append(required(f"{path}.name"))
    errors += each_invalid(f"{path}.port", port["port"], port_number_errors(port["port"]))
    errors += PROTOCOL.errors(protocol, f"{path}.protocol")
    return errors if app_protocol is None else errors + label_name_errors(app_protocol, f"{path}.appProtocol")


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"]) + metadata_errors(new["metadata"])
    # Existing addresses that an older server accepted stay valid.
    return errors if new.get("subsets") == old.get("subsets") else errors + _subsets_errors(new)


def endpoints_warnings(document: Document) -> list[str]:
    """Warns about the addresses of Endpoints."""
    if document["metadata"].get("labels", {}).get(_MANAGED_BY) in _MANAGERS:
        return []
    return [
        warning
        for index, subset in enumerate(document.get("subsets", ()))
        for kind in ("addresses", "notReadyAddresses")
        for place, address in enumerate(subset.get(kind, ()))
        for warning in ip_warnings(address.get("ip", ""), f"subsets[{index}].{kind}[{place}].ip")
    ]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, endpoints, age."""
    subsets = document.get("subsets") or ()
    texts = chain.from_iterable(map(_subset, subsets))
    return [
        name_of(document),
        first_few(list(islice(texts, SHOWN)), empty="", count=sum(map(_count, subsets))) if subsets else NONE,
        created(document, age),
    ]


def _subset(subset: Document) -> Iterator[str]:
    addresses = [each.get("ip", "") for each in subset.get("addresses") or ()]
    ports = [port.get("port", 0) for port in subset.get("ports") or ()]
    if not ports:
        yield from addresses
    for port in ports:
        for ip in addresses:
            yield f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _count(subset: Document) -> int:
    """The number of endpoints of a subset."""
    return len(subset.get("addresses") or ()) * (len(subset.get("ports") or ()) or 1)


KIND = Kind(
    resource=Resource("", "v1", "endpoints", "Endpoints"),
    definition="core.v1.Endpoints",
    short_names=("ep",),
    strategy=Strategy(
        default=_default,
        validate_create=_validate,
        validate_update=_validate_update,
        warnings=Warnings.always(endpoints_warnings),
        allows_create_on_update=True,
    ),
    cells=_cells,
    deprecation_warnings=("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",),
)
