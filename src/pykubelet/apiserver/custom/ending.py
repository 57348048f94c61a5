"""What becomes of a definition that is being deleted, and of its objects.

In: documents. Out: the same as the next step has them; None for what is to be removed.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go
"""

from pykubelet.api.wire import Document
from pykubelet.apiserver.custom.conditions import Condition, with_condition
from pykubelet.apiserver.custom.definitions import CLEANUP

_IN_PROGRESS = Condition("Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
_COMPLETED = Condition("Terminating", "False", "InstanceDeletionCompleted", "removed all instances")


def is_ending(definition: Document) -> bool:
    """Whether the objects of a definition must go so that it can."""
    metadata = definition["metadata"]
    return bool(metadata.get("deletionTimestamp")) and CLEANUP in metadata.get("finalizers", ())


def in_progress(definition: Document, now: str) -> Document:
    """The definition while its objects are being removed."""
    return with_condition(definition, _IN_PROGRESS, now)


def completed(definition: Document, now: str) -> Document | None:
    """The definition once they are; it is removed itself unless others still hold it."""
    metadata = definition["metadata"]
    rest = [name for name in metadata.get("finalizers", ()) if name != CLEANUP]
    if not rest:
        return None
    return with_condition({**definition, "metadata": {**metadata, "finalizers": rest}}, _COMPLETED, now)


def ended(document: Document, now: str) -> Document | None:
    """An object whose definition goes: removed, or marked for those that hold it."""
    metadata = document["metadata"]
    if not metadata.get("finalizers"):
        return None
    if metadata.get("deletionTimestamp"):
        return document
    marked = {**metadata, "deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
    return {**document, "metadata": marked}
