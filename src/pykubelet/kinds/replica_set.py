"""ReplicaSet: a number of equal pods.

Upstream: pkg/registry/apps/replicaset/strategy.go, pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, format_selector
from pykubelet.kinds.kind import Kind, Strategy, Warnings, keep_status, without_status
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors
from pykubelet.kinds.pod_template import (
    container_cells,
    read_template,
    replica_template_errors,
    replicas_warnings,
    selector_change_errors,
    template_change_warnings,
)
from pykubelet.kinds.replicas import available_errors, counts_errors, replica_cells, without_terminating_replicas

_COUNTS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")


def _default(document: Document) -> Document:
    normal = normal_form(document, "apps.v1.ReplicaSet")
    spec = normal["spec"]
    return {**normal, "spec": {"replicas": 1, **spec, "template": read_template(spec["template"])}}


def _validate_create(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"]) + _spec_errors(document["spec"])


def _spec_errors(spec: Document) -> list[FieldError]:
    # Upstream's message about an empty selector names the wrong kind.
    return [
        *counts_errors(spec, "spec", ("replicas", "minReadySeconds")),
        *replica_template_errors(spec, "spec", "deployment"),
    ]


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *_spec_errors(new["spec"]),
        *selector_change_errors(new, old),
    ]


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    status = new.get("status", {})
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *counts_errors(status, "status", (*_COUNTS, "terminatingReplicas")),
        *available_errors(status, "status", ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")),
    ]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, desired, current, ready, age, containers, images, selector."""
    return [
        *replica_cells(document, age),
        *container_cells(at(document, "spec", "template")),
        format_selector(at(document, "spec").get("selector")),
    ]


KIND = Kind(
    resource=Resource("apps", "v1", "replicasets", "ReplicaSet"),
    definition="apps.v1.ReplicaSet",
    short_names=("rs",),
    categories=("all",),
    subresources=("scale", "status"),
    strategy=Strategy(
        default=_default,
        prepare_create=without_status("apps.v1.ReplicaSetStatus"),
        validate_create=_validate_create,
        prepare_update=keep_status,
        validate_update=_validate_update,
        prepare_status=without_terminating_replicas,
        validate_status=_validate_status,
        warnings=Warnings(create=replicas_warnings, update=template_change_warnings),
    ),
    cells=_cells,
)
