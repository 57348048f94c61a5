"""Complaints about the annotations that mean something on a pod.

Upstream: ValidatePodSpecificAnnotations and ValidatePodSpecificAnnotationUpdates in pkg/apis/core/validation/validation.go
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from pykubelet.api.validation.field_errors import FieldError, forbidden, invalid
from pykubelet.api.validation.profiles import APPARMOR_CONTAINER_PREFIX, profile_annotations_errors
from pykubelet.api.validation.scheduling import tolerations_errors
from pykubelet.api.wire import Document

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
TOLERATIONS_ANNOTATION = "scheduler.alpha.kubernetes.io/tolerations"
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
_DELETION_COST = re.compile("0|-[0-9]+|[1-9][0-9]*")
_TOLERATION_FIELDS = ("key", "operator", "value", "effect", "tolerationSeconds")


def pod_annotations_errors(annotations: Mapping[str, str], spec: Document, path: str) -> list[FieldError]:
    """What is wrong with annotations that the system itself reads."""
    errors: list[FieldError] = []
    if MIRROR_ANNOTATION in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{MIRROR_ANNOTATION}]", annotations[MIRROR_ANNOTATION], detail))
    if text := annotations.get(TOLERATIONS_ANNOTATION, ""):
        errors += _tolerations_errors(text, path)
    cost = annotations.get(DELETION_COST_ANNOTATION, "0")
    if not _DELETION_COST.fullmatch(cost) or not -(2**31) <= int(cost[:12]) < 2**31:
        errors.append(invalid(f"{path}[{DELETION_COST_ANNOTATION}]", cost, "must be a 32bit integer"))
    return errors + profile_annotations_errors(annotations, spec, path)


def pod_annotation_changes_errors(new: Document, old: Document, path: str) -> list[FieldError]:
    """What is wrong with a change of a pod's annotations; what they held at the start must often stay."""
    after, before = (pod["metadata"].get("annotations", {}) for pod in (new, old))
    errors: list[FieldError] = []
    for key, value in before.items():
        if after.get(key) != value and (what := _fixed_annotation(key)):
            errors.append(forbidden(f"{path}[{key}]", f"may not remove or update {what}"))
    added = ((key, _fixed_annotation(key)) for key in after if key not in before)
    errors += [forbidden(f"{path}[{key}]", f"may not add {what}") for key, what in added if what]
    return errors + pod_annotations_errors(after, new["spec"], path)


def _fixed_annotation(key: str) -> str:
    if key.startswith(APPARMOR_CONTAINER_PREFIX):
        return "AppArmor annotations"
    return "mirror pod annotation" if key == MIRROR_ANNOTATION else ""


def _tolerations_errors(text: str, path: str) -> list[FieldError]:
    try:
        tolerations = json.loads(text)
    except (ValueError, RecursionError) as error:
        return [invalid(path, TOLERATIONS_ANNOTATION, str(error))]
    if not isinstance(tolerations, list) or not all(isinstance(each, dict) for each in tolerations):
        return [invalid(path, TOLERATIONS_ANNOTATION, "the tolerations are not a list of objects")]
    return tolerations_errors([_toleration(each) for each in tolerations], f"{path}.{TOLERATIONS_ANNOTATION}")


def _toleration(document: dict[str, Any]) -> Document:
    # Here the API server reads into a type without wire names, so upper and lower case are all the same.
    wire_names = {name.lower(): name for name in _TOLERATION_FIELDS}
    return {wire_names[name.lower()]: value for name, value in document.items() if name.lower() in wire_names}
