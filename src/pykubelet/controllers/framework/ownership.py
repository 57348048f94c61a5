"""Who manages which object: adopt orphans that match, release what no longer does.

Upstream: pkg/controller/controller_ref_manager.go.

The live object behind a controller's copy: its status, and may it adopt.

A status is patched, never put: what other programs wrote into it stays. The resource version in the patch is the
optimistic lock that upstream's PUT has; counting depends on it.
Upstream: updateReplicaSetStatus, storeDaemonSetStatus and RecheckDeletionTimestamp in pkg/controller.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Generic, TypeVar

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
from pykubelet.controllers.framework.pod_control import PodControlInterface

T = TypeVar("T", bound=ApiObject)


class OwnerGoneError(Exception):
    """The owner is being deleted or was replaced; the message says which."""


def explicit(value: msgspec.Struct) -> Document:
    """Every field of a Struct, null where its document has none: a merge patch that sets exactly this."""
    document = to_document(value)
    fields = msgspec.structs.fields(value)
    return {
        field.encode_name: _explicit(getattr(value, field.name), document.get(field.encode_name)) for field in fields
    }


def _explicit(value: Any, document: Any) -> Any:
    return explicit(value) if isinstance(value, msgspec.Struct) else document


async def patch_status(
    client: Client, kind: TypedKind[T], owner: T, status: Document, *, annotations: Mapping[str, str] | None = None
) -> T:
    """Change the status of the object as it was read, and perhaps annotations; Conflict if it has changed since."""
    return await _patch(client, kind, owner, status, owner.metadata.resource_version, annotations)


async def store_status(client: Client, kind: TypedKind[T], owner: T, status: Document) -> T:
    """Change the status; if that fails, once more on the object as it is now, with the same values."""
    try:
        return await patch_status(client, kind, owner, status)
    except ApiError:
        fresh = await client.get(kind, owner.metadata.name, namespace=owner.metadata.namespace)
        return await _patch(client, kind, owner, status, fresh.metadata.resource_version)


def may_adopt(client: Client, kind: TypedKind[T], owner: T) -> Callable[[], Awaitable[None]]:
    """A check that the owner still exists and is not being deleted; it raises OwnerGoneError if not."""
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
    # The UID: a namesake that came after our object must not get its status.
    metadata: Document = {"uid": meta.uid, "resourceVersion": resource_version}
    if annotations:
        metadata["annotations"] = dict(annotations)
    body = {"metadata": metadata, "status": status}
    return await client.patch(
        kind, meta.name, body, namespace=meta.namespace, patch_type=PatchType.MERGE, subresource="status"
    )


class CannotAdoptError(Exception):
    """The owner may not take the object; the message says why."""


class ClaimError(Exception):
    """Some objects could not be adopted or released; the others were."""

    def __init__(self, errors: Sequence[Exception]) -> None:
        self.errors = tuple(errors)
        # Upstream's way of joining: each message once, in brackets if there are several.
        texts = list(dict.fromkeys(str(error) for error in errors))
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


class ClaimAction(Enum):
    """What to do about one object."""

    OURS = auto()
    ADOPT = auto()
    RELEASE = auto()
    IGNORE = auto()


def new_controller_ref(owner: ApiObject) -> OwnerReference:
    """The reference that makes `owner` the managing owner."""
    return OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def plan_claim(obj: ApiObject, owner: ApiObject, *, matches: bool) -> ClaimAction:
    """What `owner` should do about an object that matches its selector or not."""
    controller = controller_of(obj)
    owner_leaves = owner.metadata.deletion_timestamp is not None
    if controller is not None:
        if controller.uid != owner.metadata.uid:
            return ClaimAction.IGNORE
        if matches:
            return ClaimAction.OURS
        return ClaimAction.IGNORE if owner_leaves else ClaimAction.RELEASE
    if owner_leaves or not matches or obj.metadata.deletion_timestamp is not None:
        return ClaimAction.IGNORE
    # An owner without a namespace may own objects in any.
    if owner.metadata.namespace and owner.metadata.namespace != obj.metadata.namespace:
        return ClaimAction.IGNORE
    return ClaimAction.ADOPT


def adopt_patch(owner: ApiObject, uid: str, finalizers: Sequence[str] = ()) -> Document:
    """The patch that makes `owner` the managing owner of an object; the UID in it is a precondition."""
    metadata: Document = {"uid": uid, "ownerReferences": [serializer.to_document(new_controller_ref(owner))]}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"metadata": metadata}


def release_patch(uid: str, owner_uids: Sequence[str], finalizers: Sequence[str] = ()) -> Document:
    """The patch that takes owners off an object; the UID in it is a precondition."""
    metadata: Document = {
        "uid": uid,
        "ownerReferences": [{"$patch": "delete", "uid": owner_uid} for owner_uid in owner_uids],
    }
    if finalizers:
        metadata["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return {"metadata": metadata}


@dataclass(frozen=True, slots=True)
class ClaimedPods:
    """The pods an owner manages now, as they were read, and what went wrong meanwhile."""

    pods: tuple[Pod, ...]
    error: ClaimError | None = None


class ControllerRefManager(Generic[T]):
    """Claims objects of one kind for one owner during one sync; make a new one for the next."""

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

        `can_adopt` raises if the owner must not adopt (a live look at it); it is asked once, before the first.
        """
        self._patch, self._owner, self._selector = patch, owner, selector
        self._can_adopt, self._finalizers = can_adopt, tuple(finalizers)
        self._asked = False
        self._refused: Exception | None = None

    async def claim(
        self, objects: Iterable[T], *filters: Callable[[T], bool]
    ) -> tuple[tuple[T, ...], ClaimError | None]:
        """Adopt orphans that match the selector and all filters, release owned objects that do not.

        What the owner has then, as it was read. A failure with one object does not stop the others; what has vanished
        meanwhile is no failure.
        """
        ours: list[T] = []
        errors: list[Exception] = []
        for obj in objects:
            matches = self._selector.matches(obj.metadata.labels) and all(test(obj) for test in filters)
            claim = plan_claim(obj, self._owner, matches=matches)
            if claim is ClaimAction.OURS:
                ours.append(obj)
                continue
            try:
                if await self._claim(obj, claim):
                    ours.append(obj)
            except (ApiError, CannotAdoptError) as error:
                errors.append(error)
        return tuple(ours), ClaimError(errors) if errors else None

    async def adopt(self, obj: T) -> None:
        """Become the object's managing owner; the server refuses if there is another."""
        if not self._asked:
            self._asked = True
            try:
                await self._can_adopt()
            except Exception as error:  # noqa: BLE001  any reason not to adopt counts for all objects of this sync
                self._refused = error
        meta = obj.metadata
        if self._refused is not None:
            where = f"{meta.namespace}/{meta.name} ({meta.uid})"
            raise CannotAdoptError(f"can't adopt {obj.kind} {where}: {self._refused}") from self._refused
        await self._patch(meta.namespace, meta.name, adopt_patch(self._owner, meta.uid, self._finalizers))

    async def release(self, obj: T) -> None:
        """Stop managing the object. It may be gone, another one, or released already: all fine."""
        meta = obj.metadata
        patch = release_patch(meta.uid, [self._owner.metadata.uid], self._finalizers)
        try:
            await self._patch(meta.namespace, meta.name, patch)
        except (NotFound, Invalid):
            return

    async def _claim(self, obj: T, claim: ClaimAction) -> bool:
        """Carry it out; whether the object is ours now."""
        match claim:
            case ClaimAction.ADOPT:
                try:
                    await self.adopt(obj)
                except NotFound:
                    return False
                return True
            case ClaimAction.RELEASE:
                await self.release(obj)
                return False
            case _:
                return claim is ClaimAction.OURS


class PodControllerRefManager(ControllerRefManager[Pod]):
    """Claims pods, through a PodControl."""

    def __init__(
        self,
        *,
        pod_control: PodControlInterface,
        owner: ApiObject,
        selector: Selector,
        can_adopt: Callable[[], Awaitable[None]],
        finalizers: Sequence[str] = (),
    ) -> None:
        super().__init__(
            patch=pod_control.patch_pod, owner=owner, selector=selector, can_adopt=can_adopt, finalizers=finalizers
        )

    async def claim_pods(self, pods: Iterable[Pod], *filters: Callable[[Pod], bool]) -> ClaimedPods:
        """Adopt orphans that match the selector and all filters, release owned pods that do not."""
        return ClaimedPods(*await self.claim(pods, *filters))

    async def adopt_pod(self, pod: Pod) -> None:
        """Become the pod's managing owner; the server refuses if there is another."""
        await self.adopt(pod)

    async def release_pod(self, pod: Pod) -> None:
        """Stop managing the pod. It may be gone, another one, or released already: all fine."""
        await self.release(pod)
