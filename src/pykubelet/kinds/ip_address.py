"""IPAddress: an address that an object has, such as a Service.

Upstream: pkg/registry/networking/ipaddress/strategy.go, pkg/apis/networking/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError, each_invalid, required
from pykubelet.api.names import dns1123_subdomain_errors, path_segment_errors
from pykubelet.api.schema import IP_ADDRESSES
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.addresses import canonical_ip_errors
from pykubelet.kinds.columns import NONE, at, name_of
from pykubelet.kinds.kind import Kind, Strategy, normalized
from pykubelet.kinds.metadata import immutable_errors, metadata_errors, metadata_update_errors

_PATH = "spec.parentRef"


def _address_name_errors(name: str) -> list[str]:
    return [error.detail for error in canonical_ip_errors(name, "")]


def _validate_create(document: Document) -> list[FieldError]:
    errors = metadata_errors(document["metadata"], name_rule=_address_name_errors, namespaced=False)
    parent = document["spec"].get("parentRef")
    if parent is None:
        return [*errors, required(_PATH)]
    if group := parent.get("group", ""):
        errors += each_invalid(f"{_PATH}.group", group, dns1123_subdomain_errors(group))
    for name in ("resource", "name", "namespace"):
        value, path = parent.get(name, ""), f"{_PATH}.{name}"
        if value:
            errors += each_invalid(path, value, path_segment_errors(value))
        elif name != "namespace":
            errors.append(required(path))
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *_validate_create(new),
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *immutable_errors(new["spec"].get("parentRef"), old["spec"].get("parentRef"), _PATH),
    ]


def _cells(document: Document, _age: Age) -> list[Any]:
    """The cells are name and parent."""
    parent = at(document, "spec", "parentRef")
    if not parent:
        return [name_of(document), NONE]
    group, namespace = parent.get("group", ""), parent.get("namespace", "")
    resource = f"{parent.get('resource', '')}.{group}".removesuffix(".").lower()
    return [name_of(document), "/".join(filter(None, (resource, namespace, parent.get("name", ""))))]


KIND = Kind(
    resource=IP_ADDRESSES,
    definition="networking.v1.IPAddress",
    short_names=("ip",),
    strategy=Strategy(
        default=normalized("networking.v1.IPAddress"),
        validate_create=_validate_create,
        validate_update=_validate_update,
    ),
    cells=_cells,
)
