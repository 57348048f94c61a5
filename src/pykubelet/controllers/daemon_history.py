"""The versions of a DaemonSet: its present one in the API, earlier ones kept or forgotten.

In: a DaemonSet. Out: its revision, and ControllerRevisions created, numbered and deleted.
Upstream: constructHistory, dedupCurHistories and cleanupHistory in pkg/controller/daemon/update.go.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pykubelet.api.generated.apps import ControllerRevision, DaemonSet
from pykubelet.api.generated.core import Pod
from pykubelet.api.selector import selector_from_object
from pykubelet.api.typed import DAEMON_SETS
from pykubelet.controllers.daemon_pods import DaemonPods
from pykubelet.controllers.object_index import ObjectIndex
from pykubelet.controllers.revision_plan import (
    DEFAULT_HISTORY_LIMIT,
    REVISION_LABEL,
    Naming,
    holds,
    new_revision,
    next_number,
    revision_data,
    surplus_revisions,
)
from pykubelet.controllers.revisions import ControllerRevisions, RevisionClient
from pykubelet.controllers.template_hash import template_hash

NAMING = Naming(REVISION_LABEL, template_hash)


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of one set."""

    hash: str
    """What pods of the present version have as their revision."""
    old: tuple[ControllerRevision, ...]
    collision_count: int | None


class DaemonHistory:
    """The versions of all sets."""

    def __init__(self, *, client: RevisionClient, revisions: ObjectIndex[ControllerRevision], pods: DaemonPods) -> None:
        self._revisions = ControllerRevisions(client=client, kind=DAEMON_SETS, revisions=revisions)
        self._pods = pods

    async def versions(self, daemon_set: DaemonSet) -> Versions:
        """The set's versions; the present one is made if it is new, and is the newest if it is an old one again."""
        known = await self._revisions.claim(daemon_set, selector_from_object(daemon_set.spec.selector))
        labelled = [await self._labelled(revision) for revision in known]
        count, data = daemon_set.status.collision_count, revision_data(daemon_set.spec.template)
        same = [revision for revision in labelled if holds(revision, data)]
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
        return Versions(present.metadata.labels[REVISION_LABEL], old, count)

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
