"""Decides what happens to a possibly orphaned object, and reads, deletes and patches it.

Only a NotFound that names the object proves its absence; the kind itself may not be served. Built-in kinds take
strategic merge patches, which change one reference and leave the rest; custom resources take only merge patches, which
replace the whole list and therefore need its resource version.

Upstream: pkg/controller/garbagecollector/operations.go, pkg/controller/garbagecollector/patch.go,
pkg/controller/garbagecollector/garbagecollector.go
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

Policy = Literal["Background", "Foreground", "Orphan"]


class OwnerState(Enum):
    """The state of an owner."""

    SOLID = auto()
    """It exists and keeps its dependents."""
    DANGLING = auto()
    """It does not exist."""
    WAITING = auto()
    """It is being deleted in the foreground and waits for its dependents."""


@dataclass(frozen=True, slots=True)
class CollectionDecision:
    """What to do with an object; nothing by default."""

    release_from: tuple[str, ...] = ()
    """UIDs of owners whose references to remove."""
    delete: Policy | None = None
    unblock_first: bool = False
    """Clear blockOwnerDeletion before deleting, so that owners stop waiting."""


class UnknownKindError(Exception):
    """The server does not serve the kind, or not yet."""


class MisplacedOwnerError(Exception):
    """A cluster-scoped object references a namespaced owner, so the owner's namespace is unknown."""


class ObjectOperations:
    """The collector's requests to the API server."""

    def __init__(self, *, client: Client, resource_of: Callable[[str, str], Resource | None]) -> None:
        """`resource_of` returns the resource of an API version and kind."""
        self._client, self._resource_of = client, resource_of

    def resolved(self, identity: ObjectIdentity) -> ObjectIdentity:
        """The identity, without a namespace if its kind is cluster-scoped."""
        resource = self._resource(identity)
        if resource.namespaced and not identity.namespace:
            raise MisplacedOwnerError(f"{identity} has no namespace")
        return identity if resource.namespaced else identity._replace(namespace="")

    async def get(self, identity: ObjectIdentity) -> PartialMeta | None:
        """The object's metadata; None if it does not exist or its name was reused."""
        where = self.resolved(identity)
        try:
            found = await self._client.get(self._kind(where), where.name, namespace=where.namespace)
        except NotFound as error:
            if error.details.get("name") != where.name:
                raise UnknownKindError(f"{identity}: {error}") from error
            return None
        return found.metadata if found.metadata.uid == identity.uid else None

    async def delete(self, identity: ObjectIdentity, latest: PartialMeta, policy: Policy) -> None:
        """Deletes the object as read; retries after a conflict if its owners are unchanged."""
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
        """Removes owners from the object, if it still exists."""
        try:
            await self._patch(identity, release_patch(identity.uid, owner_uids), PatchType.STRATEGIC)
        except UnsupportedMediaType:
            latest = await self.get(identity)
            if latest is not None:
                await self._patch(identity, whole_release_patch(latest, owner_uids), PatchType.MERGE)
        except ApiError:
            # The object may be gone, or its name reused.
            if await self.get(identity) is not None:
                raise

    async def unblock(self, identity: ObjectIdentity, latest: PartialMeta) -> PartialMeta:
        """Clears blockOwnerDeletion; returns the new metadata."""
        try:
            patched = await self._patch(identity, unblock_patch(latest), PatchType.STRATEGIC)
        except UnsupportedMediaType:
            patched = await self._patch(identity, whole_unblock_patch(latest), PatchType.MERGE)
        return patched.metadata

    async def remove_finalizer(self, identity: ObjectIdentity, finalizer: str) -> None:
        """Removes a finalizer from the object, if it has it."""
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


def whole_release_patch(latest: PartialMeta, owner_uids: Collection[str]) -> Document:
    return _whole(latest, (owner for owner in latest.owner_references if owner.uid not in owner_uids))


def unblock_patch(latest: PartialMeta) -> Document:
    """The strategic merge patch that clears blockOwnerDeletion of all owners."""
    blocking = (owner for owner in latest.owner_references if owner.block_owner_deletion)
    owners = [to_document(replace(owner, block_owner_deletion=False)) for owner in blocking]
    return {"metadata": {"uid": latest.uid, "ownerReferences": owners}}


def whole_unblock_patch(latest: PartialMeta) -> Document:
    """The merge patch that clears blockOwnerDeletion of all owners."""
    return _whole(latest, (replace(owner, block_owner_deletion=False) for owner in latest.owner_references))


def without_finalizer(latest: PartialMeta, finalizer: str) -> Document | None:
    """The merge patch that removes a finalizer; None if the object does not have it."""
    if finalizer not in latest.finalizers:
        return None
    left = [name for name in latest.finalizers if name != finalizer]
    return {"metadata": {**_version(latest), "finalizers": left or None}}


def _whole(latest: PartialMeta, owners: Iterable[OwnerReference]) -> Document:
    return {"metadata": {**_version(latest), "ownerReferences": [to_document(owner) for owner in owners] or None}}


def _version(latest: PartialMeta) -> Document:
    return {"uid": latest.uid, "resourceVersion": latest.resource_version}


def owner_state(owner: PartialMeta | None) -> OwnerState:
    if owner is None:
        return OwnerState.DANGLING
    waits = owner.deletion_timestamp is not None and FOREGROUND_FINALIZER in owner.finalizers
    return OwnerState.WAITING if waits else OwnerState.SOLID


def decide_collection(
    node: GraphNode, finalizers: Sequence[str], owners: Sequence[tuple[OwnerReference, OwnerState]]
) -> CollectionDecision:
    """Decides what to do with an object that has these finalizers and owners."""
    states = {found for _, found in owners}
    if not owners or OwnerState.SOLID in states:
        # A reference to a waiting owner would make it wait forever.
        return CollectionDecision(
            release_from=tuple(owner.uid for owner, found in owners if found is not OwnerState.SOLID)
        )
    if OwnerState.WAITING in states and node.dependents:
        # If dependents wait as well, this may be a cycle, which would wait forever.
        is_cycle = any(dependent.is_deleting_dependents for dependent in node.dependents.values())
        return CollectionDecision(delete="Foreground", unblock_first=is_cycle)
    if ORPHAN_FINALIZER in finalizers:
        return CollectionDecision(delete="Orphan")
    return CollectionDecision(delete="Foreground" if FOREGROUND_FINALIZER in finalizers else "Background")
