"""What an incoming pod changes about the one already known under its UID.

In: the pod as stored and the pod as its source sends it now. Out: the kind of difference, and the pod to store.
Pods are frozen, so a stored pod is never touched: a changed one is a new value that shares every unchanged part.

Upstream: pkg/kubelet/config/config.go (checkAndUpdatePod).
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from msgspec.structs import replace

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import LOCAL_ANNOTATIONS
from pykubelet.api.times import same_instant


class Difference(Enum):
    """What kind of change an incoming pod is."""

    NONE = auto()
    STATUS = auto()
    """Only the status: the node knows better and will correct it."""
    UPDATE = auto()
    """What shall run has changed."""
    DELETION = auto()
    """What shall run has changed, and the pod is being deleted."""


def refresh(existing: Pod, incoming: Pod) -> tuple[Difference, Pod]:
    """How `incoming` differs from `existing`, and the pod to store from now on.

    Name, namespace, UID, owners, finalizers and creation time stay as they were first seen; the generation moves only
    together with a real change. Annotations that the node wrote itself are kept. The resource version moves with
    whatever moves, unlike upstream: the status manager must tell which of two objects is newer.
    """
    if not _differs(existing, incoming):
        if _same(existing.status, incoming.status):
            return Difference.NONE, existing
        metadata = replace(existing.metadata, resource_version=incoming.metadata.resource_version)
        return Difference.STATUS, replace(existing, metadata=metadata, status=incoming.status)
    metadata = replace(
        existing.metadata,
        labels=incoming.metadata.labels,
        annotations=_with_local(incoming.metadata.annotations, existing.metadata.annotations),
        deletion_timestamp=incoming.metadata.deletion_timestamp,
        deletion_grace_period_seconds=incoming.metadata.deletion_grace_period_seconds,
        generation=incoming.metadata.generation,
        resource_version=incoming.metadata.resource_version,
    )
    pod = replace(existing, metadata=metadata, spec=incoming.spec, status=incoming.status)
    deleting = incoming.metadata.deletion_timestamp is not None
    return (Difference.DELETION if deleting else Difference.UPDATE), pod


def _differs(existing: Pod, incoming: Pod) -> bool:
    """Whether anything differs that decides what shall run; cheap questions first."""
    old, new = existing.metadata, incoming.metadata
    return not (
        old.deletion_grace_period_seconds == new.deletion_grace_period_seconds
        and same_instant(old.deletion_timestamp, new.deletion_timestamp)
        and _same(old.labels, new.labels)
        and _same_annotations(old.annotations, new.annotations)
        and _same(existing.spec, incoming.spec)
    )


def _same(left: Any, right: Any) -> bool:
    """Equality that is free for two views of one value, the usual case for a manifest read again."""
    return left is right or bool(left == right)


def _same_annotations(existing: Mapping[str, str], incoming: Mapping[str, str]) -> bool:
    return existing is incoming or _foreign(existing) == _foreign(incoming)


def _foreign(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key not in LOCAL_ANNOTATIONS}


def _with_local(incoming: Mapping[str, str], existing: Mapping[str, str]) -> dict[str, str]:
    return {**incoming, **{key: existing[key] for key in LOCAL_ANNOTATIONS if key in existing}}
