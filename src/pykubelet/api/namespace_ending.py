"""What a namespace that ends says about itself, and what is left to do for it.

In: the namespace and the objects still in it. Out: the namespace with its conditions, or without the finalizer that
stands for its content. Documents in, documents out: for the server that ends its namespaces itself, and for the
controller that does it for a server that does not.

Upstream: pkg/controller/namespace/deletion/status_condition_utils.go, namespaced_resources_deleter.go (finalizeNamespace)
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from pykubelet.api.wire import Document

FINALIZER = "kubernetes"
_FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


class Remaining(NamedTuple):
    """An object that is still there."""

    resource: str
    """`pods` or `replicasets.apps`."""
    finalizers: Sequence[str]


def with_remaining(
    namespace: Document,
    remaining: Collection[Remaining],
    failures: Iterable[str],
    now: str,
    *,
    undiscovered: str = "",
) -> Document:
    """The namespace with conditions about what is still in it, and what went wrong.

    `undiscovered` says why not everything is known that may be in it.
    """
    wrong = _wrong(remaining, sorted(failures), undiscovered)
    status = namespace.get("status", {})
    conditions: list[Document] = list(status.get("conditions", ()))
    for kind, fine in _FINE.items():
        state = "True" if kind in wrong else "False"
        reason, message = wrong.get(kind, fine)
        place = next((place for place, one in enumerate(conditions) if one["type"] == kind), None)
        since = now
        if place is not None and conditions[place]["status"] == state:
            since = conditions[place]["lastTransitionTime"]
        new = {"type": kind, "status": state, "lastTransitionTime": since, "reason": reason, "message": message}
        if place is None:
            conditions.append(new)
        else:
            conditions[place] = new
    return {**namespace, "status": {**status, "phase": "Terminating", "conditions": conditions}}


def without_finalizer(namespace: Document) -> Document:
    """The namespace once its content is gone."""
    spec = namespace.get("spec", {})
    finalizers = [name for name in spec.get("finalizers", ()) if name != FINALIZER]
    rest = {key: value for key, value in spec.items() if key != "finalizers"}
    return {**namespace, "spec": {**rest, "finalizers": finalizers} if finalizers else rest}


def is_held(namespace: Document) -> bool:
    """Whether somebody wants a namespace to stay that is being deleted."""
    return bool(namespace.get("spec", {}).get("finalizers") or namespace["metadata"].get("finalizers"))


def is_ending(namespace: Document) -> bool:
    """Whether the content of a namespace is to be deleted."""
    ends = "deletionTimestamp" in namespace["metadata"]
    return ends and FINALIZER in namespace.get("spec", {}).get("finalizers", ())


def _wrong(remaining: Collection[Remaining], failures: list[str], undiscovered: str) -> dict[str, tuple[str, str]]:
    wrong: dict[str, tuple[str, str]] = {}
    if undiscovered:
        wrong["NamespaceDeletionDiscoveryFailure"] = ("DiscoveryFailed", undiscovered)
    if failures:
        text = f"Failed to delete all resource types, {len(failures)} remaining: {', '.join(failures)}"
        wrong["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", text)
    if remaining:
        kinds = Counter(_resource_name(one.resource) for one in remaining)
        shown = ", ".join(sorted(f"{kind} has {count} resource instances" for kind, count in kinds.items()))
        wrong["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {shown}")
    if holders := Counter(name for one in remaining for name in one.finalizers):
        shown = ", ".join(sorted(f"{name} in {count} resource instances" for name, count in holders.items()))
        text = f"Some content in the namespace has finalizers remaining: {shown}"
        wrong["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", text)
    return wrong


def _resource_name(resource: str) -> str:
    """`replicasets.apps`, and `pods.` with the dot that upstream writes before a group that has no name."""
    return resource if "." in resource else f"{resource}."
