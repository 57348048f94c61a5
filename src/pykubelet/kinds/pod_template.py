"""PodTemplate, and what kinds with a pod template share: defaults, validation, selectors, warnings.

Upstream: pkg/registry/core/podtemplate/strategy.go, pkg/apis/core/validation/validation.go,
pkg/apis/apps/validation/validation.go, pkg/apis/core/v1/defaults.go, pkg/api/pod/util.go
"""

from dataclasses import replace
from typing import Any

from pykubelet.api.field_errors import FieldError, TypedString, forbidden, invalid, not_supported, required
from pykubelet.api.labels import Selector, SelectorError, selector_from_document
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, format_labels, name_of
from pykubelet.kinds.go_values import label_selector_value, map_value
from pykubelet.kinds.kind import Kind, Strategy, Warnings, first_generation, generation_changed, next_generation
from pykubelet.kinds.metadata import (
    annotations_errors,
    immutable_errors,
    label_selector_errors,
    labels_errors,
    metadata_errors,
    metadata_update_errors,
)
from pykubelet.kinds.pod.defaults import default_pod_template_spec
from pykubelet.kinds.pod.features import API_SERVER_OPTIONS, without_disabled_fields
from pykubelet.kinds.pod.security import profile_match_errors
from pykubelet.kinds.pod.validation import pod_annotations_errors, validate_pod_spec
from pykubelet.kinds.pod.warnings import name_warnings, template_warnings

_OPTIONS = replace(API_SERVER_OPTIONS, resource_is_pod=False)
_MISMATCH = "`selector` does not match template `labels`"


def replica_template_errors(spec: Document, path: str, owner: str) -> list[FieldError]:
    """Validates the selector and the template of a replicated workload; `owner` names it in messages."""
    selector, template = spec.get("selector"), spec.get("template", {})
    errors = set_selector_errors(selector, f"{path}.selector", owner)
    parsed = parsed_selector(selector)
    if parsed is None:
        return [*errors, invalid(f"{path}.selector", label_selector_value(selector), "invalid label selector")]
    if not parsed.empty():
        errors += label_mismatch_errors(parsed, template, f"{path}.template")
    errors += pod_template_errors(template, f"{path}.template")
    return errors + running_template_errors(template, f"{path}.template", "ReplicaSet")


def set_selector_errors(selector: Document | None, path: str, owner: str) -> list[FieldError]:
    """Validates a selector that is required and may not be empty."""
    if selector is None:
        return [required(path)]
    return label_selector_errors(selector, path) + empty_selector_errors(selector, path, owner)


def empty_selector_errors(selector: Document | None, path: str, owner: str) -> list[FieldError]:
    """Validates that the selector does not match everything."""
    if selector is None or selector.get("matchLabels") or selector.get("matchExpressions"):
        return []
    return [invalid(path, label_selector_value(selector), f"empty selector is invalid for {owner}")]


def parsed_selector(selector: Document | None) -> Selector | None:
    """Parses a selector; None if it is invalid. An absent selector matches nothing."""
    try:
        return selector_from_document(selector)
    except SelectorError:
        return None


def label_mismatch_errors(selector: Selector | None, template: Document, path: str) -> list[FieldError]:
    """Validates that a selector matches the labels of the template; an invalid selector is reported elsewhere."""
    labels = template.get("metadata", {}).get("labels", {})
    if selector is None or selector.matches(labels):
        return []
    return [invalid(f"{path}.metadata.labels", map_value(labels), _MISMATCH)]


def pod_template_errors(template: Document, path: str) -> list[FieldError]:
    """Validates a pod template that has its defaults."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    annotations = metadata.get("annotations", {})
    errors = template_metadata_errors(template, path) + validate_pod_spec(spec, {}, f"{path}.spec", _OPTIONS)
    errors += profile_match_errors(annotations, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return errors


def template_metadata_errors(template: Document, path: str) -> list[FieldError]:
    """Validates the labels and annotations of a template; upstream omits `metadata` from their paths."""
    metadata = template.get("metadata", {})
    annotations = metadata.get("annotations", {})
    return [
        *labels_errors(metadata.get("labels", {}), f"{path}.labels"),
        *annotations_errors(annotations, f"{path}.annotations"),
        *pod_annotations_errors(annotations, template.get("spec", {}), f"{path}.annotations"),
    ]


def running_template_errors(template: Document, path: str, owner: str) -> list[FieldError]:
    """Validates that the pods of a template restart and run without a deadline."""
    spec = template.get("spec", {})
    policy = spec.get("restartPolicy", "")
    errors: list[FieldError] = []
    if policy != "Always":
        errors.append(not_supported(f"{path}.spec.restartPolicy", TypedString(policy), ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        errors.append(forbidden(f"{path}.spec.activeDeadlineSeconds", detail))
    return errors


def selector_change_errors(new: Document, old: Document) -> list[FieldError]:
    """Validates that an update keeps the selector."""
    after, before = new["spec"].get("selector"), old["spec"].get("selector")
    return immutable_errors(after, before, "spec.selector", shown=label_selector_value(after))


def replicas_warnings(document: Document) -> list[str]:
    """Warns about a new Deployment, ReplicaSet or ReplicationController, which may have no template."""
    template = document["spec"].get("template")
    return name_warnings(document) + (template_warnings(template, "spec.template") if template is not None else [])


def template_change_warnings(new: Document, old: Document) -> list[str]:
    """Warns about a changed Deployment, ReplicaSet or StatefulSet if its spec changed."""
    return template_warnings(new["spec"]["template"], "spec.template") if generation_changed(new, old) else []


def _default(document: Document) -> Document:
    normal = normal_form(document, "core.v1.PodTemplate")
    return {**normal, "template": read_template(normal["template"])}


def read_template(template: Document) -> Document:
    """The template with its defaults and without fields whose feature gate is off."""
    filled = default_pod_template_spec(template)
    return {**filled, "spec": without_disabled_fields(filled["spec"])}


def _validate(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"]) + pod_template_errors(document["template"], "template")


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return metadata_update_errors(new["metadata"], old["metadata"]) + pod_template_errors(new["template"], "template")


def pod_template_warnings(document: Document) -> list[str]:
    """Warns about a new PodTemplate."""
    return template_warnings(document["template"], "template")


def pod_template_change_warnings(new: Document, old: Document) -> list[str]:
    return pod_template_warnings(new) if generation_changed(new, old) else []


def _cells(document: Document, _age: Age) -> list[Any]:
    """Cells: name, containers, images, pod labels."""
    template = at(document, "template")
    return [name_of(document), *container_cells(template), format_labels(at(template, "metadata", "labels"))]


def container_cells(template: Document) -> tuple[str, str]:
    """The names and the images of a template's containers."""
    containers = at(template, "spec").get("containers") or ()
    return ",".join(each.get("name", "") for each in containers), ",".join(each.get("image", "") for each in containers)


KIND = Kind(
    resource=Resource("", "v1", "podtemplates", "PodTemplate"),
    definition="core.v1.PodTemplate",
    strategy=Strategy(
        default=_default,
        prepare_create=first_generation,
        validate_create=_validate,
        prepare_update=lambda new, old: next_generation(new, old, changed=new["template"] != old["template"]),
        validate_update=_validate_update,
        warnings=Warnings(create=pod_template_warnings, update=pod_template_change_warnings),
    ),
    cells=_cells,
)
