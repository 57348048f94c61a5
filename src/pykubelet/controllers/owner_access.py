"""The live object behind a controller's copy: its status, and may it adopt.

A status is patched, never put: what other programs wrote into it stays. The resource version in the patch is the
optimistic lock that upstream's PUT has; counting depends on it.
Upstream: updateReplicaSetStatus, storeDaemonSetStatus and RecheckDeletionTimestamp in pkg/controller.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from pykubelet.api.errors import ApiError
from pykubelet.api.typed import ApiObject, Kind
from pykubelet.api.wire import Document, to_document
from pykubelet.kube.client import PatchType

T = TypeVar("T", bound=ApiObject)
K = TypeVar("K")


class OwnerClient(Protocol):
    """The part of a client that controllers use on the objects they own the status of."""

    async def get(self, kind: Kind[K], name: str, *, namespace: str = "") -> K:
        """One object, as it is now."""

    async def patch(
        self,
        kind: Kind[K],
        name: str,
        body: Any,
        *,
        namespace: str = "",
        patch_type: PatchType = PatchType.STRATEGIC,
        subresource: str = "",
    ) -> K:
        """Change an object or its subresource."""


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
    client: OwnerClient, kind: Kind[T], owner: T, status: Document, *, annotations: Mapping[str, str] | None = None
) -> T:
    """Change the status of the object as it was read, and perhaps annotations; Conflict if it has changed since."""
    return await _patch(client, kind, owner, status, owner.metadata.resource_version, annotations)


async def store_status(client: OwnerClient, kind: Kind[T], owner: T, status: Document) -> T:
    """Change the status; if that fails, once more on the object as it is now, with the same values."""
    try:
        return await patch_status(client, kind, owner, status)
    except ApiError:
        fresh = await client.get(kind, owner.metadata.name, namespace=owner.metadata.namespace)
        return await _patch(client, kind, owner, status, fresh.metadata.resource_version)


def may_adopt(client: OwnerClient, kind: Kind[T], owner: T) -> Callable[[], Awaitable[None]]:
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
    client: OwnerClient,
    kind: Kind[T],
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
