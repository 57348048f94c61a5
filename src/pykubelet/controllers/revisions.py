"""The history of workloads in the API: their ControllerRevisions found, made, numbered and deleted.

In: a workload and what `revision_plan` decides about it. Out: calls to the API server; each of them may be made again.
Upstream: realHistory in pkg/controller/history/controller_history.go.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from pykubelet.api.errors import AlreadyExists, NotFound
from pykubelet.api.generated.apps import ControllerRevision
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.selector import Selector
from pykubelet.api.typed import CONTROLLER_REVISIONS, ApiObject, Kind
from pykubelet.api.wire import Document
from pykubelet.controllers.object_index import ObjectIndex, manager_of
from pykubelet.controllers.owner_access import OwnerClient, may_adopt
from pykubelet.controllers.ownership import Ownership
from pykubelet.controllers.revision_plan import holds, in_order
from pykubelet.kube.client import PatchType

T = TypeVar("T", bound=ApiObject)
K = TypeVar("K")


class RevisionClient(OwnerClient, Protocol):
    """The part of a client that controllers with a history use."""

    async def create(self, kind: Kind[K], body: K, *, namespace: str = "") -> K:
        """Create an object; the answer is what the server stored."""

    async def delete(
        self, kind: Kind[K], name: str, *, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        """Delete an object; Conflict if a precondition fails."""


class ControllerRevisions(Generic[T]):
    """The revisions of all workloads of one kind."""

    def __init__(self, *, client: RevisionClient, kind: Kind[T], revisions: ObjectIndex[ControllerRevision]) -> None:
        self._client, self._kind, self._revisions = client, kind, revisions
        # What was written and has not been seen yet: per owner, name and number. Numbers are given by looking at all
        # others, so a revision that is not seen would share its number with the next.
        self._unseen: dict[str, dict[str, int]] = {}

    async def claim(self, owner: T, selector: Selector) -> tuple[ControllerRevision, ...]:
        """The owner's revisions in their order, after adopting and releasing; ClaimError if some of that failed."""

        async def patch(namespace: str, name: str, body: Document) -> None:
            await self._client.patch(CONTROLLER_REVISIONS, name, body, namespace=namespace)

        can_adopt = may_adopt(self._client, self._kind, owner)
        ownership = Ownership[ControllerRevision](patch=patch, owner=owner, selector=selector, can_adopt=can_adopt)
        claimed, error = await ownership.claim(await self._known(owner))
        if error is not None:
            raise error
        return in_order(claimed)

    async def create(
        self, owner: T, make: Callable[[int | None], ControllerRevision], collision_count: int | None
    ) -> tuple[ControllerRevision, int | None]:
        """Create a revision under a name that is free; the revision and the count that made it so.

        It may be there already, made by a try that did not live to see the answer.
        """
        namespace = owner.metadata.namespace
        while True:
            wanted = make(collision_count)
            try:
                made = await self._client.create(CONTROLLER_REVISIONS, wanted, namespace=namespace)
                return self._written(made), collision_count
            except AlreadyExists:
                found = await self._client.get(CONTROLLER_REVISIONS, wanted.metadata.name, namespace=namespace)
            manager = manager_of(found)
            # A revision of another owner, of a namesake that was deleted say, is going to go with that one.
            if holds(found, wanted.data) and (manager is None or manager.uid == owner.metadata.uid):
                return self._written(found), collision_count
            collision_count = (collision_count or 0) + 1

    async def renumber(self, revision: ControllerRevision, number: int) -> ControllerRevision:
        """Make a version the newest again."""
        return self._written(await self._change(revision, {"revision": number}))

    async def label(self, revision: ControllerRevision, label: str, value: str) -> ControllerRevision:
        """Set a label."""
        return await self._change(revision, {"metadata": {"labels": {label: value}}})

    async def delete(self, revision: ControllerRevision) -> None:
        """Delete a revision, which may be gone."""
        meta = revision.metadata
        try:
            await self._client.delete(CONTROLLER_REVISIONS, meta.name, namespace=meta.namespace)
        except NotFound:
            return

    async def _known(self, owner: T) -> tuple[ControllerRevision, ...]:
        """The revisions that are the owner's or nobody's, also those that only the server knows of yet."""
        seen = self._revisions.managed_by(owner.metadata.uid) + self._revisions.orphans(owner.metadata.namespace)
        known = {revision.metadata.name: revision for revision in seen}
        for name, number in self._unseen.pop(owner.metadata.uid, {}).items():
            if name in known and known[name].revision >= number:
                continue
            try:
                fresh = await self._client.get(CONTROLLER_REVISIONS, name, namespace=owner.metadata.namespace)
            except NotFound:
                continue
            known[name] = self._written(fresh)
        return tuple(known.values())

    def _written(self, revision: ControllerRevision) -> ControllerRevision:
        if manager := manager_of(revision):
            self._unseen.setdefault(manager.uid, {})[revision.metadata.name] = revision.revision
        return revision

    async def _change(self, revision: ControllerRevision, change: Document) -> ControllerRevision:
        meta = revision.metadata
        body = {**change, "metadata": {**change.get("metadata", {}), "uid": meta.uid}}
        return await self._client.patch(
            CONTROLLER_REVISIONS, meta.name, body, namespace=meta.namespace, patch_type=PatchType.MERGE
        )
