"""What a namespace that ends says about itself, and what is left to do for it.

In: the namespace and the objects still in it. Out: the namespace with its conditions, or without the finalizer that
stands for its content.

Upstream: pkg/controller/namespace/deletion/status_condition_utils.go, namespaced_resources_deleter.go (finalizeNamespace)
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from pykubelet.api.wire import Document
from pykubelet.apiserver.store import Key

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


def with_remaining(
    namespace: Document, remaining: Mapping[Key, list[str]], failures: Iterable[str], now: str
) -> Document:
    """The namespace with conditions about what is still in it: objects with their finalizers, and what went wrong."""
    wrong = _wrong(remaining, sorted(failures))
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


def without_finalizer(namespace: Document) -> Document | None:
    """The namespace once its content is gone; None if nobody else holds it."""
    spec = namespace.get("spec", {})
    finalizers = [name for name in spec.get("finalizers", ()) if name != FINALIZER]
    if not finalizers and not namespace["metadata"].get("finalizers"):
        return None
    rest = {key: value for key, value in spec.items() if key != "finalizers"}
    return {**namespace, "spec": {**rest, "finalizers": finalizers} if finalizers else rest}


def is_ending(namespace: Document) -> bool:
    """Whether the content of a namespace is to be deleted."""
    ends = "deletionTimestamp" in namespace["metadata"]
    return ends and FINALIZER in namespace.get("spec", {}).get("finalizers", ())


def _wrong(remaining: Mapping[Key, list[str]], failures: list[str]) -> dict[str, tuple[str, str]]:
    wrong: dict[str, tuple[str, str]] = {}
    if failures:
        text = f"Failed to delete all resource types, {len(failures)} remaining: {', '.join(failures)}"
        wrong["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", text)
    if remaining:
        kinds = Counter(_resource_name(key.collection) for key in remaining)
        shown = ", ".join(sorted(f"{kind} has {count} resource instances" for kind, count in kinds.items()))
        wrong["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {shown}")
    if holders := Counter(name for finalizers in remaining.values() for name in finalizers):
        shown = ", ".join(sorted(f"{name} in {count} resource instances" for name, count in holders.items()))
        text = f"Some content in the namespace has finalizers remaining: {shown}"
        wrong["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", text)
    return wrong


def _resource_name(collection: str) -> str:
    """`replicasets.apps`, and `pods.` with the dot that upstream writes before a group that has no name."""
    return collection if "." in collection else f"{collection}."
