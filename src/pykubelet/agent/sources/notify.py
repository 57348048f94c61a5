"""Which updates a merge sends on, and in which order.

In: the mode, and what a merge found. Out: the updates for the stream.

Upstream: pkg/kubelet/config/config.go (podStorage.Merge).
"""

from collections.abc import Callable
from enum import StrEnum

from pykubelet.agent.flow import PodOp, PodUpdate
from pykubelet.agent.sources.merge import Merged, Pods


class NotificationMode(StrEnum):
    """How changes are told. The node's loop takes only INCREMENTAL."""

    INCREMENTAL = "incremental"
    """Each change as it is: REMOVE, ADD, UPDATE, DELETE, RESTORE, RECONCILE."""
    SNAPSHOT = "snapshot"
    """All pods of all sources as one SET, whatever the change."""
    SNAPSHOT_AND_UPDATES = "snapshot-and-updates"
    """As SNAPSHOT when pods come or go; UPDATE and DELETE for those that change."""


def notifications(
    mode: NotificationMode, merged: Merged, *, source: str, first_set: bool, everything: Callable[[], Pods]
) -> tuple[PodUpdate, ...]:
    """The updates to send, in order.

    The first SET of a source is always told, if need be by an update without pods: it says that the source is ready.
    `everything` gives all pods of all sources; it is asked only where a snapshot is due. Snapshots never tell a mere
    change of status.
    """
    if mode is NotificationMode.INCREMENTAL:
        return _incremental(merged, source, first_set=first_set)
    is_due = first_set or bool(merged.removes or merged.adds or merged.restores)
    changes = _told(source, (PodOp.UPDATE, merged.updates), (PodOp.DELETE, merged.deletes))
    if mode is NotificationMode.SNAPSHOT:
        is_due, changes = is_due or bool(changes), ()
    return (PodUpdate(PodOp.SET, source, everything()), *changes) if is_due else changes


def _incremental(merged: Merged, source: str, *, first_set: bool) -> tuple[PodUpdate, ...]:
    # Removes go first: a pod recreated under its old name must not meet its predecessor.
    changes = _told(
        source,
        (PodOp.REMOVE, merged.removes),
        (PodOp.ADD, merged.adds),
        (PodOp.UPDATE, merged.updates),
        (PodOp.DELETE, merged.deletes),
        (PodOp.RESTORE, merged.restores),
    )
    told = merged.adds or merged.updates or merged.deletes
    ready = (PodUpdate(PodOp.ADD, source),) if first_set and not told else ()
    return (*changes, *ready, *_told(source, (PodOp.RECONCILE, merged.reconciles)))


def _told(source: str, *lists: tuple[PodOp, Pods]) -> tuple[PodUpdate, ...]:
    return tuple(PodUpdate(op, source, pods) for op, pods in lists if pods)
