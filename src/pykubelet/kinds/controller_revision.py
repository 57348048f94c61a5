"""ControllerRevision: an immutable snapshot of a workload's template.

Upstream: pkg/registry/apps/controllerrevision/strategy.go, pkg/apis/apps/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError, required
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import NONE, at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, normalized
from pykubelet.kinds.metadata import immutable_errors, metadata_errors, metadata_update_errors, nonnegative_errors


def _validate_create(document: Document) -> list[FieldError]:
    errors = _revision_errors(document)
    data = document.get("data")
    if data is None:
        errors.append(required("data", "data is mandatory"))
    elif not isinstance(data, dict):
        errors.append(required("data", "data must be a valid JSON object"))
    return errors


def _revision_errors(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"]) + nonnegative_errors(document["revision"], "revision")


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *_revision_errors(new),
        *immutable_errors(new.get("data"), old.get("data"), "data"),
    ]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, controller, revision, age."""
    owners = at(document, "metadata").get("ownerReferences") or ()
    owner = next((each for each in owners if each.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        kind = f"{owner.get('kind', '')}.{group}" if group else owner.get("kind", "")
        controller = f"{kind.lower()}/{owner.get('name', '')}"
    return [name_of(document), controller, document.get("revision", 0), created(document, age)]


KIND = Kind(
    resource=Resource("apps", "v1", "controllerrevisions", "ControllerRevision"),
    definition="apps.v1.ControllerRevision",
    strategy=Strategy(
        default=normalized("apps.v1.ControllerRevision"),
        validate_create=_validate_create,
        validate_update=_validate_update,
    ),
    cells=_cells,
)
