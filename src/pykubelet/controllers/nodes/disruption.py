"""How fast nodes that are not ready may lose their pods: slowly, and not if all fail at once.

Pure. Where all nodes fail the network to them is the likely fault, and pods are better left alone. Upstream:
handleDisruption and ComputeZoneState in pkg/controller/nodelifecycle/node_lifecycle_controller.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pykubelet.api.generated.core import Node

NODES_PER_SECOND = 0.1
SLOW_NODES_PER_SECOND = 0.01
LARGE_ZONE = 50
UNHEALTHY_SHARE = 0.55
_FEW = 2
"""So many may fail without anybody thinking of the network."""
_EXCLUDED = "node.kubernetes.io/exclude-disruption"
_ZONE = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


@dataclass(frozen=True, slots=True)
class Disruption:
    """The state of all zones."""

    rates: Mapping[str, float]
    """How many nodes per second may begin to lose their pods, by zone."""
    is_total: bool
    """No node is ready at all."""


def zone_of(node: Node) -> str:
    """The zone of a node, with its region; empty if it is in none."""
    labels = node.metadata.labels
    region, zone = (next((labels[key] for key in keys if key in labels), "") for keys in (_REGION, _ZONE))
    return f"{region}:\0:{zone}" if region or zone else ""


def disruption_of(nodes: Iterable[tuple[Node, bool]]) -> Disruption:
    """The state of the zones, given each node and whether it is ready."""
    zones: dict[str, list[bool]] = {}
    for node, is_ready in nodes:
        if _EXCLUDED not in node.metadata.labels:
            zones.setdefault(zone_of(node), []).append(is_ready)
    is_total = bool(zones) and not any(any(states) for states in zones.values())
    return Disruption({zone: 0.0 if is_total else _rate(states) for zone, states in zones.items()}, is_total)


def _rate(states: list[bool]) -> float:
    failed = states.count(False)
    # A whole zone that is down, while others are not, is down.
    is_partial = failed < len(states) and failed > _FEW and failed / len(states) >= UNHEALTHY_SHARE
    if not is_partial:
        return NODES_PER_SECOND
    return SLOW_NODES_PER_SECOND if len(states) > LARGE_ZONE else 0.0


class Permits:
    """Lets one node of each zone pass, then the next when the zone's rate allows it."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def take(self, zone: str, rate: float, *, at: float) -> bool:
        """Whether a node of the zone may pass now."""
        last = self._last.get(zone)
        if rate <= 0 or (last is not None and (at - last) * rate < 1):
            return False
        self._last[zone] = at
        return True
