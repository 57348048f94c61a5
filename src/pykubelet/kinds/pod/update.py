"""Validation of pod updates: the pod itself, its status, ephemeral containers and resize.

Both versions of the pod must have their defaults. Nearly all fields of the spec are immutable.

Upstream: pkg/apis/core/validation/validation.go
"""

from collections.abc import Sequence
from typing import Any

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    duplicate,
    each_invalid,
    forbidden,
    go_quote,
    invalid,
    required,
)
from pykubelet.api.names import (
    dns1123_subdomain_errors,
    group_id_errors,
    inclusive_range_error,
    ip_errors,
    qualified_name_errors,
    user_id_errors,
)
from pykubelet.api.pod_resources import qos_class
from pykubelet.api.serializer import Document
from pykubelet.kinds.go_values import go_diff, internal_form, map_value
from pykubelet.kinds.kind import without_fields
from pykubelet.kinds.metadata import immutable_errors, metadata_update_errors
from pykubelet.kinds.pod.containers import image_space_errors
from pykubelet.kinds.pod.scheduling import REQUIRED, tolerations_errors
from pykubelet.kinds.pod.validation import MIRROR_ANNOTATION, pod_annotation_changes_errors, pod_errors

_RESIZABLE = ("cpu", "memory")
_ONLY_BOTH = "only cpu and memory resources are mutable"
_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_NOT_NEGATIVE = "must be a non-negative integer"
STATUS_LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_MAX_SECONDS = 2**31 - 1
_UPDATABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_CHECKED = frozenset({"activeDeadlineSeconds", "schedulingGates", "tolerations", "containers", "initContainers"})


def pod_update_errors(new: Document, old: Document) -> list[FieldError]:
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


def _changed_pod_errors(new: Document, old: Document) -> list[FieldError]:
    """Validates what holds for every update of a pod."""
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
    """Validates the deadline, which may only decrease; also returns whether validation stops here, as upstream."""
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
    kept, before = (
        {frozenset(without_fields(each, "tolerationSeconds").items()) for each in side} for side in (new, old)
    )
    if not before <= kept:
        return [forbidden(at, "existing toleration can not be modified except its tolerationSeconds")]
    return tolerations_errors(new, at)


def _removed_gates_errors(new: Sequence[Document], old: Sequence[Document]) -> list[FieldError]:
    known = {gate["name"] for gate in old}
    added = {gate["name"]: index for index, gate in enumerate(new) if gate["name"] not in known}
    return [
        forbidden(
            f"spec.schedulingGates[{index}].name", f"only deletion is allowed, but found new scheduling gate '{name}'"
        )
        for name, index in added.items()
    ]


def _fixed_fields_errors(new: Document, old: Document) -> list[FieldError]:
    """Validates that nothing else changed, after reverting the allowed changes."""
    rest = without_fields(new, *_CHECKED)
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


def _with_old_images(new: Sequence[Document], old: Sequence[Document]) -> list[Document]:
    return [{**after, "image": before.get("image", "")} for after, before in zip(new, old, strict=True)]


def _gated_errors(new: Document, old: Document) -> tuple[Document, list[FieldError]]:
    """Validates the node selection of a gated pod, which may be narrowed; also returns the spec with it reverted."""
    errors: list[FieldError] = []
    selector, before = new.get("nodeSelector", {}), old.get("nodeSelector", {})
    if any(selector.get(key) != value for key, value in before.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(invalid("spec.nodeSelector", map_value(selector), detail))
    result = _with_value(new, "nodeSelector", old.get("nodeSelector"))
    affinity, old_affinity = new.get("affinity", {}), old.get("affinity", {})
    node, old_node = affinity.get("nodeAffinity"), old_affinity.get("nodeAffinity")
    if node == old_node:
        return result, errors
    errors += _node_affinity_errors(node or {}, old_node or {})
    restored = _with_value(affinity, "nodeAffinity", old_node)
    if not restored and "affinity" not in old:
        return without_fields(result, "affinity"), errors
    return {**result, "affinity": restored}, errors


def _with_value(document: Document, name: str, value: Any) -> Document:
    return without_fields(document, name) if value is None else {**document, name: value}


def _node_affinity_errors(new: Document, old: Document) -> list[FieldError]:
    at = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    old_terms, new_terms = (side.get(REQUIRED, {}).get("nodeSelectorTerms", []) for side in (old, new))
    if old_terms and len(old_terms) != len(new_terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(at, [_term_value(term) for term in new_terms] or None, detail)]
    detail = "only additions are allowed (no mutations or deletions)"
    return [
        invalid(f"{at}[{index}]", _term_value(after), detail)
        for index, (after, before) in enumerate(zip(new_terms, old_terms, strict=False))
        if not _is_narrower(after, before)
    ]


def _term_value(term: Document) -> Document:
    return internal_form(term, "core.NodeSelectorTerm")


def _is_narrower(new: Document, old: Document) -> bool:
    sides = ("matchExpressions", "matchFields")
    if not any(old.get(side) for side in sides):
        return not any(new.get(side) for side in sides)
    return all(new.get(side, [])[: len(old.get(side, ()))] == old.get(side, []) for side in sides)


def ephemeral_containers_update_errors(new: Document, old: Document) -> list[FieldError]:
    """Validates an update of the ephemeral containers, which can only be added."""
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


def pod_resize_errors(new: Document, old: Document) -> list[FieldError]:
    """Validates an update through the subresource `resize`."""
    after, before = new["spec"], old["spec"]
    if refusal := _never_resized(new, old):
        # Upstream prints the empty path as an empty index.
        return [forbidden("[]", refusal)]
    errors = [*metadata_update_errors(new["metadata"], old["metadata"]), *pod_errors(new)]
    if (old["status"].get("qosClass") or qos_class(before)) != qos_class(after):
        quality = TypedString(new["status"].get("qosClass", ""))
        errors.append(invalid("spec", quality, "Pod QOS Class may not change as a result of resizing"))
    if not _is_supported(old["status"]):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    if order_errors := [
        error for kind in ("containers", "initContainers") for error in _order_errors(kind, after, before)
    ]:
        return errors + order_errors
    errors += _containers_errors(after, before)
    others, old_others = (without_fields(spec, "containers", "initContainers") for spec in (after, before))
    if not errors and others != old_others:
        errors.append(forbidden("spec", _ONLY_BOTH))
    return errors


def _never_resized(new: Document, old: Document) -> str:
    """Why a pod of this kind cannot be resized; empty if it can be."""
    pod_resources = (pod["spec"].get("resources", {}) for pod in (old, new))
    if any(resources.get("requests") or resources.get("limits") for resources in pod_resources):
        return "pods with pod-level resources cannot be resized"
    if MIRROR_ANNOTATION in old["metadata"].get("annotations", {}):
        return "static pods cannot be resized"
    return "windows pods cannot be resized" if old["spec"].get("os", {}).get("name") == "windows" else ""


def _is_supported(status: Document) -> bool:
    """Whether the node reports the resources of running containers; unknown, so True, before one runs."""
    running = (each for each in status.get("containerStatuses", ()) if "running" in each["state"])
    return next(("resources" in each for each in running), True)


def _order_errors(kind: str, new: Document, old: Document) -> list[FieldError]:
    after, before = new.get(kind, ()), old.get(kind, ())
    if len(after) != len(before):
        return [forbidden(f"spec.{kind}", f"{kind} may not be added or removed on resize")]
    return [
        forbidden(f"spec.{kind}[{index}].name", f"{kind} may not be renamed or reordered on resize")
        for index, (resized, container) in enumerate(_pairs(kind, new, old))
        if resized["name"] != container["name"]
    ]


def _pairs(kind: str, new: Document, old: Document) -> Sequence[tuple[Document, Document]]:
    return tuple(zip(new.get(kind, ()), old.get(kind, ()), strict=True))


def _containers_errors(new: Document, old: Document) -> list[FieldError]:
    """Validates the changes of the containers, whose order is fixed."""
    errors: list[FieldError] = []
    for kind in ("initContainers", "containers"):
        for index, (resized, container) in enumerate(_pairs(kind, new, old)):
            if kind == "containers" or _is_sidecar(container):
                at = f"spec.{kind}[{index}].resources"
                errors += _removed_errors(resized["resources"], container["resources"], at)
    for resized, container in _pairs("containers", new, old):
        if _with_old_amounts(resized, container) != container:
            errors.append(forbidden("spec", _ONLY_BOTH))
    for resized, container in _pairs("initContainers", new, old):
        if not _is_sidecar(resized):
            if resized != container:
                errors.append(forbidden("spec", "resources for non-sidecar init containers are immutable"))
        elif _with_old_amounts(resized, container) != container:
            errors.append(forbidden("spec", "only cpu and memory resources for sidecar containers are mutable"))
    return errors


def _is_sidecar(container: Document) -> bool:
    return container.get("restartPolicy") == "Always"


def _removed_errors(new: Document, old: Document, path: str) -> list[FieldError]:
    return [
        forbidden(f"{path}.{side}", f"resource {side} cannot be removed")
        for side in ("requests", "limits")
        if old.get(side, {}).keys() - new.get(side, {}).keys()
    ]


def _with_old_amounts(container: Document, old: Document) -> Document:
    """The container with the old cpu and memory, and without claims, as upstream compares it."""
    sides = {}
    for side in ("limits", "requests"):
        if side in old["resources"]:
            amounts = container["resources"].get(side, {})
            before = {name: value for name, value in old["resources"][side].items() if name in _RESIZABLE}
            sides[side] = {**without_fields(amounts, *_RESIZABLE), **before}
    return {**container, "resources": sides}


def pod_status_update_errors(new: Document, old: Document) -> list[FieldError]:
    status, before, spec = new["status"], old["status"], old["spec"]
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    errors += pod_annotation_changes_errors(new, old, "metadata.annotations")
    errors += _conditions_errors(status.get("conditions", ()))
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName", ""):
        errors += each_invalid("status.nominatedNodeName", nominated, dns1123_subdomain_errors(nominated))
    if (generation := status.get("observedGeneration", 0)) < 0:
        errors.append(invalid("status.observedGeneration", generation, _NOT_NEGATIVE))
    quality = status.get("qosClass", "")
    errors += immutable_errors(quality, before.get("qosClass", ""), "status.qosClass", shown=TypedString(quality))
    for kind in STATUS_LISTS:
        if kind in before:
            errors += _restart_errors(kind, status.get(kind, ()), before[kind], spec)
    errors += _claim_statuses_errors(status.get("resourceClaimStatuses", ()), spec.get("resourceClaims", ()))
    for kind in ("podIPs", "hostIPs"):
        if kind in status:
            errors += _addresses_errors(kind, status, before)
    for kind in STATUS_LISTS:
        errors += _users_errors(status.get(kind, ()), spec.get("os", {}).get("name", "linux"), f"status.{kind}")
    return errors


def _conditions_errors(conditions: Sequence[Document]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, condition in enumerate(conditions):
        if (generation := condition.get("observedGeneration", 0)) < 0:
            errors.append(invalid(f"status.conditions[{index}].observedGeneration", generation, _NOT_NEGATIVE))
        kind = condition["type"]
        if kind not in _SYSTEM_CONDITIONS and (details := qualified_name_errors(kind)):
            errors += each_invalid(f"status.conditions[{index}].Type", kind, details)
    return errors


def _restart_errors(kind: str, new: Sequence[Document], old: Sequence[Document], spec: Document) -> list[FieldError]:
    """Validates that containers that ended for good do not run again."""
    policy = spec.get("restartPolicy") if kind != "ephemeralContainerStatuses" else "Never"
    if policy == "Always":
        return []
    sidecars = {each["name"] for each in spec.get("initContainers", ()) if each.get("restartPolicy") == "Always"}
    revived = {each["name"] for each in new if "terminated" not in each["state"]}
    return [
        forbidden(f"status.{kind}[{index}].state", "may not be transitioned to non-terminated state")
        for index, status in enumerate(old)
        if status["name"] in revived
        and "terminated" in status["state"]
        and not (policy == "OnFailure" and status["state"]["terminated"]["exitCode"])
        and not (kind == "initContainerStatuses" and status["name"] in sidecars)
    ]


def _claim_statuses_errors(statuses: Sequence[Document], claims: Sequence[Document]) -> list[FieldError]:
    errors: list[FieldError] = []
    known, seen = {claim["name"] for claim in claims}, set[str]()
    for index, status in enumerate(statuses):
        at, name = f"status.resourceClaimStatuses[{index}].name", status["name"]
        if name not in known:
            errors.append(invalid(at, name, "must match the name of an entry in `spec.resourceClaims`"))
        if name in seen:
            errors.append(duplicate(at, name))
        seen.add(name)
        if (claim := status.get("resourceClaimName")) is not None:
            errors += each_invalid(at, TypedString(claim), dns1123_subdomain_errors(claim))
    return errors


def _addresses_errors(kind: str, status: Document, before: Document) -> list[FieldError]:
    """Validates the addresses of the pod or its host; invalid ones that exist already may stay."""
    at = f"status.{kind}"
    addresses = [each["ip"] for each in status.get(kind, ())]
    old = {each["ip"] for each in before.get(kind, ())}
    errors: list[FieldError] = []
    if kind == "hostIPs" and addresses and addresses[0] != status.get("hostIP", ""):
        errors.append(invalid(f"{at}[0].ip", addresses[0], "must be equal to `hostIP`"))
    for index, address in enumerate(addresses):
        if address not in old:
            errors += each_invalid(f"{at}[{index}]", address, ip_errors(address))
    is_pair = len(addresses) == 2 and (":" in addresses[0]) != (":" in addresses[1])
    if len(addresses) > 1 and not is_pair:
        shown = [{"IP": address} for address in addresses]
        errors.append(invalid(at, shown, "may specify no more than one IP for each IP family"))
    return errors


def _users_errors(statuses: Sequence[Document], system: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, status in enumerate(statuses):
        user = status.get("user", {}).get("linux") if "user" in status else None
        if user is None:
            continue
        at = f"{path}[{index}].user.linux"
        if system == "windows":
            errors.append(forbidden(at, "cannot be set for a windows pod"))
        elif system == "linux":
            errors += each_invalid(f"{at}.uid", user["uid"], user_id_errors(user["uid"]))
            errors += each_invalid(f"{at}.gid", user["gid"], group_id_errors(user["gid"]))
            for number, group in enumerate(user.get("supplementalGroups", ())):
                errors += each_invalid(f"{at}.supplementalGroups[{number}]", group, group_id_errors(group))
    return errors
