"""The rules of ControllerRevisions.

Upstream: pkg/registry/apps/controllerrevision/strategy.go, pkg/apis/apps/validation/validation.go
"""

from pykubelet.api.field_errors import FieldError, required
from pykubelet.api.normal_form import normal_form
from pykubelet.api.serializer import Document
from pykubelet.kinds.kind import Strategy
from pykubelet.kinds.metadata import immutable_errors, metadata_errors, metadata_update_errors, nonnegative_errors


def _default(document: Document) -> Document:
    return normal_form(document, "apps.v1.ControllerRevision")


def _validate_create(document: Document) -> list[FieldError]:
    errors = _revision_errors(document)
    data = document.get("data")
    if data is None:
        errors.append(required("data", "data is mandatory"))
    elif not isinstance(data, dict):
        errors.append(required("data", "data must be a valid JSON object"))
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *_revision_errors(new),
        *immutable_errors(new.get("data"), old.get("data"), "data"),
    ]


def _revision_errors(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"]) + nonnegative_errors(document["revision"], "revision")


CONTROLLER_REVISIONS = Strategy(
    default=_default,
    validate_create=_validate_create,
    validate_update=_validate_update,
)
