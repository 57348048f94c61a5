"""Complaints about a change of a pod: almost nothing of its spec may change.

In: the pod after and before the change, both after `default_pod`. Out: every complaint, in the API server's order.

Upstream: ValidatePodUpdate and ValidatePodEphemeralContainersUpdate in pkg/apis/core/validation/validation.go
"""

from collections.abc import Sequence
from typing import Any

from pykubelet.api.names import inclusive_range_error
from pykubelet.api.validation.containers import image_space_errors
from pykubelet.api.validation.field_errors import FieldError, forbidden, go_quote, invalid, required
from pykubelet.api.validation.go_diff import go_diff
from pykubelet.api.validation.internal_form import internal_form, map_value
from pykubelet.api.validation.metadata_update import metadata_update_errors
from pykubelet.api.validation.pod import pod_errors
from pykubelet.api.validation.pod_annotations import MIRROR_ANNOTATION, pod_annotation_changes_errors
from pykubelet.api.validation.scheduling import tolerations_errors
from pykubelet.api.wire import Document

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MAX_SECONDS = 2**31 - 1
_UPDATABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)


def pod_update_errors(new: Document, old: Document) -> list[FieldError]:
    """What is wrong with an update of a pod."""
    after, before = new["spec"], old["spec"]
    errors = _changed_pod_errors(new, old)
    for kind in ("containers", "initContainers"):
        containers = after.get(kind, ())
        if len(containers) != len(before.get(kind, ())):
            return [*errors, forbidden(f"spec.{kind}", "pod updates may not add or remove containers")]
        errors += _images_errors(containers, f"spec.{kind}")
    deadline_errors, is_final = _deadline_errors(
        after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    )
    errors += deadline_errors
    if is_final:
        return errors
    errors += _added_tolerations_errors(after.get("tolerations", ()), before.get("tolerations", ()))
    errors += _removed_gates_errors(after.get("schedulingGates", ()), before.get("schedulingGates", ()))
    return errors if after == before else errors + _fixed_fields_errors(after, before)


def ephemeral_containers_update_errors(new: Document, old: Document) -> list[FieldError]:
    """What is wrong with an update through the subresource of ephemeral containers, which may only be added."""
    errors = _changed_pod_errors(new, old)
    if MIRROR_ANNOTATION in old["metadata"].get("annotations", {}):
        return [forbidden("[]", "static pods do not support ephemeral containers")]
    at = "spec.ephemeralContainers"
    by_name = {container["name"]: container for container in new["spec"].get("ephemeralContainers", ())}
    for container in old["spec"].get("ephemeralContainers", ()):
        name = container["name"]
        if name not in by_name:
            errors.append(forbidden(at, f"existing ephemeral containers {go_quote(name)} may not be removed\n"))
        elif by_name[name] != container:
            before, after = (internal_form(each, "core.EphemeralContainer") for each in (container, by_name[name]))
            detail = f"existing ephemeral containers {go_quote(name)} may not be changed\n{go_diff(before, after)}"
            errors.append(forbidden(at, detail))
    return errors


def _changed_pod_errors(new: Document, old: Document) -> list[FieldError]:
    """What every update of a pod must obey."""
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *pod_errors(new),
        *pod_annotation_changes_errors(new, old, "metadata.annotations"),
    ]


def _images_errors(containers: Sequence[Document], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, container in enumerate(containers):
        if not container.get("image"):
            errors.append(required(f"{path}[{index}].image"))
        errors += image_space_errors(container, f"{path}[{index}]")
    return errors


def _deadline_errors(new: int | None, old: int | None) -> tuple[list[FieldError], bool]:
    """Complaints about the deadline, which may only come nearer, and whether upstream looks no further then."""
    at = "spec.activeDeadlineSeconds"
    if new is None:
        detail = "must not update from a positive integer to nil value"
        return ([] if old is None else [invalid(at, None, detail)]), False
    if not 0 <= new <= _MAX_SECONDS:
        return [invalid(at, new, inclusive_range_error(0, _MAX_SECONDS))], True
    if old is not None and old < new:
        return [invalid(at, new, "must be less than or equal to previous value")], True
    return [], False


def _added_tolerations_errors(new: Sequence[Document], old: Sequence[Document]) -> list[FieldError]:
    at = "spec.tolerations"
    if new == old:
        return tolerations_errors(new, at)
    kept = [_without(each, "tolerationSeconds") for each in new]
    if any(_without(each, "tolerationSeconds") not in kept for each in old):
        return [forbidden(at, "existing toleration can not be modified except its tolerationSeconds")]
    return tolerations_errors(new, at)


def _removed_gates_errors(new: Sequence[Document], old: Sequence[Document]) -> list[FieldError]:
    known = {gate["name"] for gate in old}
    added = {gate["name"]: index for index, gate in enumerate(new) if gate["name"] not in known}
    return [
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for name, index in added.items()
    ]


def _fixed_fields_errors(new: Document, old: Document) -> list[FieldError]:
    """Complaints about every other change, once those that are allowed are taken back."""
    rest: Document = {name: value for name, value in new.items() if name not in _CHECKED}
    rest |= {name: old[name] for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations") if name in old}
    for kind in ("containers", "initContainers"):
        if kind in new:
            rest[kind] = _with_old_images(new[kind], old.get(kind, []))
    errors: list[FieldError] = []
    if old.get("schedulingGates"):
        rest, errors = _gated_errors(rest, old)
    if rest == old:
        return errors
    difference = go_diff(internal_form(old, "core.PodSpec"), internal_form(rest, "core.PodSpec"))
    detail = f"pod updates may not change fields other than {','.join(_UPDATABLE)}\n{difference}"
    return [*errors, forbidden("spec", detail)]


_CHECKED = frozenset({"activeDeadlineSeconds", "schedulingGates", "tolerations", "containers", "initContainers"})


def _with_old_images(new: Sequence[Document], old: Sequence[Document]) -> list[Document]:
    return [{**after, "image": before.get("image", "")} for after, before in zip(new, old, strict=True)]


def _gated_errors(new: Document, old: Document) -> tuple[Document, list[FieldError]]:
    """A pod that waits at a gate may have its choice of nodes narrowed; the spec with that taken back, and complaints."""
    errors: list[FieldError] = []
    selector, before = new.get("nodeSelector", {}), old.get("nodeSelector", {})
    if any(selector.get(key) != value for key, value in before.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(invalid("spec.nodeSelector", map_value(selector), detail))
    result = _put_back(new, "nodeSelector", old.get("nodeSelector"))
    affinity, old_affinity = new.get("affinity", {}), old.get("affinity", {})
    node, old_node = affinity.get("nodeAffinity"), old_affinity.get("nodeAffinity")
    if node == old_node:
        return result, errors
    errors += _node_affinity_errors(node or {}, old_node or {})
    restored = _put_back(affinity, "nodeAffinity", old_node)
    if not restored and "affinity" not in old:
        return _without(result, "affinity"), errors
    return {**result, "affinity": restored}, errors


def _node_affinity_errors(new: Document, old: Document) -> list[FieldError]:
    at = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    old_terms, new_terms = (side.get(_REQUIRED, {}).get("nodeSelectorTerms", []) for side in (old, new))
    if old_terms and len(old_terms) != len(new_terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(at, [_term_value(term) for term in new_terms] or None, detail)]
    detail = "only additions are allowed (no mutations or deletions)"
    return [
        invalid(f"{at}[{index}]", _term_value(after), detail)
        for index, (after, before) in enumerate(zip(new_terms, old_terms, strict=False))
        if not _is_narrower(after, before)
    ]


def _is_narrower(new: Document, old: Document) -> bool:
    sides = ("matchExpressions", "matchFields")
    if not any(old.get(side) for side in sides):
        return not any(new.get(side) for side in sides)
    return all(new.get(side, [])[: len(old.get(side, ()))] == old.get(side, []) for side in sides)


def _term_value(term: Document) -> Document:
    return internal_form(term, "core.NodeSelectorTerm")


def _put_back(document: Document, name: str, value: Any) -> Document:
    return _without(document, name) if value is None else {**document, name: value}


def _without(document: Document, name: str) -> Document:
    return {key: value for key, value in document.items() if key != name}
