"""Complaints about a change of the resources of a pod's containers while it runs.

In: the pod after and before the change, both after `default_pod`. Out: every complaint, in the API server's order.

Upstream: ValidatePodResize in pkg/apis/core/validation/validation.go
"""

from collections.abc import Sequence

from pykubelet.api.quality_of_service import qos_class
from pykubelet.api.validation.field_errors import FieldError, Named, forbidden, invalid
from pykubelet.api.validation.metadata_update import metadata_update_errors
from pykubelet.api.validation.pod import pod_errors
from pykubelet.api.validation.pod_annotations import MIRROR_ANNOTATION
from pykubelet.api.wire import Document

_RESIZABLE = ("cpu", "memory")
_ONLY_BOTH = "only cpu and memory resources are mutable"


def pod_resize_errors(new: Document, old: Document) -> list[FieldError]:
    """What is wrong with an update through the subresource for resizing."""
    after, before = new["spec"], old["spec"]
    if refusal := _never_resized(new, old):
        # Upstream names a path without a name here, which is written like an empty index.
        return [forbidden("[]", refusal)]
    errors = [*metadata_update_errors(new["metadata"], old["metadata"]), *pod_errors(new)]
    if (old["status"].get("qosClass") or qos_class(before)) != qos_class(after):
        quality = Named(new["status"].get("qosClass", ""))
        errors.append(invalid("spec", quality, "Pod QOS Class may not change as a result of resizing"))
    if not _is_supported(old["status"]):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    if order_errors := [
        error for kind in ("containers", "initContainers") for error in _order_errors(kind, after, before)
    ]:
        return errors + order_errors
    errors += _containers_errors(after, before)
    if not errors and _without_containers(after) != _without_containers(before):
        errors.append(forbidden("spec", _ONLY_BOTH))
    return errors


def _containers_errors(new: Document, old: Document) -> list[FieldError]:
    """Complaints about what changes in the containers, which stand in the same order."""
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


def _never_resized(new: Document, old: Document) -> str:
    """Why a pod of this kind is never resized; nothing if it may be."""
    whole = (pod["spec"].get("resources", {}) for pod in (old, new))
    if any(resources.get("requests") or resources.get("limits") for resources in whole):
        return "pods with pod-level resources cannot be resized"
    if MIRROR_ANNOTATION in old["metadata"].get("annotations", {}):
        return "static pods cannot be resized"
    return "windows pods cannot be resized" if old["spec"].get("os", {}).get("name") == "windows" else ""


def _is_supported(status: Document) -> bool:
    """Whether the node reports resources of what runs; before anything runs nobody knows."""
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


def _is_sidecar(container: Document) -> bool:
    return container.get("restartPolicy") == "Always"


def _removed_errors(new: Document, old: Document, path: str) -> list[FieldError]:
    return [
        forbidden(f"{path}.{side}", f"resource {side} cannot be removed")
        for side in ("requests", "limits")
        if old.get(side, {}).keys() - new.get(side, {}).keys()
    ]


def _with_old_amounts(container: Document, old: Document) -> Document:
    """The container with the old processor time and memory, and without claims, which upstream forgets here."""
    sides = {}
    for side in ("limits", "requests"):
        if side in old["resources"]:
            amounts = container["resources"].get(side, {})
            kept = {name: value for name, value in amounts.items() if name not in _RESIZABLE}
            before = {name: value for name, value in old["resources"][side].items() if name in _RESIZABLE}
            sides[side] = {**kept, **before}
    return {**container, "resources": sides}


def _without_containers(spec: Document) -> Document:
    return {name: value for name, value in spec.items() if name not in {"containers", "initContainers"}}
