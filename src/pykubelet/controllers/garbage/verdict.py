"""What becomes of an object that may be garbage.

Pure. In: the object as it is now and what became of each of its owners. Out: it stays, lets go of some owners, or is
deleted and how. Upstream: attemptToDeleteItem and classifyReferences in pkg/controller/garbagecollector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.partial import PartialMeta
from pykubelet.api.validation.metadata import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from pykubelet.controllers.garbage.graph import Node

Policy = Literal["Background", "Foreground", "Orphan"]


class Standing(Enum):
    """What became of an owner."""

    SOLID = auto()
    """It is there, and keeps what it owns."""
    DANGLING = auto()
    """It is not there."""
    WAITING = auto()
    """It is being deleted, and waits for what it owns to go first."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done; without anything set, nothing."""

    release_from: tuple[str, ...] = ()
    """UIDs of owners whose references are to be taken off."""
    delete: Policy | None = None
    unblock_first: bool = False
    """Before it is deleted, its owners must stop waiting for it."""


def standing(owner: PartialMeta | None) -> Standing:
    """What became of an owner; None if it is not there."""
    if owner is None:
        return Standing.DANGLING
    waits = owner.deletion_timestamp is not None and FOREGROUND_FINALIZER in owner.finalizers
    return Standing.WAITING if waits else Standing.SOLID


def verdict(node: Node, finalizers: Sequence[str], owners: Sequence[tuple[OwnerReference, Standing]]) -> Verdict:
    """What becomes of the object with these finalizers and owners."""
    standings = {found for _, found in owners}
    if not owners or Standing.SOLID in standings:
        # A reference to an owner that waits would keep it waiting for ever.
        return Verdict(release_from=tuple(owner.uid for owner, found in owners if found is not Standing.SOLID))
    if Standing.WAITING in standings and node.dependents:
        # Both ends wait: if that is a ring, nobody would ever go.
        is_ring = any(dependent.is_deleting_dependents for dependent in node.dependents.values())
        return Verdict(delete="Foreground", unblock_first=is_ring)
    if ORPHAN_FINALIZER in finalizers:
        return Verdict(delete="Orphan")
    return Verdict(delete="Foreground" if FOREGROUND_FINALIZER in finalizers else "Background")
