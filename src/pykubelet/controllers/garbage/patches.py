"""Patches of owner references and finalizers.

Pure. Kinds that are built in take strategic merge patches, which change one reference and leave the rest. Custom
resources take only merge patches, which give the whole list and so need the version it was made from. The plain patch
that releases an object is `ownership.release_patch`. Upstream: pkg/controller/garbagecollector/patch.go, operations.go.
"""

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.partial import PartialMeta
from pykubelet.api.wire import Document, to_document


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
