"""Who manages which object: adopt orphans that match, release what no longer does.

Upstream: pkg/controller/controller_ref_manager.go.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar

from pykubelet.api import wire
from pykubelet.api.errors import ApiError, Invalid, NotFound
from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.selector import Selector
from pykubelet.api.typed import ApiObject
from pykubelet.api.wire import Document
from pykubelet.controllers.object_index import manager_of

T = TypeVar("T", bound=ApiObject)


class PodPatcher(Protocol):
    """The part of PodControl that ownership needs."""

    async def patch_pod(self, namespace: str, name: str, patch: Any) -> None:
        """Apply a strategic merge patch to a pod."""


class CannotAdoptError(Exception):
    """The owner may not take the object; the message says why."""


class ClaimError(Exception):
    """Some objects could not be adopted or released; the others were."""

    def __init__(self, errors: Sequence[Exception]) -> None:
        self.errors = tuple(errors)
        # Upstream's way of joining: each message once, in brackets if there are several.
        texts = list(dict.fromkeys(str(error) for error in errors))
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


class Claim(Enum):
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


def plan_claim(obj: ApiObject, owner: ApiObject, *, matches: bool) -> Claim:
    """What `owner` should do about an object that matches its selector or not."""
    controller = manager_of(obj)
    owner_leaves = owner.metadata.deletion_timestamp is not None
    if controller is not None:
        if controller.uid != owner.metadata.uid:
            return Claim.IGNORE
        if matches:
            return Claim.OURS
        return Claim.IGNORE if owner_leaves else Claim.RELEASE
    if owner_leaves or not matches or obj.metadata.deletion_timestamp is not None:
        return Claim.IGNORE
    # An owner without a namespace may own objects in any.
    if owner.metadata.namespace and owner.metadata.namespace != obj.metadata.namespace:
        return Claim.IGNORE
    return Claim.ADOPT


def adopt_patch(owner: ApiObject, uid: str, finalizers: Sequence[str] = ()) -> Document:
    """The patch that makes `owner` the managing owner of an object; the UID in it is a precondition."""
    metadata: Document = {"uid": uid, "ownerReferences": [wire.to_document(new_controller_ref(owner))]}
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
class Claimed:
    """The pods an owner manages now, as they were read, and what went wrong meanwhile."""

    pods: tuple[Pod, ...]
    error: ClaimError | None = None


class Ownership(Generic[T]):
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
            if claim is Claim.OURS:
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

    async def _claim(self, obj: T, claim: Claim) -> bool:
        """Carry it out; whether the object is ours now."""
        match claim:
            case Claim.ADOPT:
                try:
                    await self.adopt(obj)
                except NotFound:
                    return False
                return True
            case Claim.RELEASE:
                await self.release(obj)
                return False
            case _:
                return claim is Claim.OURS


class PodOwnership(Ownership[Pod]):
    """Claims pods, through a PodControl."""

    def __init__(
        self,
        *,
        pod_control: PodPatcher,
        owner: ApiObject,
        selector: Selector,
        can_adopt: Callable[[], Awaitable[None]],
        finalizers: Sequence[str] = (),
    ) -> None:
        super().__init__(
            patch=pod_control.patch_pod, owner=owner, selector=selector, can_adopt=can_adopt, finalizers=finalizers
        )

    async def claim_pods(self, pods: Iterable[Pod], *filters: Callable[[Pod], bool]) -> Claimed:
        """Adopt orphans that match the selector and all filters, release owned pods that do not."""
        return Claimed(*await self.claim(pods, *filters))

    async def adopt_pod(self, pod: Pod) -> None:
        """Become the pod's managing owner; the server refuses if there is another."""
        await self.adopt(pod)

    async def release_pod(self, pod: Pod) -> None:
        """Stop managing the pod. It may be gone, another one, or released already: all fine."""
        await self.release(pod)
