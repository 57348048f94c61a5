"""ControllerRefManager: adopts orphans that match a selector and releases objects that no longer do.

Also writes the status of owners: a status is patched, never replaced, so that fields of other writers stay. The
resource version in the patch is the optimistic lock of upstream's PUT; correct counting depends on it.

Upstream: pkg/controller/controller_ref_manager.go, pkg/controller/replicaset/replica_set_utils.go
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

import msgspec

from pykubelet.api import serializer
from pykubelet.api.errors import ApiError, Invalid, NotFound
from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.labels import Selector
from pykubelet.api.scheme import ApiObject, TypedKind
from pykubelet.api.serializer import Document, to_document
from pykubelet.client.indexer import controller_of
from pykubelet.client.interface import Client, PatchType
from pykubelet.controllers.framework.pod_control import AggregateError, PodControlInterface

T = TypeVar("T", bound=ApiObject)
OwnerT = TypeVar("OwnerT", bound=ApiObject)


class OwnerGoneError(Exception):
    """The owner is being deleted or was replaced; the message says which."""


class CannotAdoptError(Exception):
    """The owner may not adopt the object; the message says why."""


class ClaimError(AggregateError):
    """Some objects could not be adopted or released; the others were."""


class ClaimAction(Enum):
    """What the owner does with one candidate object."""

    OURS = auto()
    ADOPT = auto()
    RELEASE = auto()
    IGNORE = auto()


@dataclass(frozen=True, slots=True)
class ClaimedPods:
    """The pods an owner controls after claiming, as they were read, and the errors of claiming."""

    pods: tuple[Pod, ...]
    error: ClaimError | None = None


class ControllerRefManager(Generic[T]):
    """Claims objects of one kind for one owner during one sync. Create a new one for each sync."""

    def __init__(
        self,
        *,
        patch: Callable[[str, str, Document], Awaitable[object]],
        owner: ApiObject,
        selector: Selector,
        can_adopt: Callable[[], Awaitable[None]],
        finalizers: Sequence[str] = (),
    ) -> None:
        """`patch` sends a strategic merge patch to the object of a namespace and name.

        `can_adopt` reads the live owner and raises if it must not adopt; it is called once, before the first adoption.
        """
        self._patch, self._owner, self._selector = patch, owner, selector
        self._can_adopt, self._finalizers = can_adopt, tuple(finalizers)
        self._can_adopt_checked = False
        self._adoption_error: Exception | None = None

    async def claim(
        self, objects: Iterable[T], *filters: Callable[[T], bool]
    ) -> tuple[tuple[T, ...], ClaimError | None]:
        """Adopts orphans that match the selector and all filters, releases owned objects that do not.

        Returns the objects the owner has then, as they were read. An error with one object does not stop the others;
        objects that have vanished are not an error.
        """
        ours: list[T] = []
        errors: list[Exception] = []
        for obj in objects:
            matches = self._selector.matches(obj.metadata.labels) and all(test(obj) for test in filters)
            claim = plan_claim(obj, self._owner, matches=matches)
            try:
                if await self._claim(obj, claim):
                    ours.append(obj)
            except (ApiError, CannotAdoptError) as error:
                errors.append(error)
        return tuple(ours), ClaimError(errors) if errors else None

    async def claim_or_raise(self, objects: Iterable[T], *filters: Callable[[T], bool]) -> tuple[T, ...]:
        """As `claim`; raises ClaimError after all objects were tried."""
        claimed, error = await self.claim(objects, *filters)
        if error is not None:
            raise error
        return claimed

    async def adopt(self, obj: T) -> None:
        """Makes the owner the object's controller; the server rejects it if there is another."""
        if not self._can_adopt_checked:
            self._can_adopt_checked = True
            try:
                await self._can_adopt()
            except Exception as error:  # noqa: BLE001  any reason not to adopt counts for all objects of this sync
                self._adoption_error = error
        meta = obj.metadata
        if self._adoption_error is not None:
            where = f"{meta.namespace}/{meta.name} ({meta.uid})"
            raise CannotAdoptError(f"can't adopt {obj.kind} {where}: {self._adoption_error}") from self._adoption_error
        await self._patch(meta.namespace, meta.name, adopt_patch(self._owner, meta.uid, self._finalizers))

    async def release(self, obj: T) -> None:
        """Removes the owner's reference. An object that is gone, replaced or released already is not an error."""
        meta = obj.metadata
        patch = release_patch(meta.uid, [self._owner.metadata.uid], self._finalizers)
        with suppress(NotFound, Invalid):
            await self._patch(meta.namespace, meta.name, patch)

    async def _claim(self, obj: T, claim: ClaimAction) -> bool:
        """Carries out the action; returns whether the owner controls the object now."""
        if claim is ClaimAction.RELEASE:
            await self.release(obj)
        elif claim is ClaimAction.ADOPT:
            with suppress(NotFound):
                await self.adopt(obj)
                return True
        return claim is ClaimAction.OURS


def ref_manager(
    client: Client, kind: TypedKind[T], *, owner_kind: TypedKind[OwnerT], owner: OwnerT, selector: Selector
) -> ControllerRefManager[T]:
    """A manager of the objects of a kind that patches them, and checks their owner, through the client."""

    async def patch(namespace: str, name: str, body: Document) -> None:
        await client.patch(kind, name, body, namespace=namespace)

    can_adopt = may_adopt(client, owner_kind, owner)
    return ControllerRefManager(patch=patch, owner=owner, selector=selector, can_adopt=can_adopt)


class PodControllerRefManager(ControllerRefManager[Pod]):
    """Claims pods through PodControl."""

    def __init__(
        self,
        *,
        pod_control: PodControlInterface,
        owner: ApiObject,
        selector: Selector,
        can_adopt: Callable[[], Awaitable[None]],
        finalizers: Sequence[str] = (),
    ) -> None:
        patch = pod_control.patch_pod
        super().__init__(patch=patch, owner=owner, selector=selector, can_adopt=can_adopt, finalizers=finalizers)

    async def claim_pods(self, pods: Iterable[Pod], *filters: Callable[[Pod], bool]) -> ClaimedPods:
        """Adopts orphans that match the selector and all filters, releases owned pods that do not."""
        return ClaimedPods(*await self.claim(pods, *filters))

    async def adopt_pod(self, pod: Pod) -> None:
        """Makes the owner the pod's controller."""
        await self.adopt(pod)

    async def release_pod(self, pod: Pod) -> None:
        """Removes the owner's reference from the pod."""
        await self.release(pod)


def explicit(value: msgspec.Struct) -> Document:
    """Every field of a Struct, null where its document has none: a merge patch that sets exactly these values."""
    found: Document = to_document(value)
    document: Document = {}
    for field in msgspec.structs.fields(value):
        part, name = getattr(value, field.name), field.encode_name
        document[name] = explicit(part) if isinstance(part, msgspec.Struct) else found.get(name)
    return document


async def patch_status(
    client: Client, kind: TypedKind[T], owner: T, status: Document, *, annotations: Mapping[str, str] | None = None
) -> T:
    """Patches the status, and optionally annotations, of the object as read; Conflict if it has changed since."""
    return await _patch(client, kind, owner, status, owner.metadata.resource_version, annotations)


async def store_status(client: Client, kind: TypedKind[T], owner: T, status: Document) -> T:
    """Patches the status; on failure retries once against the current version, with the same values."""
    try:
        return await patch_status(client, kind, owner, status)
    except ApiError:
        fresh = await client.get(kind, owner.metadata.name, namespace=owner.metadata.namespace)
        return await _patch(client, kind, owner, status, fresh.metadata.resource_version)


def may_adopt(client: Client, kind: TypedKind[T], owner: T) -> Callable[[], Awaitable[None]]:
    """Returns a check that the live owner exists and is not being deleted; the check raises OwnerGoneError if not."""
    namespace, name, uid = owner.metadata.namespace, owner.metadata.name, owner.metadata.uid

    async def check() -> None:
        try:
            fresh = await client.get(kind, name, namespace=namespace)
        except ApiError as error:
            raise OwnerGoneError(f"can't recheck DeletionTimestamp: {error}") from error
        meta = fresh.metadata
        if meta.uid != uid:
            found = f"original {owner.kind} {namespace}/{name} is gone: got uid {meta.uid}, wanted {uid}"
            raise OwnerGoneError(f"can't recheck DeletionTimestamp: {found}")
        if meta.deletion_timestamp is not None:
            raise OwnerGoneError(f"{namespace}/{name} has just been deleted at {meta.deletion_timestamp}")

    return check


async def _patch(
    client: Client,
    kind: TypedKind[T],
    owner: T,
    status: Document,
    resource_version: str,
    annotations: Mapping[str, str] | None = None,
) -> T:
    meta = owner.metadata
    # The UID precondition protects a recreated object of the same name.
    metadata: Document = {"uid": meta.uid, "resourceVersion": resource_version}
    if annotations:
        metadata["annotations"] = dict(annotations)
    body = {"metadata": metadata, "status": status}
    return await client.patch(
        kind, meta.name, body, namespace=meta.namespace, patch_type=PatchType.MERGE, subresource="status"
    )


def new_controller_ref(owner: ApiObject) -> OwnerReference:
    return OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def plan_claim(obj: ApiObject, owner: ApiObject, *, matches: bool) -> ClaimAction:
    """Decides what `owner` does with an object; `matches` says whether its selector matches."""
    controller = controller_of(obj)
    owner_is_deleted = owner.metadata.deletion_timestamp is not None
    if controller is not None:
        if controller.uid != owner.metadata.uid:
            return ClaimAction.IGNORE
        if matches:
            return ClaimAction.OURS
        return ClaimAction.IGNORE if owner_is_deleted else ClaimAction.RELEASE
    if owner_is_deleted or not matches or obj.metadata.deletion_timestamp is not None:
        return ClaimAction.IGNORE
    # A cluster-scoped owner may own objects in any namespace.
    if owner.metadata.namespace and owner.metadata.namespace != obj.metadata.namespace:
        return ClaimAction.IGNORE
    return ClaimAction.ADOPT


def adopt_patch(owner: ApiObject, uid: str, finalizers: Sequence[str] = ()) -> Document:
    """The patch that makes `owner` the controller of the object with this UID."""
    metadata: Document = {"uid": uid, "ownerReferences": [serializer.to_document(new_controller_ref(owner))]}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"metadata": metadata}


def release_patch(uid: str, owner_uids: Sequence[str], finalizers: Sequence[str] = ()) -> Document:
    """The patch that removes owners from the object with this UID."""
    metadata: Document = {
        "uid": uid,
        "ownerReferences": [{"$patch": "delete", "uid": owner_uid} for owner_uid in owner_uids],
    }
    if finalizers:
        metadata["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return {"metadata": metadata}
