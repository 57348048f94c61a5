"""The versions of a DaemonSet: its present one in the API, earlier ones kept or forgotten.

In: a DaemonSet. Out: its revision, and ControllerRevisions created, numbered and deleted.
Upstream: constructHistory, dedupCurHistories and cleanupHistory in pkg/controller/daemon/update.go.

Which daemon pods go, and where new ones start, while a new version of a DaemonSet takes over.

Pure. In: a DaemonSet, the nodes, its pods. Out: pods to delete, nodes to create one for. Without a surge old pods are
deleted and the new ones come with the next look at their nodes; with a surge a new pod starts beside the old one.
Upstream: rollingUpdate in pkg/controller/daemon/update.go.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pykubelet.api.generated.apps import ControllerRevision, DaemonSet
from pykubelet.api.generated.core import Node, Pod
from pykubelet.api.labels import selector_from_object
from pykubelet.api.scheme import DAEMON_SETS
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.interface import Client
from pykubelet.controllers.daemon.placement import (
    DaemonPodRevision,
    PodsByNode,
    max_surge,
    max_unavailable,
    node_should_run_daemon_pod,
)
from pykubelet.controllers.daemon.pods import DaemonPods
from pykubelet.controllers.framework.active_pods import is_pod_available
from pykubelet.controllers.framework.controller_history import (
    DEFAULT_HISTORY_LIMIT,
    REVISION_LABEL,
    ControllerRevisions,
    RevisionNaming,
    is_same_data,
    new_revision,
    next_number,
    revision_data,
    surplus_revisions,
)
from pykubelet.controllers.framework.pod_control import template_hash

NAMING = RevisionNaming(REVISION_LABEL, template_hash)


@dataclass(frozen=True, slots=True)
class DaemonSetRevisions:
    """The versions of one set."""

    hash: str
    """What pods of the present version have as their revision."""
    old: tuple[ControllerRevision, ...]
    collision_count: int | None


class DaemonSetHistory:
    """The versions of all sets."""

    def __init__(self, *, client: Client, revisions: ObjectIndex[ControllerRevision], pods: DaemonPods) -> None:
        self._revisions = ControllerRevisions(client=client, kind=DAEMON_SETS, revisions=revisions)
        self._pods = pods

    async def versions(self, daemon_set: DaemonSet) -> DaemonSetRevisions:
        """The set's versions; the present one is made if it is new, and is the newest if it is an old one again."""
        known = await self._revisions.claim(daemon_set, selector_from_object(daemon_set.spec.selector))
        labelled = [await self._labelled(revision) for revision in known]
        count, data = daemon_set.status.collision_count, revision_data(daemon_set.spec.template)
        same = [revision for revision in labelled if is_same_data(revision, data)]
        old = tuple(revision for revision in labelled if revision not in same)
        number = next_number(old)
        if not same:
            present, count = await self._revisions.create(
                daemon_set, lambda count: self._new(daemon_set, number, count), count
            )
        else:
            present = await self._only(daemon_set, same)
            if present.revision < number:
                await self._revisions.renumber(present, number)
        return DaemonSetRevisions(present.metadata.labels[REVISION_LABEL], old, count)

    async def truncate(self, daemon_set: DaemonSet, old: Sequence[ControllerRevision], pods: Iterable[Pod]) -> None:
        """Forget the oldest versions above the limit that no pod is of."""
        limit = daemon_set.spec.revision_history_limit
        live = {pod.metadata.labels.get(REVISION_LABEL) for pod in pods}
        for revision in surplus_revisions(
            old,
            DEFAULT_HISTORY_LIMIT if limit is None else limit,
            lambda one: one.metadata.labels[REVISION_LABEL] in live,
            count_live=True,
        ):
            await self._revisions.delete(revision)

    @staticmethod
    def _new(daemon_set: DaemonSet, number: int, collision_count: int | None) -> ControllerRevision:
        template = daemon_set.spec.template
        return new_revision(daemon_set, template, number=number, naming=NAMING, collision_count=collision_count)

    async def _labelled(self, revision: ControllerRevision) -> ControllerRevision:
        """The revision, by whose label pods know it."""
        if REVISION_LABEL in revision.metadata.labels:
            return revision
        return await self._revisions.label(revision, REVISION_LABEL, revision.metadata.name)

    async def _only(self, daemon_set: DaemonSet, same: Sequence[ControllerRevision]) -> ControllerRevision:
        """The newest of several revisions of one template; the others go, and their pods become pods of it."""
        *others, kept = same
        if others:
            hashes = {revision.metadata.labels[REVISION_LABEL] for revision in others}
            for pod in await self._pods.claimed(daemon_set):
                if pod.metadata.labels.get(REVISION_LABEL) in hashes:
                    await self._pods.relabel(pod, REVISION_LABEL, kept.metadata.labels[REVISION_LABEL])
        for revision in others:
            await self._revisions.delete(revision)
        return kept


@dataclass(frozen=True, slots=True)
class RollingUpdate:
    """The next step of an update."""

    create: tuple[str, ...] = ()
    delete: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class _Spot:
    """A node that has pods of the set or should have one."""

    name: str
    is_wanted: bool
    new: Pod | None = None
    old: Pod | None = None
    is_crowded: bool = False
    """Several new or several old pods: cleared up before the update goes on there."""


def plan_rolling_update(
    daemon_set: DaemonSet, nodes: Iterable[Node], by_node: PodsByNode, revision: DaemonPodRevision, now: datetime
) -> RollingUpdate:
    """What the update may do now, within the bounds that the set gives it."""
    wanted = [node.metadata.name for node in nodes if node_should_run_daemon_pod(daemon_set, node).may_start]
    names = dict.fromkeys((*by_node, *wanted))
    is_wanted = set(wanted)
    spots = [_spot(name, name in is_wanted, by_node.get(name, ()), revision) for name in names]

    def available(pod: Pod | None) -> bool:
        return pod is not None and is_pod_available(pod, daemon_set.spec.min_ready_seconds, now)

    up = {spot.name: available(spot.old if spot.old is not None else spot.new) for spot in spots}
    surge = max_surge(daemon_set, len(wanted))
    if surge == 0:
        # The API refuses a set that allows neither; one that has come in anyway must not stand still.
        return _replace(spots, up, max_unavailable(daemon_set, len(wanted)) or min(1, len(wanted)))
    taken_over = {spot.name for spot in spots if available(spot.new)}
    return _surge(spots, up, taken_over, surge, len(wanted))


def _spot(name: str, is_wanted: bool, pods: Sequence[Pod], revision: DaemonPodRevision) -> _Spot:
    present = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    new = [pod for pod in present if revision.made(pod)]
    old = [pod for pod in present if not revision.made(pod)]
    if len(new) > 1 or len(old) > 1:
        return _Spot(name, is_wanted, is_crowded=True)
    return _Spot(name, is_wanted, new[0] if new else None, old[0] if old else None)


def _replace(spots: Sequence[_Spot], up: dict[str, bool], limit: int) -> RollingUpdate:
    """Old pods that are not available go in any case, others as long as few enough nodes are without one."""
    outdated = [(spot, spot.old) for spot in spots if spot.old is not None and spot.new is None]
    candidates = [old for spot, old in outdated if up[spot.name]]
    broken = [old for spot, old in outdated if not up[spot.name]]
    # A node with both pods, or none, is about to change.
    unavailable = sum(not up[spot.name] or (spot.old is not None and spot.new is not None) for spot in spots)
    return RollingUpdate(delete=(*broken, *candidates[: max(0, limit - unavailable)]))


def _surge(
    spots: Sequence[_Spot], up: dict[str, bool], taken_over: set[str], limit: int, desired: int
) -> RollingUpdate:
    """A new pod beside each old one that is not available, and beside a few that are.

    Old pods go once the new one is available. Those of nodes that are no longer wanted stay until there are enough
    available pods without them: who surges wants no gap.
    """
    both = [(spot, spot.old) for spot in spots if spot.old is not None and spot.new is not None]
    outdated = [(spot, spot.old) for spot in spots if spot.old is not None and spot.new is None]
    replaced = [old for spot, old in both if spot.name in taken_over]
    surging = sum(spot.is_crowded for spot in spots) + len(both) - len(replaced)
    broken = [spot.name for spot, _ in outdated if spot.is_wanted and not up[spot.name]]
    candidates = [spot.name for spot, _ in outdated if spot.is_wanted and up[spot.name]]
    useless = [old for spot, old in outdated if not spot.is_wanted and not up[spot.name]]
    leaving = [old for spot, old in outdated if not spot.is_wanted and up[spot.name]]
    spare = sum(up.values()) - desired
    return RollingUpdate(
        create=(*broken, *candidates[: max(0, limit - surging)]),
        delete=(*replaced, *useless, *leaving[: max(0, spare)]),
    )
