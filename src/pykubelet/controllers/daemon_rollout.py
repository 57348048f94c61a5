"""Which daemon pods go, and where new ones start, while a new version of a DaemonSet takes over.

Pure. In: a DaemonSet, the nodes, its pods. Out: pods to delete, nodes to create one for. Without a surge old pods are
deleted and the new ones come with the next look at their nodes; with a surge a new pod starts beside the old one.
Upstream: rollingUpdate in pkg/controller/daemon/update.go.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pykubelet.api.generated.apps import DaemonSet
from pykubelet.api.generated.core import Node, Pod
from pykubelet.controllers.daemon_plan import PodsByNode, Revision, max_surge, max_unavailable, node_fit
from pykubelet.controllers.pod_order import is_available


@dataclass(frozen=True, slots=True)
class Rollout:
    """The next step of an update."""

    create: tuple[str, ...] = ()
    delete: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class _Spot:
    """A node that has pods of the set or should have one."""

    name: str
    is_wanted: bool
    new: Pod | None = None
    old: Pod | None = None
    is_crowded: bool = False
    """Several new or several old pods: cleared up before the update goes on there."""


def plan_rollout(
    daemon_set: DaemonSet, nodes: Iterable[Node], by_node: PodsByNode, revision: Revision, now: datetime
) -> Rollout:
    """What the update may do now, within the bounds that the set gives it."""
    wanted = [node.metadata.name for node in nodes if node_fit(daemon_set, node).may_start]
    names = dict.fromkeys((*by_node, *wanted))
    is_wanted = set(wanted)
    spots = [_spot(name, name in is_wanted, by_node.get(name, ()), revision) for name in names]

    def available(pod: Pod | None) -> bool:
        return pod is not None and is_available(pod, daemon_set.spec.min_ready_seconds, now)

    up = {spot.name: available(spot.old if spot.old is not None else spot.new) for spot in spots}
    surge = max_surge(daemon_set, len(wanted))
    if surge == 0:
        # The API refuses a set that allows neither; one that has come in anyway must not stand still.
        return _replace(spots, up, max_unavailable(daemon_set, len(wanted)) or min(1, len(wanted)))
    taken_over = {spot.name for spot in spots if available(spot.new)}
    return _surge(spots, up, taken_over, surge, len(wanted))


def _spot(name: str, is_wanted: bool, pods: Sequence[Pod], revision: Revision) -> _Spot:
    present = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    new = [pod for pod in present if revision.made(pod)]
    old = [pod for pod in present if not revision.made(pod)]
    if len(new) > 1 or len(old) > 1:
        return _Spot(name, is_wanted, is_crowded=True)
    return _Spot(name, is_wanted, new[0] if new else None, old[0] if old else None)


def _replace(spots: Sequence[_Spot], up: dict[str, bool], limit: int) -> Rollout:
    """Old pods that are not available go in any case, others as long as few enough nodes are without one."""
    outdated = [(spot, spot.old) for spot in spots if spot.old is not None and spot.new is None]
    candidates = [old for spot, old in outdated if up[spot.name]]
    broken = [old for spot, old in outdated if not up[spot.name]]
    # A node with both pods, or none, is about to change.
    unavailable = sum(not up[spot.name] or (spot.old is not None and spot.new is not None) for spot in spots)
    return Rollout(delete=(*broken, *candidates[: max(0, limit - unavailable)]))


def _surge(spots: Sequence[_Spot], up: dict[str, bool], taken_over: set[str], limit: int, desired: int) -> Rollout:
    """A new pod beside each old one that is not available, and beside a few that are.

    Old pods go once the new one is available. Those of nodes that are no longer wanted stay until there are enough
    available pods without them: who surges wants no gap.
    """
    both = [(spot, spot.old) for spot in spots if spot.old is not None and spot.new is not None]
    outdated = [(spot, spot.old) for spot in spots if spot.old is not None and spot.new is None]
    replaced = [old for spot, old in both if spot.name in taken_over]
    surging = sum(spot.is_crowded for spot in spots) + len(both) - len(replaced)
    broken = [spot.name for spot, _ in outdated if spot.is_wanted and not up[spot.name]]
    candidates = [spot.name for spot, _ in outdated if spot.is_wanted and up[spot.name]]
    useless = [old for spot, old in outdated if not spot.is_wanted and not up[spot.name]]
    leaving = [old for spot, old in outdated if not spot.is_wanted and up[spot.name]]
    spare = sum(up.values()) - desired
    return Rollout(
        create=(*broken, *candidates[: max(0, limit - surging)]),
        delete=(*replaced, *useless, *leaving[: max(0, spare)]),
    )
