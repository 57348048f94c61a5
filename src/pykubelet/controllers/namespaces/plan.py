"""What the end of a namespace needs: kinds to empty, what to say of the rest, when to look again.

In: what a server serves, and what one pass over a namespace could not do away with. Out: decisions.

Upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go, status_condition_utils.go
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pykubelet.api.namespace_ending import Remaining, with_remaining
from pykubelet.api.partial import PartialMeta
from pykubelet.api.resources import PODS, Resource
from pykubelet.api.times import format_time, parse_time
from pykubelet.api.wire import Document

FINALIZER_SECONDS = 15.0
"""How long whoever has to finalize an object may take."""
LONGEST_SECONDS = 120.0
"""Nobody's grace period keeps us from looking for longer."""


@dataclass(frozen=True, slots=True)
class Left:
    """An object that is still there."""

    resource: Resource
    metadata: PartialMeta


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass over a namespace found out."""

    left: tuple[Left, ...] = ()
    failures: tuple[str, ...] = ()
    """What went wrong, once for each kind."""
    undiscovered: str = ""
    """Why not every kind is known; empty if all are."""

    @property
    def problem(self) -> str:
        """All that went wrong; empty if nothing did."""
        return "; ".join(text for text in (self.undiscovered, *self.failures) if text)

    @property
    def found_nothing(self) -> bool:
        """Whether the namespace is known to be empty: a kind that could not be asked for may have objects in it."""
        return not self.left and not self.problem


def kinds_to_empty(served: Iterable[Resource]) -> tuple[Resource, ...]:
    """The kinds that can have objects in a namespace, one version of each. Pods come first."""
    chosen: dict[str, Resource] = {}
    for resource in served:
        if resource.namespaced:
            chosen.setdefault(resource.group_resource, resource)
    return tuple(sorted(chosen.values(), key=lambda one: not is_pods(one)))


def is_pods(resource: Resource) -> bool:
    """Whether nothing else may be deleted before the last of these is gone: what pods use outlives them."""
    return resource.group_resource == PODS.group_resource


def undiscovered(unsure: Sequence[str]) -> str:
    """What a namespace says of groups whose kinds are not known; nothing if there are none."""
    if not unsure:
        return ""
    groups = ", ".join(f"{name}: stale GroupVersion discovery: {name}" for name in sorted(unsure))
    why = f"unable to retrieve the complete list of server APIs: {groups}"
    return f"Discovery failed for some groups, {len(unsure)} failing: {why}"


def status_patch(namespace: Document, found: Pass, now: datetime) -> Document | None:
    """The conditions that have to change, as a strategic merge patch; None if they are right."""
    remaining = [Remaining(one.resource.group_resource, one.metadata.finalizers) for one in found.left]
    new = with_remaining(namespace, remaining, found.failures, format_time(now), undiscovered=found.undiscovered)
    old, said = namespace.get("status", {}), new["status"]
    if said == old:
        return None
    # Conditions of others may have changed since we read them.
    changed = [one for one in said["conditions"] if one not in old.get("conditions", ())]
    uid = namespace["metadata"]["uid"]
    return {"metadata": {"uid": uid}, "status": {"phase": said["phase"], "conditions": changed}}


def look_again_seconds(left: Iterable[Left], now: datetime) -> float:
    """How long to wait for what is left: half of what it may take, and a second.

    The deletion time of a pod is the end of its grace period; other objects, and pods that are late, wait for somebody.
    """
    longest = 0.0
    for one in left:
        ends = one.metadata.deletion_timestamp
        grace = (parse_time(ends) - now).total_seconds() if ends else 0.0
        longest = max(longest, grace if grace > 0 else FINALIZER_SECONDS)
    return min(longest, LONGEST_SECONDS) / 2 + 1
