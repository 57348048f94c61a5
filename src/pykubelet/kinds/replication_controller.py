"""ReplicationController: the predecessor of ReplicaSet.

Upstream: pkg/registry/core/replicationcontroller/strategy.go, pkg/apis/core/validation/validation.go
"""

from collections.abc import Mapping
from typing import Any

from pykubelet.api.field_errors import FieldError, required
from pykubelet.api.labels import selector_from_labels
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import REPLICATION_CONTROLLERS
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, format_labels
from pykubelet.kinds.kind import (
    Kind,
    Strategy,
    Warnings,
    generation_changed,
    keep_spec,
    keep_status,
    metadata_fields,
    without_status,
)
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors
from pykubelet.kinds.pod.warnings import template_warnings
from pykubelet.kinds.pod_template import (
    container_cells,
    label_mismatch_errors,
    pod_template_errors,
    read_template,
    replicas_warnings,
    running_template_errors,
)
from pykubelet.kinds.replicas import available_errors, counts_errors, replica_cells

_SHARES = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
_COUNTS = ("replicas", *_SHARES, "observedGeneration")


def _default(document: Document) -> Document:
    controller = normal_form(document, "core.v1.ReplicationController")
    metadata, spec = controller["metadata"], {"replicas": 1, **controller["spec"]}
    if "template" in spec:
        spec["template"] = read_template(spec["template"])
        if labels := spec["template"]["metadata"].get("labels"):
            spec.setdefault("selector", labels)
            metadata = {"labels": labels, **metadata}
    return {**controller, "metadata": metadata, "spec": spec}


def _validate(controller: Document) -> list[FieldError]:
    return metadata_errors(controller["metadata"]) + _spec_errors(controller["spec"])


def _spec_errors(spec: Document) -> list[FieldError]:
    selector, at = spec.get("selector", {}), "spec.template"
    errors = counts_errors(spec, "spec", ("minReadySeconds",))
    errors += [] if selector else [required("spec.selector")]
    errors += counts_errors(spec, "spec", ("replicas",))
    if "template" not in spec:
        return [*errors, required(at)]
    template = spec["template"]
    if selector:
        errors += label_mismatch_errors(selector_from_labels(selector), template, at)
    errors += pod_template_errors(template, at)
    return errors + running_template_errors(template, at, "ReplicationController")


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    update_errors = metadata_update_errors(new["metadata"], old["metadata"]) + _spec_errors(new["spec"])
    return _validate(new) + update_errors


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *counts_errors(new["status"], "status", _COUNTS),
        *available_errors(new["status"], "status", _SHARES),
    ]


def replication_controller_change_warnings(new: Document, old: Document) -> list[str]:
    """Warns about the template of a changed ReplicationController; as upstream, about the old one."""
    template = old["spec"].get("template")
    return template_warnings(template, "spec.template") if template is not None and generation_changed(new, old) else []


def _fields(controller: Document) -> Mapping[str, str]:
    return {**metadata_fields(controller), "status.replicas": str(controller["status"].get("replicas", 0))}


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, desired, current, ready, age, containers, images, selector."""
    return [
        *replica_cells(document, age),
        *container_cells(at(document, "spec", "template")),
        format_labels(at(document, "spec", "selector")),
    ]


KIND = Kind(
    resource=REPLICATION_CONTROLLERS,
    definition="core.v1.ReplicationController",
    short_names=("rc",),
    categories=("all",),
    subresources=("scale", "status"),
    strategy=Strategy(
        default=_default,
        prepare_create=without_status("core.v1.ReplicationControllerStatus"),
        validate_create=_validate,
        prepare_update=keep_status,
        validate_update=_validate_update,
        prepare_status=keep_spec,
        validate_status=_validate_status,
        warnings=Warnings(create=replicas_warnings, update=replication_controller_change_warnings),
        fields=_fields,
    ),
    cells=_cells,
)
