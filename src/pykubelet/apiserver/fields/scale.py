"""Who owns the replicas: the owners of an object as those of its Scale, and back.

A Scale is made from its object for each request, and so are its owners; after the write they are put back among the
object's, where an owner of the replicas stays, loses them, or comes in anew (without a time, as upstream has it).

Upstream: apimachinery/pkg/util/managedfields/scalehandler.go
"""

from collections.abc import Sequence
from typing import Final

from pykubelet.api.wire import Document
from pykubelet.apiserver.fields.field_sets import difference, has, tree_of
from pykubelet.apiserver.fields.owners import APPLY, Owned, Owners, stored_owners, written

SCALE_VERSION: Final = "autoscaling/v1"
SPEC_REPLICAS: Final = ("f:spec", "f:replicas")


def replicas_path(path: str) -> tuple[str, ...]:
    """The path of `.spec.replicas`, as a custom resource's definition spells it."""
    return tuple(f"f:{name}" for name in path.removeprefix(".").split("."))


def scale_owners(entries: Sequence[Document], path: tuple[str, ...] = SPEC_REPLICAS) -> list[Document]:
    """The managedFields of the Scale: those who own the replicas of its object."""
    return written(
        {
            owner: Owned(tree_of(SPEC_REPLICAS), SCALE_VERSION, owned.time)
            for owner, owned in stored_owners(entries).items()
            if has(owned.fields, path)
        }
    )


def parent_owners(
    entries: Sequence[Document],
    of_scale: Sequence[Document],
    *,
    api_version: str,
    path: tuple[str, ...] = SPEC_REPLICAS,
) -> list[Document]:
    """The managedFields of the object after its Scale was written, given what they were and the Scale's now."""
    new = {
        owner if owner.operation == APPLY else owner._replace(api_version=api_version)
        for owner, owned in stored_owners(of_scale).items()
        if has(owned.fields, SPEC_REPLICAS)
    }
    replicas = tree_of(path)
    owners: Owners = {}
    for owner, owned in stored_owners(entries).items():
        if owner in new or not has(owned.fields, path):
            owners[owner] = owned
            new.discard(owner)
        elif fields := difference(owned.fields, replicas):
            owners[owner] = owned._replace(fields=fields)
    return written({**owners, **{owner: Owned(replicas, api_version) for owner in new}})
