"""CSIStorageCapacity: how much storage a driver has for a class on some nodes.

Upstream: pkg/registry/storage/csistoragecapacity/strategy.go, pkg/apis/storage/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError, TypedString, each_invalid, invalid
from pykubelet.api.names import dns1123_subdomain_errors
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import UNSET, name_of, quantity_text
from pykubelet.kinds.kind import Kind, Strategy, Warnings, normalized
from pykubelet.kinds.metadata import (
    IMMUTABLE,
    NOT_NEGATIVE,
    label_selector_errors,
    metadata_errors,
    metadata_update_errors,
)
from pykubelet.kinds.node import DEPRECATED_LABELS


def _validate_create(document: Document) -> list[FieldError]:
    name, capacity = document["storageClassName"], document.get("capacity")
    errors = metadata_errors(document["metadata"])
    errors += label_selector_errors(document.get("nodeTopology"), "nodeTopology")
    errors += each_invalid("storageClassName", name, dns1123_subdomain_errors(name))
    if capacity is not None and parse_quantity(capacity).unscaled < 0:
        errors.append(invalid("capacity", TypedString(capacity), NOT_NEGATIVE))
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    errors = _validate_create(new) + metadata_update_errors(new["metadata"], old["metadata"])
    return errors + [
        invalid(name, new.get(name), IMMUTABLE)
        for name in ("nodeTopology", "storageClassName")
        if new.get(name) != old.get(name)
    ]


def storage_capacity_warnings(document: Document) -> list[str]:
    """Warns about deprecated labels in the topology."""
    topology = document.get("nodeTopology", {})
    labels = [(f"nodeTopology.matchLabels.{key}", key) for key in sorted(topology.get("matchLabels", {}))]
    labels += [
        (f"nodeTopology.matchExpressions[{index}].key", one.get("key", ""))
        for index, one in enumerate(topology.get("matchExpressions", ()))
    ]
    return [f"{path}: {DEPRECATED_LABELS[key]}" for path, key in labels if key in DEPRECATED_LABELS]


def _cells(document: Document, _age: Age) -> list[Any]:
    """Cells: name, storage class, capacity."""
    capacity = document.get("capacity")
    shown = UNSET if capacity is None else quantity_text(capacity)
    return [name_of(document), document.get("storageClassName", ""), shown]


KIND = Kind(
    resource=Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
    definition="storage.v1.CSIStorageCapacity",
    strategy=Strategy(
        default=normalized("storage.v1.CSIStorageCapacity"),
        validate_create=_validate_create,
        validate_update=_validate_update,
        warnings=Warnings.always(storage_capacity_warnings),
        allows_unconditional_update=False,
    ),
    cells=_cells,
)
