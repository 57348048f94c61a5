"""The rules of replication controllers and of pod templates that stand alone.

Upstream: pkg/registry/core/{replicationcontroller,podtemplate}/strategy.go, ValidateReplicationController and
ValidatePodTemplate in pkg/apis/core/validation/validation.go
"""

from collections.abc import Mapping

from pykubelet.api.field_errors import FieldError, required
from pykubelet.api.labels import selector_from_labels
from pykubelet.api.normal_form import normal_form
from pykubelet.api.serializer import Document
from pykubelet.kinds.kind import (
    Strategy,
    Warnings,
    first_generation,
    keep_spec,
    keep_status,
    metadata_fields,
    next_generation,
    without_status,
)
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors
from pykubelet.kinds.pod_template import (
    label_mismatch_errors,
    pod_template_change_warnings,
    pod_template_errors,
    pod_template_warnings,
    read_template,
    replicas_warnings,
    replication_controller_change_warnings,
    running_template_errors,
)
from pykubelet.kinds.replicas import available_errors, counts_errors

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


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    update_errors = metadata_update_errors(new["metadata"], old["metadata"]) + _spec_errors(new["spec"])
    return _validate(new) + update_errors


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


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *counts_errors(new["status"], "status", _COUNTS),
        *available_errors(new["status"], "status", _SHARES),
    ]


def _fields(controller: Document) -> Mapping[str, str]:
    return {**metadata_fields(controller), "status.replicas": str(controller["status"].get("replicas", 0))}


def _default_template(document: Document) -> Document:
    normal = normal_form(document, "core.v1.PodTemplate")
    return {**normal, "template": read_template(normal["template"])}


def _prepare_template_update(new: Document, old: Document) -> Document:
    return next_generation(new, old, changed=new["template"] != old["template"])


def _validate_template(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"]) + pod_template_errors(document["template"], "template")


def _validate_template_update(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    return errors + pod_template_errors(new["template"], "template")


REPLICATION_CONTROLLERS = Strategy(
    default=_default,
    prepare_create=without_status("core.v1.ReplicationControllerStatus"),
    validate_create=_validate,
    prepare_update=keep_status,
    validate_update=_validate_update,
    prepare_status=keep_spec,
    validate_status=_validate_status,
    warnings=Warnings(create=replicas_warnings, update=replication_controller_change_warnings),
    fields=_fields,
)
POD_TEMPLATES = Strategy(
    default=_default_template,
    prepare_create=first_generation,
    validate_create=_validate_template,
    prepare_update=_prepare_template_update,
    validate_update=_validate_template_update,
    warnings=Warnings(create=pod_template_warnings, update=pod_template_change_warnings),
)
