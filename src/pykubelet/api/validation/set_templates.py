"""Complaints about how the selector and the template of a set of pods fit together.

Upstream: ValidateReplicaSetSpec, ValidatePodTemplateSpecForReplicaSet and their like in
pkg/apis/apps/validation/validation.go
"""

from pykubelet.api.selector import Selector, SelectorError, selector_from_document
from pykubelet.api.validation.field_errors import FieldError, Named, forbidden, invalid, not_supported, required
from pykubelet.api.validation.internal_form import label_selector_value, map_value
from pykubelet.api.validation.metadata import label_selector_errors
from pykubelet.api.validation.metadata_update import immutable_errors
from pykubelet.api.validation.pod_template import pod_template_errors
from pykubelet.api.wire import Document

_MISMATCH = "`selector` does not match template `labels`"


def replica_template_errors(spec: Document, path: str, owner: str) -> list[FieldError]:
    """What is wrong with the selector and the template of a set of equal pods; `owner` names it in a complaint."""
    selector, template = spec.get("selector"), spec.get("template", {})
    errors = set_selector_errors(selector, f"{path}.selector", owner)
    parsed = parsed_selector(selector)
    if parsed is None:
        return [*errors, invalid(f"{path}.selector", label_selector_value(selector), "invalid label selector")]
    if not parsed.empty():
        errors += label_mismatch_errors(parsed, template, f"{path}.template")
    errors += pod_template_errors(template, f"{path}.template")
    return errors + running_template_errors(template, f"{path}.template", "ReplicaSet")


def selector_change_errors(new: Document, old: Document) -> list[FieldError]:
    """Whether an update would change the selector."""
    after, before = new["spec"].get("selector"), old["spec"].get("selector")
    return immutable_errors(after, before, "spec.selector", shown=label_selector_value(after))


def running_template_errors(template: Document, path: str, owner: str) -> list[FieldError]:
    """Whether the pods of an owner that replaces them run for ever, as it needs."""
    spec = template.get("spec", {})
    policy = spec.get("restartPolicy", "")
    errors: list[FieldError] = []
    if policy != "Always":
        errors.append(not_supported(f"{path}.spec.restartPolicy", Named(policy), ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        errors.append(forbidden(f"{path}.spec.activeDeadlineSeconds", detail))
    return errors


def set_selector_errors(selector: Document | None, path: str, owner: str) -> list[FieldError]:
    """What is wrong with a selector that must be there and select something."""
    if selector is None:
        return [required(path)]
    errors = label_selector_errors(selector, path)
    return errors + empty_selector_errors(selector, path, owner)


def empty_selector_errors(selector: Document | None, path: str, owner: str) -> list[FieldError]:
    """Whether the selector selects everything."""
    if selector is None or selector.get("matchLabels") or selector.get("matchExpressions"):
        return []
    return [invalid(path, label_selector_value(selector), f"empty selector is invalid for {owner}")]


def parsed_selector(selector: Document | None) -> Selector | None:
    """What the selector selects (nothing, if there is none); None if it is no selector."""
    try:
        return selector_from_document(selector)
    except SelectorError:
        return None


def label_mismatch_errors(selector: Selector | None, template: Document, path: str) -> list[FieldError]:
    """Whether the selector passes over pods of the template; one that is no selector has its own complaint."""
    labels = template.get("metadata", {}).get("labels", {})
    if selector is None or selector.matches(labels):
        return []
    return [invalid(f"{path}.metadata.labels", map_value(labels), _MISMATCH)]
