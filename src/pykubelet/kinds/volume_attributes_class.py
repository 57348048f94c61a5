"""VolumeAttributesClass: parameters of volumes that can change while they exist.

Upstream: pkg/registry/storage/volumeattributesclass/strategy.go, pkg/apis/storage/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError, forbidden, required
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import created, name_of
from pykubelet.kinds.kind import Kind, Strategy, normalized
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors
from pykubelet.kinds.storage_class import parameters_errors, provisioner_errors


def _validate_create(document: Document) -> list[FieldError]:
    parameters = document.get("parameters", {})
    errors = metadata_errors(document["metadata"], namespaced=False)
    errors += provisioner_errors(document["driverName"], "driverName")
    errors += parameters_errors(parameters, "parameters")
    return errors if parameters else [*errors, required("parameters", "must contain at least one key/value pair")]


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    changed = [name for name in ("driverName", "parameters") if new.get(name) != old.get(name)]
    return [
        *_validate_create(new),
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *(forbidden(name, f"updates to {name} are forbidden.") for name in changed),
        *_validate_create(new),
    ]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, driver, age."""
    return [name_of(document), document.get("driverName", ""), created(document, age)]


KIND = Kind(
    resource=Resource("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", namespaced=False),
    definition="storage.v1.VolumeAttributesClass",
    short_names=("vac",),
    strategy=Strategy(
        default=normalized("storage.v1.VolumeAttributesClass"),
        validate_create=_validate_create,
        validate_update=_validate_update,
    ),
    cells=_cells,
)
