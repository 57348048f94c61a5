"""ResourceClaimTemplate: the claim that each pod gets for itself.

Upstream: pkg/registry/resource/resourceclaimtemplate/strategy.go, pkg/apis/resource/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import created, name_of
from pykubelet.kinds.kind import Kind, Strategy
from pykubelet.kinds.metadata import (
    annotations_errors,
    immutable_errors,
    labels_errors,
    metadata_errors,
    metadata_update_errors,
)
from pykubelet.kinds.resource_claim import claim_spec_errors, default_claim_spec


def _default(document: Document) -> Document:
    normal = normal_form(document, "resource.v1.ResourceClaimTemplate")
    spec = normal["spec"]
    return {**normal, "spec": {**spec, "spec": default_claim_spec(spec["spec"])}}


def _spec_errors(spec: Document) -> list[FieldError]:
    metadata = spec["metadata"]
    errors = annotations_errors(metadata.get("annotations", {}), "spec.metadata.annotations")
    errors += labels_errors(metadata.get("labels", {}), "spec.metadata.labels")
    return errors + claim_spec_errors(spec["spec"], "spec.spec")


def _validate_create(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"]) + _spec_errors(document["spec"])


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *_validate_create(new),
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *immutable_errors(new["spec"], old["spec"], "spec"),
        *_spec_errors(new["spec"]),
    ]


def _cells(document: Document, age: Age) -> list[Any]:
    """The cells are name and age."""
    return [name_of(document), created(document, age)]


KIND = Kind(
    resource=Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    definition="resource.v1.ResourceClaimTemplate",
    strategy=Strategy(default=_default, validate_create=_validate_create, validate_update=_validate_update),
    cells=_cells,
)
