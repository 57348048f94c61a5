"""Complaints about a pod template.

In: a template after `default_pod_template_spec`. Out: complaints with the paths and texts of the API server.

Upstream: ValidatePodTemplateSpec in pkg/apis/core/validation/validation.go
"""

from dataclasses import replace

from pykubelet.api.validation.field_errors import FieldError, forbidden
from pykubelet.api.validation.metadata import annotations_errors, labels_errors
from pykubelet.api.validation.options import API_SERVER_OPTIONS
from pykubelet.api.validation.pod import validate_pod_spec
from pykubelet.api.validation.pod_annotations import pod_annotations_errors
from pykubelet.api.validation.profiles import profile_match_errors
from pykubelet.api.wire import Document

_OPTIONS = replace(API_SERVER_OPTIONS, resource_is_pod=False)


def pod_template_errors(template: Document, path: str) -> list[FieldError]:
    """What is wrong with a pod template."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    annotations = metadata.get("annotations", {})
    errors = template_metadata_errors(template, path)
    errors += validate_pod_spec(spec, {}, f"{path}.spec", _OPTIONS)
    errors += profile_match_errors(annotations, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return errors


def template_metadata_errors(template: Document, path: str) -> list[FieldError]:
    """What is wrong with the labels and annotations of a template; upstream leaves `metadata` out of their paths."""
    metadata = template.get("metadata", {})
    annotations = metadata.get("annotations", {})
    return [
        *labels_errors(metadata.get("labels", {}), f"{path}.labels"),
        *annotations_errors(annotations, f"{path}.annotations"),
        *pod_annotations_errors(annotations, template.get("spec", {}), f"{path}.annotations"),
    ]
