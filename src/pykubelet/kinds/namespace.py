"""Namespace, its subresource `finalize`, and the conditions of a namespace that is being deleted.

Our API server deletes the content of namespaces itself; the namespace controller does so for other API servers. Both
use the functions for the deletion.

Upstream: pkg/registry/core/namespace/strategy.go, pkg/apis/core/validation/validation.go,
pkg/controller/namespace/deletion/status_condition_utils.go,
pkg/controller/namespace/deletion/namespaced_resources_deleter.go
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pykubelet.api.field_errors import FieldError, TypedString, invalid, items_errors
from pykubelet.api.names import dns1123_label_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.kind import ALL_VERBS, Kind, Strategy, restore_spec, restore_status, with_part_of, without_fields
from pykubelet.kinds.metadata import finalizer_name_errors, metadata_errors, metadata_update_errors

FINALIZER = "kubernetes"
_HEALTHY = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
_NAME_LABEL = "kubernetes.io/metadata.name"


class RemainingContent(NamedTuple):
    """An object that is still in a namespace."""

    resource: str
    """The group resource: `pods` or `replicasets.apps`."""
    finalizers: Sequence[str]


def with_remaining(
    namespace: Document,
    remaining: Collection[RemainingContent],
    failures: Iterable[str],
    now: str,
    *,
    undiscovered: str = "",
) -> Document:
    """The namespace with conditions about its content, failed deletions and the error of an incomplete discovery."""
    failed = _failed_conditions(remaining, sorted(failures), undiscovered)
    status = namespace.get("status", {})
    conditions: list[Document] = list(status.get("conditions", ()))
    for kind, healthy in _HEALTHY.items():
        state = "True" if kind in failed else "False"
        reason, message = failed.get(kind, healthy)
        index = next((index for index, one in enumerate(conditions) if one["type"] == kind), len(conditions))
        old = conditions[index : index + 1]
        since = old[0]["lastTransitionTime"] if old and old[0]["status"] == state else now
        conditions[index : index + 1] = [
            {"type": kind, "status": state, "lastTransitionTime": since, "reason": reason, "message": message}
        ]
    return {**namespace, "status": {**status, "phase": "Terminating", "conditions": conditions}}


def _failed_conditions(
    remaining: Collection[RemainingContent], failures: list[str], undiscovered: str
) -> dict[str, tuple[str, str]]:
    failed: dict[str, tuple[str, str]] = {}
    if undiscovered:
        failed["NamespaceDeletionDiscoveryFailure"] = ("DiscoveryFailed", undiscovered)
    if failures:
        text = f"Failed to delete all resource types, {len(failures)} remaining: {', '.join(failures)}"
        failed["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", text)
    if remaining:
        kinds = Counter(_resource_name(one.resource) for one in remaining)
        shown = ", ".join(sorted(f"{kind} has {count} resource instances" for kind, count in kinds.items()))
        failed["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {shown}")
    if holders := Counter(name for one in remaining for name in one.finalizers):
        shown = ", ".join(sorted(f"{name} in {count} resource instances" for name, count in holders.items()))
        text = f"Some content in the namespace has finalizers remaining: {shown}"
        failed["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", text)
    return failed


def _resource_name(resource: str) -> str:
    """The group resource as upstream prints it: `replicasets.apps`, but `pods.` for the core group."""
    return resource if "." in resource else f"{resource}."


def without_finalizer(namespace: Document) -> Document:
    """The namespace without Kubernetes' own finalizer, once its content is deleted."""
    spec = namespace.get("spec", {})
    finalizers = [name for name in spec.get("finalizers", ()) if name != FINALIZER]
    rest = without_fields(spec, "finalizers")
    return {**namespace, "spec": {**rest, "finalizers": finalizers} if finalizers else rest}


def is_held(namespace: Document) -> bool:
    """Whether finalizers keep a namespace that is being deleted."""
    return bool(namespace.get("spec", {}).get("finalizers") or namespace["metadata"].get("finalizers"))


def is_terminating(namespace: Document) -> bool:
    """Whether the content of a namespace is to be deleted."""
    is_deleted = "deletionTimestamp" in namespace["metadata"]
    return is_deleted and FINALIZER in namespace.get("spec", {}).get("finalizers", ())


def _default(document: Document) -> Document:
    namespace = normal_form(document, "core.v1.Namespace")
    metadata = namespace["metadata"]
    if name := metadata.get("name"):
        metadata = {**metadata, "labels": {**metadata.get("labels", {}), _NAME_LABEL: name}}
    return {**namespace, "metadata": metadata, "status": {"phase": "Active", **namespace["status"]}}


def _prepare_create(namespace: Document) -> Document:
    metadata, finalizers = namespace["metadata"], namespace["spec"].get("finalizers", [])
    labels = {**metadata.get("labels", {}), _NAME_LABEL: metadata.get("name", "")}
    kept = finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]
    return {
        **namespace,
        "metadata": {**metadata, "labels": labels},
        "spec": {**namespace["spec"], "finalizers": kept},
        "status": {"phase": "Active"},
    }


def _validate(namespace: Document) -> list[FieldError]:
    errors = metadata_errors(namespace["metadata"], name_rule=dns1123_label_errors, namespaced=False)
    for name in namespace["spec"].get("finalizers", ()):
        errors += finalizer_name_errors(name, "spec.finalizers")
    return errors


def _prepare_update(new: Document, old: Document) -> Document:
    return {**new, "spec": with_part_of(new["spec"], old["spec"], "finalizers"), "status": old["status"]}


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return _validate(new) + metadata_update_errors(new["metadata"], old["metadata"])


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    ending = "deletionTimestamp" in new["metadata"]
    phase, expected = new["status"].get("phase", ""), "Terminating" if ending else "Active"
    if phase == expected:
        return errors
    detail = f"may only be '{expected}' if `deletionTimestamp` is {'not ' if ending else ''}empty"
    return [*errors, invalid("status.Phase", TypedString(phase), detail)]


def _fields(namespace: Document) -> Mapping[str, str]:
    return {
        "metadata.name": namespace["metadata"].get("name", ""),
        "status.phase": namespace["status"].get("phase", ""),
    }


def _validate_finalize(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    return errors + items_errors(new["spec"].get("finalizers", ()), finalizer_name_errors, "spec.finalizers")


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, status, age."""
    return [name_of(document), at(document, "status").get("phase", ""), created(document, age)]


KIND = Kind(
    resource=Resource("", "v1", "namespaces", "Namespace", namespaced=False),
    definition="core.v1.Namespace",
    short_names=("ns",),
    verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
    subresources=("finalize", "status"),
    strategy=Strategy(
        default=_default,
        prepare_create=_prepare_create,
        validate_create=_validate,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
        prepare_status=restore_spec,
        validate_status=_validate_status,
        fields=_fields,
    ),
    subresource_strategies={
        "finalize": Strategy(default=_default, prepare_update=restore_status, validate_update=_validate_finalize)
    },
    cells=_cells,
)
