"""The versions of a StatefulSet: before an update, after it, and those that are history.

In: a StatefulSet and its revisions. Out: its versions, and ControllerRevisions created, numbered and deleted.
Upstream: getStatefulSetRevisions and truncateHistory in pkg/controller/statefulset/stateful_set_control.go.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pykubelet.api.generated.apps import ControllerRevision, StatefulSet
from pykubelet.api.generated.core import Pod
from pykubelet.api.selector import Selector
from pykubelet.api.typed import STATEFUL_SETS
from pykubelet.controllers.object_index import ObjectIndex
from pykubelet.controllers.revision_plan import (
    DEFAULT_HISTORY_LIMIT,
    REVISION_LABEL,
    Naming,
    data_hash,
    holds,
    new_revision,
    next_number,
    restored_template,
    restores,
    revision_data,
    surplus_revisions,
)
from pykubelet.controllers.revisions import ControllerRevisions, RevisionClient
from pykubelet.controllers.statefulset.identity import new_pod
from pykubelet.controllers.statefulset.plan import is_of_current_version

NAMING = Naming("controller.kubernetes.io/hash", data_hash)


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of one set that matter now; without an update under way they are the same."""

    current: ControllerRevision
    update: ControllerRevision
    collision_count: int

    def new_pod(self, stateful_set: StatefulSet, ordinal: int) -> Pod:
        """The pod with this number, of the version that it is to have."""
        template = stateful_set.spec.template
        if not is_of_current_version(stateful_set, ordinal):
            return new_pod(stateful_set, template, ordinal, self.update.metadata.name)
        former = restored_template(self.current, template) or template
        return new_pod(stateful_set, former, ordinal, self.current.metadata.name)


class StatefulHistory:
    """The versions of all sets."""

    def __init__(self, *, client: RevisionClient, revisions: ObjectIndex[ControllerRevision]) -> None:
        self._revisions = ControllerRevisions(client=client, kind=STATEFUL_SETS, revisions=revisions)

    async def claim(self, stateful_set: StatefulSet, selector: Selector) -> tuple[ControllerRevision, ...]:
        """The set's revisions in their order."""
        return await self._revisions.claim(stateful_set, selector)

    async def versions(self, stateful_set: StatefulSet, revisions: Sequence[ControllerRevision]) -> Versions:
        """The set's versions; the present one is made if it is new, and is the newest if it is an old one again."""
        template, count = stateful_set.spec.template, stateful_set.status.collision_count or 0
        data, number = revision_data(template), next_number(revisions)
        newest = revisions[-1] if revisions else None
        same = [revision for revision in revisions if holds(revision, data)]
        if newest is not None and (newest in same or (not same and restores(newest, template))):
            update = newest
        elif same:
            update = await self._revisions.renumber(same[-1], number)
        else:
            update, made_with = await self._revisions.create(
                stateful_set,
                lambda count: new_revision(stateful_set, template, number=number, naming=NAMING, collision_count=count),
                count,
            )
            count = made_with or 0
        name = stateful_set.status.current_revision
        current = next((revision for revision in revisions if revision.metadata.name == name), update)
        return Versions(current, update, count)

    async def truncate(
        self,
        stateful_set: StatefulSet,
        revisions: Sequence[ControllerRevision],
        versions: Versions,
        pods: Iterable[Pod],
    ) -> None:
        """Forget the oldest versions above the limit that no pod is of."""
        limit = stateful_set.spec.revision_history_limit
        live = {pod.metadata.labels.get(REVISION_LABEL) for pod in pods}
        live |= {versions.current.metadata.name, versions.update.metadata.name}
        for revision in surplus_revisions(
            revisions,
            DEFAULT_HISTORY_LIMIT if limit is None else limit,
            lambda one: one.metadata.name in live,
            count_live=False,
        ):
            await self._revisions.delete(revision)
