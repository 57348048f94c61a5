"""Merges one message of a source into the stored pods of that source.

Pure: returns what was added, changed and removed, and which entries to store. A message costs what it carries: all
operations but SET read only their own pods. Pods are frozen: a changed pod is a new value that shares its unchanged
parts. RESTORE existed until 1.18 and is kept, see `merge_update`.

Upstream: pkg/kubelet/config/config.go
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import CONFIG_SEEN, CONFIG_SOURCE, LOCAL_ANNOTATIONS, pod_full_name
from pykubelet.api.times import same_instant
from pykubelet.kubelet.types import PodOperation, PodUpdate


class PodDifference(Enum):
    """How an incoming pod differs from the stored one."""

    NONE = auto()
    STATUS = auto()
    """Only the status changed; the kubelet corrects it."""
    UPDATE = auto()
    """What should run changed."""
    DELETION = auto()
    """What should run changed, and the pod is being deleted."""


def compare_pods(existing: Pod, incoming: Pod) -> tuple[PodDifference, Pod]:
    """How `incoming` differs from `existing`, and the pod to store.

    Name, namespace, UID, owners, finalizers and creation time stay as first seen; the generation moves only with a real
    change. Annotations that the kubelet wrote are kept. The resource version always moves, unlike upstream: the status
    manager needs it to find the newer of two objects.
    """
    if not _differs(existing, incoming):
        if _same(existing.status, incoming.status):
            return PodDifference.NONE, existing
        metadata = replace(existing.metadata, resource_version=incoming.metadata.resource_version)
        return PodDifference.STATUS, replace(existing, metadata=metadata, status=incoming.status)
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
    return (PodDifference.DELETION if deleting else PodDifference.UPDATE), pod


def _differs(existing: Pod, incoming: Pod) -> bool:
    """Whether anything differs that decides what should run; cheap comparisons first."""
    old, new = existing.metadata, incoming.metadata
    return not (
        old.deletion_grace_period_seconds == new.deletion_grace_period_seconds
        and same_instant(old.deletion_timestamp, new.deletion_timestamp)
        and _same(old.labels, new.labels)
        and _same_annotations(old.annotations, new.annotations)
        and _same(existing.spec, incoming.spec)
    )


def _same(left: Any, right: Any) -> bool:
    """Equality that is free for the same object, the usual case for a manifest read again."""
    return left is right or bool(left == right)


def _same_annotations(existing: Mapping[str, str], incoming: Mapping[str, str]) -> bool:
    return existing is incoming or _foreign(existing) == _foreign(incoming)


def _foreign(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key not in LOCAL_ANNOTATIONS}


def _with_local(incoming: Mapping[str, str], existing: Mapping[str, str]) -> dict[str, str]:
    return {**incoming, **{key: existing[key] for key in LOCAL_ANNOTATIONS if key in existing}}


Pods = tuple[Pod, ...]


class MergeResult(Struct, frozen=True, kw_only=True):
    """What a message changed. A pod is in one of the lists, except if a message names a UID twice."""

    stored: Mapping[str, Pod] = {}
    """The entries to store, by UID."""
    replaces: bool = False
    """Whether `stored` is all the source has; otherwise it is added to the old entries without `removes`."""
    removes: Pods = ()
    adds: Pods = ()
    updates: Pods = ()
    deletes: Pods = ()
    reconciles: Pods = ()
    restores: Pods = ()
    duplicates: Pods = ()
    """Dropped pods: an earlier pod of the same message has the same name and namespace."""


NOTHING = MergeResult()


def merge_update(stored: Mapping[str, Pod], update: PodUpdate, *, source: str, seen_at: str) -> MergeResult:
    """What `update` changes about `stored`, the pods of `source`; neither is modified.

    The operation only says how to read the list of pods; the result is decided by comparison: an ADD of a known pod may
    become an update, a graceful deletion, or nothing. A new pod is annotated with its source and with `seen_at`.

    RESTORE brings pods remembered from an earlier run, before the API server answers. Unknown pods are stored and
    returned as restores; known ones are left alone, because their source is newer. It does not make the source ready:
    the first SET does, and removes what is gone.
    """
    match update.op:
        case PodOperation.SET:
            merged = _applied(stored, update.pods, source, seen_at, replaces=True)
            return replace(merged, removes=tuple(pod for uid, pod in stored.items() if uid not in merged.stored))
        case PodOperation.ADD | PodOperation.UPDATE | PodOperation.DELETE:
            return _applied(stored, update.pods, source, seen_at, replaces=False)
        case PodOperation.REMOVE:
            return MergeResult(removes=_known(stored, update.pods))
        case PodOperation.RESTORE:
            return _restored(stored, update.pods, source, seen_at)
        case _:
            return NOTHING


def stored_after(stored: dict[str, Pod], merged: MergeResult) -> dict[str, Pod]:
    """The pods of the source after `merged` is applied; `stored` may be modified in place."""
    if merged.replaces:
        return dict(merged.stored)
    stored.update(merged.stored)
    for pod in merged.removes:
        del stored[pod.metadata.uid]
    return stored


class _Entry:
    """A stored pod during a merge. Lists share it, so a UID named twice shows its last state in each of them."""

    __slots__ = ("pod",)

    def __init__(self, pod: Pod) -> None:
        self.pod = pod


def _applied(stored: Mapping[str, Pod], pods: Pods, source: str, seen_at: str, *, replaces: bool) -> MergeResult:
    """Compare each pod with the one of its UID; if the message `replaces`, pods new in it do not count as known."""
    unique, duplicates = _unique(pods)
    current: dict[str, _Entry] = {}
    known = {} if replaces else current
    adds: list[_Entry] = []
    changed: dict[PodDifference, list[_Entry]] = {difference: [] for difference in PodDifference}
    for pod in unique:
        uid = pod.metadata.uid
        if uid not in known and uid in stored:
            known[uid] = _Entry(stored[uid])
        if entry := known.get(uid):
            difference, entry.pod = compare_pods(entry.pod, pod)
            changed[difference].append(entry)
        else:
            entry = _Entry(_annotated(pod, {CONFIG_SOURCE: source, CONFIG_SEEN: seen_at}))
            adds.append(entry)
        current[uid] = entry
    return MergeResult(
        stored={uid: entry.pod for uid, entry in current.items()},
        replaces=replaces,
        adds=_pods(adds),
        updates=_pods(changed[PodDifference.UPDATE]),
        deletes=_pods(changed[PodDifference.DELETION]),
        reconciles=_pods(changed[PodDifference.STATUS]),
        duplicates=duplicates,
    )


def _restored(stored: Mapping[str, Pod], pods: Pods, source: str, seen_at: str) -> MergeResult:
    unique, duplicates = _unique(pods)
    # A pod annotated in the earlier run keeps the time at which the node first saw it.
    restored = {
        pod.metadata.uid: _annotated(
            pod, {CONFIG_SOURCE: source, CONFIG_SEEN: pod.metadata.annotations.get(CONFIG_SEEN, seen_at)}
        )
        for pod in unique
        if pod.metadata.uid not in stored
    }
    return MergeResult(stored=restored, restores=tuple(restored.values()), duplicates=duplicates)


def _unique(pods: Pods) -> tuple[Pods, Pods]:
    """The first pod of each full name, and the others."""
    if len(pods) < 2:
        return pods, ()
    first: dict[str, Pod] = {}
    duplicates: list[Pod] = []
    for pod in pods:
        name = pod_full_name(pod)
        if name in first:
            duplicates.append(pod)
        else:
            first[name] = pod
    return tuple(first.values()), tuple(duplicates)


def _known(stored: Mapping[str, Pod], pods: Pods) -> Pods:
    """The stored pods with these UIDs, each once."""
    uids = dict.fromkeys(pod.metadata.uid for pod in pods)
    return tuple(stored[uid] for uid in uids if uid in stored)


def _annotated(pod: Pod, annotations: Mapping[str, str]) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, annotations={**pod.metadata.annotations, **annotations}))


def _pods(entries: Iterable[_Entry]) -> Pods:
    return tuple(entry.pod for entry in entries)
