"""Who manages which pod: adopt orphans that match, release what no longer does.

Upstream: pkg/controller/controller_ref_manager.go.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

from pykubelet.api import wire
from pykubelet.api.errors import ApiError, Invalid, NotFound
from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.selector import Selector
from pykubelet.api.typed import ApiObject
from pykubelet.api.wire import Document
from pykubelet.controllers.pod_order import controller_of


class PodPatcher(Protocol):
    """The part of PodControl that ownership needs."""

    async def patch_pod(self, namespace: str, name: str, patch: Any) -> None:
        """Apply a strategic merge patch to a pod."""


class CannotAdoptError(Exception):
    """The owner may not take the pod; the message says why."""


class ClaimError(Exception):
    """Some pods could not be adopted or released; the others were."""

    def __init__(self, errors: Sequence[Exception]) -> None:
        self.errors = tuple(errors)
        # Upstream's way of joining: each message once, in brackets if there are several.
        texts = list(dict.fromkeys(str(error) for error in errors))
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


class Claim(Enum):
    """What to do about one pod."""

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


def plan_claim(pod: Pod, owner: ApiObject, *, matches: bool) -> Claim:
    """What `owner` should do about a pod that matches its selector or not."""
    controller = controller_of(pod)
    owner_leaves = owner.metadata.deletion_timestamp is not None
    if controller is not None:
        if controller.uid != owner.metadata.uid:
            return Claim.IGNORE
        if matches:
            return Claim.OURS
        return Claim.IGNORE if owner_leaves else Claim.RELEASE
    if owner_leaves or not matches or pod.metadata.deletion_timestamp is not None:
        return Claim.IGNORE
    # An owner without a namespace may own pods in any.
    if owner.metadata.namespace and owner.metadata.namespace != pod.metadata.namespace:
        return Claim.IGNORE
    return Claim.ADOPT


def adopt_patch(owner: ApiObject, pod_uid: str, finalizers: Sequence[str] = ()) -> Document:
    """The patch that makes `owner` the managing owner of a pod; the UID in it is a precondition."""
    metadata: Document = {"uid": pod_uid, "ownerReferences": [wire.to_document(new_controller_ref(owner))]}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"metadata": metadata}


def release_patch(pod_uid: str, owner_uids: Sequence[str], finalizers: Sequence[str] = ()) -> Document:
    """The patch that takes owners off a pod; the UID in it is a precondition."""
    metadata: Document = {
        "uid": pod_uid,
        "ownerReferences": [{"$patch": "delete", "uid": uid} for uid in owner_uids],
    }
    if finalizers:
        metadata["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return {"metadata": metadata}


@dataclass(frozen=True, slots=True)
class Claimed:
    """The pods an owner manages now, as they were read, and what went wrong meanwhile."""

    pods: tuple[Pod, ...]
    error: ClaimError | None = None


class PodOwnership:
    """Claims pods for one owner during one sync; make a new one for the next."""

    def __init__(
        self,
        *,
        pod_control: PodPatcher,
        owner: ApiObject,
        selector: Selector,
        can_adopt: Callable[[], Awaitable[None]],
        finalizers: Sequence[str] = (),
    ) -> None:
        """`can_adopt` raises if the owner must not adopt (a live look at it); it is asked once, before the first."""
        self._pod_control, self._owner, self._selector = pod_control, owner, selector
        self._can_adopt, self._finalizers = can_adopt, tuple(finalizers)
        self._asked = False
        self._refused: Exception | None = None

    async def claim_pods(self, pods: Iterable[Pod], *filters: Callable[[Pod], bool]) -> Claimed:
        """Adopt orphans that match the selector and all filters, release owned pods that do not.

        A failure with one pod does not stop the others; what has vanished meanwhile is no failure.
        """
        ours: list[Pod] = []
        errors: list[Exception] = []
        for pod in pods:
            matches = self._selector.matches(pod.metadata.labels) and all(test(pod) for test in filters)
            try:
                if await self._claim(pod, plan_claim(pod, self._owner, matches=matches)):
                    ours.append(pod)
            except (ApiError, CannotAdoptError) as error:
                errors.append(error)
        return Claimed(tuple(ours), ClaimError(errors) if errors else None)

    async def adopt_pod(self, pod: Pod) -> None:
        """Become the pod's managing owner; the server refuses if there is another."""
        if not self._asked:
            self._asked = True
            try:
                await self._can_adopt()
            except Exception as error:  # noqa: BLE001  any reason not to adopt counts for all pods of this sync
                self._refused = error
        meta = pod.metadata
        if self._refused is not None:
            where = f"{meta.namespace}/{meta.name} ({meta.uid})"
            raise CannotAdoptError(f"can't adopt Pod {where}: {self._refused}") from self._refused
        await self._pod_control.patch_pod(
            meta.namespace, meta.name, adopt_patch(self._owner, meta.uid, self._finalizers)
        )

    async def release_pod(self, pod: Pod) -> None:
        """Stop managing the pod. It may be gone, another one, or released already: all fine."""
        meta = pod.metadata
        patch = release_patch(meta.uid, [self._owner.metadata.uid], self._finalizers)
        try:
            await self._pod_control.patch_pod(meta.namespace, meta.name, patch)
        except (NotFound, Invalid):
            return

    async def _claim(self, pod: Pod, claim: Claim) -> bool:
        """Carry it out; whether the pod is ours now."""
        match claim:
            case Claim.ADOPT:
                try:
                    await self.adopt_pod(pod)
                except NotFound:
                    return False
                return True
            case Claim.RELEASE:
                await self.release_pod(pod)
                return False
            case _:
                return claim is Claim.OURS
