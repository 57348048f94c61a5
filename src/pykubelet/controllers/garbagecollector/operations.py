"""Objects of any kind on the server, by identity: as they are now, deleted, patched.

Only what the server itself says counts as absent: an answer that does not name the object, because its whole kind is
not served, say, is no proof. Upstream: pkg/controller/garbagecollector/operations.go, patch.go.

What becomes of an object that may be garbage.

Pure. In: the object as it is now and what became of each of its owners. Out: it stays, lets go of some owners, or is
deleted and how. Upstream: attemptToDeleteItem and classifyReferences in pkg/controller/garbagecollector.

Patches of owner references and finalizers.

Pure. Kinds that are built in take strategic merge patches, which change one reference and leave the rest. Custom
resources take only merge patches, which give the whole list and so need the version it was made from. The plain patch
that releases an object is `ownership.release_patch`. Upstream: pkg/controller/garbagecollector/patch.go, operations.go.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from msgspec.structs import replace

from pykubelet.api.errors import ApiError, Conflict, NotFound, UnsupportedMediaType
from pykubelet.api.generated.meta import DeleteOptions, OwnerReference, Preconditions
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import PartialMeta, PartialObjectMetadata, TypedKind, metadata_of
from pykubelet.api.serializer import Document, to_document
from pykubelet.client.interface import Client, PatchType
from pykubelet.controllers.framework.ownership import release_patch
from pykubelet.controllers.garbagecollector.graph import GraphNode, ObjectIdentity
from pykubelet.kinds.metadata import FOREGROUND_FINALIZER, ORPHAN_FINALIZER


def whole_release_patch(latest: PartialMeta, owner_uids: Collection[str]) -> Document:
    """The merge patch that takes owners off an object."""
    return _whole(latest, (owner for owner in latest.owner_references if owner.uid not in owner_uids))


def unblock_patch(latest: PartialMeta) -> Document:
    """The strategic merge patch after which no owner waits for the object."""
    blocking = (owner for owner in latest.owner_references if owner.block_owner_deletion)
    owners = [to_document(replace(owner, block_owner_deletion=False)) for owner in blocking]
    return {"metadata": {"uid": latest.uid, "ownerReferences": owners}}


def whole_unblock_patch(latest: PartialMeta) -> Document:
    """The merge patch after which no owner waits for the object."""
    return _whole(latest, (replace(owner, block_owner_deletion=False) for owner in latest.owner_references))


def without_finalizer(latest: PartialMeta, finalizer: str) -> Document | None:
    """The merge patch that takes a finalizer off an object; None if it has gone already."""
    if finalizer not in latest.finalizers:
        return None
    left = [name for name in latest.finalizers if name != finalizer]
    return {"metadata": {**_version(latest), "finalizers": left or None}}


def _whole(latest: PartialMeta, owners: Iterable[OwnerReference]) -> Document:
    return {"metadata": {**_version(latest), "ownerReferences": [to_document(owner) for owner in owners] or None}}


def _version(latest: PartialMeta) -> Document:
    return {"uid": latest.uid, "resourceVersion": latest.resource_version}


Policy = Literal["Background", "Foreground", "Orphan"]


class OwnerState(Enum):
    """What became of an owner."""

    SOLID = auto()
    """It is there, and keeps what it owns."""
    DANGLING = auto()
    """It is not there."""
    WAITING = auto()
    """It is being deleted, and waits for what it owns to go first."""


@dataclass(frozen=True, slots=True)
class CollectionDecision:
    """What is to be done; without anything set, nothing."""

    release_from: tuple[str, ...] = ()
    """UIDs of owners whose references are to be taken off."""
    delete: Policy | None = None
    unblock_first: bool = False
    """Before it is deleted, its owners must stop waiting for it."""


def owner_state(owner: PartialMeta | None) -> OwnerState:
    """What became of an owner; None if it is not there."""
    if owner is None:
        return OwnerState.DANGLING
    waits = owner.deletion_timestamp is not None and FOREGROUND_FINALIZER in owner.finalizers
    return OwnerState.WAITING if waits else OwnerState.SOLID


def decide_collection(
    node: GraphNode, finalizers: Sequence[str], owners: Sequence[tuple[OwnerReference, OwnerState]]
) -> CollectionDecision:
    """What becomes of the object with these finalizers and owners."""
    standings = {found for _, found in owners}
    if not owners or OwnerState.SOLID in standings:
        # A reference to an owner that waits would keep it waiting for ever.
        return CollectionDecision(
            release_from=tuple(owner.uid for owner, found in owners if found is not OwnerState.SOLID)
        )
    if OwnerState.WAITING in standings and node.dependents:
        # Both ends wait: if that is a ring, nobody would ever go.
        is_ring = any(dependent.is_deleting_dependents for dependent in node.dependents.values())
        return CollectionDecision(delete="Foreground", unblock_first=is_ring)
    if ORPHAN_FINALIZER in finalizers:
        return CollectionDecision(delete="Orphan")
    return CollectionDecision(delete="Foreground" if FOREGROUND_FINALIZER in finalizers else "Background")


class UnknownKindError(Exception):
    """The server has no such kind: perhaps not yet, perhaps for ever."""


class MisplacedOwnerError(Exception):
    """An object without a namespace names an owner that has one: nobody can say which."""


class ObjectOperations:
    """What the collector does to the server's objects."""

    def __init__(self, *, client: Client, resource_of: Callable[[str, str], Resource | None]) -> None:
        """`resource_of` gives the resource that shows objects of an API version and kind."""
        self._client, self._resource_of = client, resource_of

    def resolved(self, identity: ObjectIdentity) -> ObjectIdentity:
        """The identity with a namespace only if its kind has any."""
        resource = self._resource(identity)
        if resource.namespaced and not identity.namespace:
            raise MisplacedOwnerError(f"{identity} has no namespace")
        return identity if resource.namespaced else identity._replace(namespace="")

    async def get(self, identity: ObjectIdentity) -> PartialMeta | None:
        """The object's metadata; None if it is not there, or another one has its name."""
        where = self.resolved(identity)
        try:
            found = await self._client.get(self._kind(where), where.name, namespace=where.namespace)
        except NotFound as error:
            if error.details.get("name") != where.name:
                raise UnknownKindError(f"{identity}: {error}") from error
            return None
        return found.metadata if found.metadata.uid == identity.uid else None

    async def delete(self, identity: ObjectIdentity, latest: PartialMeta, policy: Policy) -> None:
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

    async def release(self, identity: ObjectIdentity, owner_uids: Sequence[str]) -> None:
        """Take owners off the object, if it is still there."""
        try:
            await self._patch(identity, release_patch(identity.uid, owner_uids), PatchType.STRATEGIC)
        except UnsupportedMediaType:
            latest = await self.get(identity)
            if latest is not None:
                await self._patch(identity, whole_release_patch(latest, owner_uids), PatchType.MERGE)
        except ApiError:
            # It may be gone, or its name be another's by now.
            if await self.get(identity) is not None:
                raise

    async def unblock(self, identity: ObjectIdentity, latest: PartialMeta) -> PartialMeta:
        """Have no owner wait for the object; its metadata afterwards."""
        try:
            patched = await self._patch(identity, unblock_patch(latest), PatchType.STRATEGIC)
        except UnsupportedMediaType:
            patched = await self._patch(identity, whole_unblock_patch(latest), PatchType.MERGE)
        return patched.metadata

    async def take_finalizer(self, identity: ObjectIdentity, finalizer: str) -> None:
        """Take a finalizer off the object, if it has it."""
        latest = await self.get(identity)
        patch = None if latest is None else without_finalizer(latest, finalizer)
        if patch is not None:
            with suppress(NotFound):
                await self._patch(identity, patch, PatchType.MERGE)

    async def _patch(self, identity: ObjectIdentity, body: Document, patch_type: PatchType) -> PartialObjectMetadata:
        where = self.resolved(identity)
        return await self._client.patch(
            self._kind(where), where.name, body, namespace=where.namespace, patch_type=patch_type
        )

    async def _delete(self, identity: ObjectIdentity, policy: Policy, resource_version: str | None) -> None:
        where = self.resolved(identity)
        preconditions = Preconditions(uid=identity.uid, resource_version=resource_version)
        options = DeleteOptions(preconditions=preconditions, propagation_policy=policy)
        await self._client.delete(self._kind(where), where.name, namespace=where.namespace, options=options)

    def _resource(self, identity: ObjectIdentity) -> Resource:
        resource = self._resource_of(identity.api_version, identity.kind)
        if resource is None:
            raise UnknownKindError(f"unable to get REST mapping for {identity.api_version}/{identity.kind}.")
        return resource

    def _kind(self, identity: ObjectIdentity) -> TypedKind[PartialObjectMetadata]:
        return metadata_of(self._resource(identity))
