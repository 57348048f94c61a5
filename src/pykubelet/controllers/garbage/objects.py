"""Objects of any kind on the server, by identity: as they are now, deleted, patched.

Only what the server itself says counts as absent: an answer that does not name the object, because its whole kind is
not served, say, is no proof. Upstream: pkg/controller/garbagecollector/operations.go, patch.go.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from pykubelet.api.errors import ApiError, Conflict, NotFound, UnsupportedMediaType
from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.partial import PartialMeta, PartialObject, metadata_of
from pykubelet.api.resources import Resource
from pykubelet.api.typed import Kind
from pykubelet.api.wire import Document
from pykubelet.controllers.garbage import patches
from pykubelet.controllers.garbage.identity import Identity
from pykubelet.controllers.garbage.verdict import Policy
from pykubelet.controllers.ownership import release_patch
from pykubelet.kube.client import PatchType

T = TypeVar("T")


class ObjectClient(Protocol):
    """What is needed of an API server."""

    async def get(self, kind: Kind[T], name: str, *, namespace: str = "") -> T:
        """One object; NotFound if there is none."""

    async def patch(
        self, kind: Kind[T], name: str, body: Any, *, namespace: str = "", patch_type: PatchType = PatchType.STRATEGIC
    ) -> T:
        """Change an object; `metadata.uid` in the body is a precondition."""

    async def delete(
        self, kind: Kind[T], name: str, *, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        """Delete an object; Conflict if a precondition fails."""


class UnknownKindError(Exception):
    """The server has no such kind: perhaps not yet, perhaps for ever."""


class MisplacedOwnerError(Exception):
    """An object without a namespace names an owner that has one: nobody can say which."""


class Objects:
    """What the collector does to the server's objects."""

    def __init__(self, *, client: ObjectClient, resource_of: Callable[[str, str], Resource | None]) -> None:
        """`resource_of` gives the resource that shows objects of an API version and kind."""
        self._client, self._resource_of = client, resource_of

    def resolved(self, identity: Identity) -> Identity:
        """The identity with a namespace only if its kind has any."""
        resource = self._resource(identity)
        if resource.namespaced and not identity.namespace:
            raise MisplacedOwnerError(f"{identity} has no namespace")
        return identity if resource.namespaced else identity._replace(namespace="")

    async def get(self, identity: Identity) -> PartialMeta | None:
        """The object's metadata; None if it is not there, or another one has its name."""
        where = self.resolved(identity)
        try:
            found = await self._client.get(self._kind(where), where.name, namespace=where.namespace)
        except NotFound as error:
            if error.details.get("name") != where.name:
                raise UnknownKindError(f"{identity}: {error}") from error
            return None
        return found.metadata if found.metadata.uid == identity.uid else None

    async def delete(self, identity: Identity, latest: PartialMeta, policy: Policy) -> None:
        """Delete the object as it was read; a change that did not touch its owners is no obstacle."""
        with suppress(NotFound):
            try:
                await self._delete(identity, policy, latest.resource_version)
            except Conflict:
                live = await self.get(identity)
                if live is None:
                    return
                if live.owner_references != latest.owner_references:
                    raise
                await self._delete(identity, policy, None)

    async def release(self, identity: Identity, owner_uids: Sequence[str]) -> None:
        """Take owners off the object, if it is still there."""
        try:
            await self._patch(identity, release_patch(identity.uid, owner_uids), PatchType.STRATEGIC)
        except UnsupportedMediaType:
            latest = await self.get(identity)
            if latest is not None:
                await self._patch(identity, patches.whole_release_patch(latest, owner_uids), PatchType.MERGE)
        except ApiError:
            # It may be gone, or its name be another's by now.
            if await self.get(identity) is not None:
                raise

    async def unblock(self, identity: Identity, latest: PartialMeta) -> PartialMeta:
        """Have no owner wait for the object; its metadata afterwards."""
        try:
            patched = await self._patch(identity, patches.unblock_patch(latest), PatchType.STRATEGIC)
        except UnsupportedMediaType:
            patched = await self._patch(identity, patches.whole_unblock_patch(latest), PatchType.MERGE)
        return patched.metadata

    async def take_finalizer(self, identity: Identity, finalizer: str) -> None:
        """Take a finalizer off the object, if it has it."""
        latest = await self.get(identity)
        patch = None if latest is None else patches.without_finalizer(latest, finalizer)
        if patch is not None:
            with suppress(NotFound):
                await self._patch(identity, patch, PatchType.MERGE)

    async def _patch(self, identity: Identity, body: Document, patch_type: PatchType) -> PartialObject:
        where = self.resolved(identity)
        return await self._client.patch(
            self._kind(where), where.name, body, namespace=where.namespace, patch_type=patch_type
        )

    async def _delete(self, identity: Identity, policy: Policy, resource_version: str | None) -> None:
        where = self.resolved(identity)
        preconditions = Preconditions(uid=identity.uid, resource_version=resource_version)
        options = DeleteOptions(preconditions=preconditions, propagation_policy=policy)
        await self._client.delete(self._kind(where), where.name, namespace=where.namespace, options=options)

    def _resource(self, identity: Identity) -> Resource:
        resource = self._resource_of(identity.api_version, identity.kind)
        if resource is None:
            raise UnknownKindError(f"unable to get REST mapping for {identity.api_version}/{identity.kind}.")
        return resource

    def _kind(self, identity: Identity) -> Kind[PartialObject]:
        return metadata_of(self._resource(identity))
