"""The rolling update of a DaemonSet and its revision history.

Without surge, old pods are deleted and the next sync creates their replacements; with surge, a new pod starts beside
the old one.

Upstream: pkg/controller/daemon/update.go
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
    """The revisions of one set."""

    hash: str
    """The revision label of pods of the current template."""
    old: tuple[ControllerRevision, ...]
    collision_count: int | None


@dataclass(frozen=True, slots=True)
class DaemonPodChanges:
    """Nodes to create a pod for, and pods to delete."""

    create: tuple[str, ...] = ()
    delete: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class _NodePods:
    """A node that has pods of the set or should have one."""

    name: str
    is_wanted: bool
    new: Pod | None = None
    old: Pod | None = None
    is_crowded: bool = False
    """Several new or several old pods, which the next sync reduces before the update continues there."""


class DaemonSetHistory:
    """Maintains the ControllerRevisions of all sets."""

    def __init__(self, *, client: Client, revisions: ObjectIndex[ControllerRevision], pods: DaemonPods) -> None:
        self._revisions = ControllerRevisions(client=client, kind=DAEMON_SETS, revisions=revisions)
        self._pods = pods

    async def revisions(self, daemon_set: DaemonSet) -> DaemonSetRevisions:
        """The set's revisions; creates the current one if it is new and renumbers it if it was rolled back to."""
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
        """Deletes the oldest revisions above the limit that no pod uses."""
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
        """The revision, labelled if it has no label yet."""
        if REVISION_LABEL in revision.metadata.labels:
            return revision
        return await self._revisions.label(revision, REVISION_LABEL, revision.metadata.name)

    async def _only(self, daemon_set: DaemonSet, same: Sequence[ControllerRevision]) -> ControllerRevision:
        """Keeps the newest of several revisions of one template; relabels the pods of the others and deletes these."""
        *others, kept = same
        if others:
            hashes = {revision.metadata.labels[REVISION_LABEL] for revision in others}
            for pod in await self._pods.claimed(daemon_set):
                if pod.metadata.labels.get(REVISION_LABEL) in hashes:
                    await self._pods.relabel(pod, REVISION_LABEL, kept.metadata.labels[REVISION_LABEL])
        for revision in others:
            await self._revisions.delete(revision)
        return kept


def plan_rolling_update(
    daemon_set: DaemonSet, nodes: Iterable[Node], by_node: PodsByNode, revision: DaemonPodRevision, now: datetime
) -> DaemonPodChanges:
    """The next step of an update within max surge and max unavailable."""
    wanted = [node.metadata.name for node in nodes if node_should_run_daemon_pod(daemon_set, node).may_start]
    names = dict.fromkeys((*by_node, *wanted))
    is_wanted = set(wanted)
    node_pods = [_node_pods(name, name in is_wanted, by_node.get(name, ()), revision) for name in names]

    def available(pod: Pod | None) -> bool:
        return pod is not None and is_pod_available(pod, daemon_set.spec.min_ready_seconds, now)

    up = {node.name: available(node.old if node.old is not None else node.new) for node in node_pods}
    surge = max_surge(daemon_set, len(wanted))
    if surge == 0:
        # Validation rejects a set that permits neither; one stored anyway must still make progress.
        return _replace(node_pods, up, max_unavailable(daemon_set, len(wanted)) or min(1, len(wanted)))
    replaced_nodes = {node.name for node in node_pods if available(node.new)}
    return _surge(node_pods, up, replaced_nodes, surge, len(wanted))


def _node_pods(name: str, is_wanted: bool, pods: Sequence[Pod], revision: DaemonPodRevision) -> _NodePods:
    present = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    new = [pod for pod in present if revision.matches(pod)]
    old = [pod for pod in present if not revision.matches(pod)]
    if len(new) > 1 or len(old) > 1:
        return _NodePods(name, is_wanted, is_crowded=True)
    return _NodePods(name, is_wanted, new[0] if new else None, old[0] if old else None)


def _replace(node_pods: Sequence[_NodePods], up: dict[str, bool], limit: int) -> DaemonPodChanges:
    """Deletes unavailable old pods, and available ones as long as max unavailable permits."""
    outdated = [(node, node.old) for node in node_pods if node.old is not None and node.new is None]
    candidates = [old for node, old in outdated if up[node.name]]
    broken = [old for node, old in outdated if not up[node.name]]
    # A node with both pods counts as unavailable.
    unavailable = sum(not up[node.name] or (node.old is not None and node.new is not None) for node in node_pods)
    return DaemonPodChanges(delete=(*broken, *candidates[: max(0, limit - unavailable)]))


def _surge(
    node_pods: Sequence[_NodePods], up: dict[str, bool], replaced_nodes: set[str], limit: int, desired: int
) -> DaemonPodChanges:
    """Creates a new pod beside each unavailable old one, and beside available ones as max surge permits.

    Old pods are deleted once the new one is available. Those on nodes that should no longer run the set stay until
    enough other pods are available, because a surging update must leave no gap.
    """
    both = [(node, node.old) for node in node_pods if node.old is not None and node.new is not None]
    outdated = [(node, node.old) for node in node_pods if node.old is not None and node.new is None]
    replaced = [old for node, old in both if node.name in replaced_nodes]
    surging = sum(node.is_crowded for node in node_pods) + len(both) - len(replaced)
    broken = [node.name for node, _ in outdated if node.is_wanted and not up[node.name]]
    candidates = [node.name for node, _ in outdated if node.is_wanted and up[node.name]]
    useless = [old for node, old in outdated if not node.is_wanted and not up[node.name]]
    leaving = [old for node, old in outdated if not node.is_wanted and up[node.name]]
    spare = sum(up.values()) - desired
    return DaemonPodChanges(
        create=(*broken, *candidates[: max(0, limit - surging)]),
        delete=(*replaced, *useless, *leaving[: max(0, spare)]),
    )
