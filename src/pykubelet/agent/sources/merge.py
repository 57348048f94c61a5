"""Merges one message of a source into the pods known from it.

In: the stored pods of the source by UID, and the message. Out: a `Merged` that says what was added, changed and
removed, and which entries to store. A message costs what it carries: ADD, UPDATE, DELETE, REMOVE and RESTORE look only
at the pods in it; SET carries everything its source has and is compared as a whole.

Upstream: pkg/kubelet/config/config.go (podStorage.merge). RESTORE was there until 1.18 and is kept; see `merge_update`.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.agent.flow import PodOp, PodUpdate
from pykubelet.agent.sources.compare import Difference, refresh
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import CONFIG_SEEN, CONFIG_SOURCE, pod_full_name

Pods = tuple[Pod, ...]


class Merged(Struct, frozen=True, kw_only=True):
    """What a message changed. A pod is in one of the lists, except where a message names a UID twice."""

    stored: Mapping[str, Pod] = {}
    """The entries to store, by UID."""
    replaces: bool = False
    """Whether `stored` is all the source has now; otherwise it goes on top of what there was, less `removes`."""
    removes: Pods = ()
    adds: Pods = ()
    updates: Pods = ()
    deletes: Pods = ()
    reconciles: Pods = ()
    restores: Pods = ()
    duplicates: Pods = ()
    """Dropped: an earlier pod of the same message has the same name and namespace."""


NOTHING = Merged()


def merge_update(stored: Mapping[str, Pod], update: PodUpdate, *, source: str, seen_at: str) -> Merged:
    """What `update` changes about `stored`, the pods of `source`; neither is touched.

    The operation only says how to read the list of pods; what comes out is decided by comparison, so an ADD of a known
    pod may come out as an update, a graceful deletion, or nothing. A pod seen for the first time is stamped with
    its source and with `seen_at`.

    RESTORE brings pods remembered from an earlier run (of the API source, before the API server answers). Pods
    unknown so far are stored and come out as restores; a known one is left alone, because what its source said in this
    run is newer. It does not count as hearing from the source: the first SET does, and it removes what is gone.
    """
    match update.op:
        case PodOp.SET:
            return _set(stored, update.pods, source, seen_at)
        case PodOp.ADD | PodOp.UPDATE | PodOp.DELETE:
            return _applied(stored, update.pods, source, seen_at, replaces=False)
        case PodOp.REMOVE:
            return Merged(removes=_known(stored, update.pods))
        case PodOp.RESTORE:
            return _restored(stored, update.pods, source, seen_at)
        case _:
            return NOTHING


def stored_after(stored: dict[str, Pod], merged: Merged) -> dict[str, Pod]:
    """The pods of the source once `merged` is applied; `stored` is given up to it and may be changed in place."""
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


def _set(stored: Mapping[str, Pod], pods: Pods, source: str, seen_at: str) -> Merged:
    applied = _applied(stored, pods, source, seen_at, replaces=True)
    return replace(applied, removes=tuple(pod for uid, pod in stored.items() if uid not in applied.stored))


def _applied(stored: Mapping[str, Pod], pods: Pods, source: str, seen_at: str, *, replaces: bool) -> Merged:
    """Compare each pod with the one of its UID; if the message `replaces`, pods new in it do not count as known."""
    unique, duplicates = _unique(pods)
    current: dict[str, _Entry] = {}
    known = {} if replaces else current
    adds: list[_Entry] = []
    changed: dict[Difference, list[_Entry]] = {difference: [] for difference in Difference}
    for pod in unique:
        uid = pod.metadata.uid
        if uid not in known and uid in stored:
            known[uid] = _Entry(stored[uid])
        if entry := known.get(uid):
            difference, entry.pod = refresh(entry.pod, pod)
            changed[difference].append(entry)
        else:
            entry = _Entry(_annotated(pod, {CONFIG_SOURCE: source, CONFIG_SEEN: seen_at}))
            adds.append(entry)
        current[uid] = entry
    return Merged(
        stored={uid: entry.pod for uid, entry in current.items()},
        replaces=replaces,
        adds=_pods(adds),
        updates=_pods(changed[Difference.UPDATE]),
        deletes=_pods(changed[Difference.DELETION]),
        reconciles=_pods(changed[Difference.STATUS]),
        duplicates=duplicates,
    )


def _restored(stored: Mapping[str, Pod], pods: Pods, source: str, seen_at: str) -> Merged:
    unique, duplicates = _unique(pods)
    # A pod that was stamped in the earlier run keeps that stamp: it is still when the node first saw it.
    restored = {
        pod.metadata.uid: _annotated(
            pod, {CONFIG_SOURCE: source, CONFIG_SEEN: pod.metadata.annotations.get(CONFIG_SEEN, seen_at)}
        )
        for pod in unique
        if pod.metadata.uid not in stored
    }
    return Merged(stored=restored, restores=tuple(restored.values()), duplicates=duplicates)


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
    """The stored pods whose UIDs are named, each once."""
    uids = dict.fromkeys(pod.metadata.uid for pod in pods)
    return tuple(stored[uid] for uid in uids if uid in stored)


def _annotated(pod: Pod, annotations: Mapping[str, str]) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, annotations={**pod.metadata.annotations, **annotations}))


def _pods(entries: Iterable[_Entry]) -> Pods:
    return tuple(entry.pod for entry in entries)
