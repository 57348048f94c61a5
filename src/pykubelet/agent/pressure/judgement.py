"""Which pressures a node is under: those seen now, and those seen so lately that they may come back.

Pure. In: what was concluded before, what is measured now, the time. Out: a `Judgement`, which holds all that the next one
needs: conditions that hold, and thresholds that call for eviction because they were met for as long as they must be. Once
one calls for eviction it does so until there is its minimum reclaim more than the threshold.

Upstream: synchronize in pkg/kubelet/eviction/eviction_manager.go, up to the choice of a pod
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pykubelet.agent.pressure.thresholds import CONDITIONS, Observation, Threshold, met_thresholds

TRANSITION_SECONDS = 300.0
"""How long a condition stays after it was last seen, so that pods are not let in and pushed out by turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What was concluded at one moment; times are on the monotonic clock."""

    conditions: tuple[str, ...] = ()
    """In the order memory, disk, pids."""
    seen_at: Mapping[str, float] = field(default_factory=dict)
    """When each condition was last brought about by a measurement."""
    met_since: Mapping[Threshold, float] = field(default_factory=dict)
    """The thresholds that are met, or not reclaimed enough for, and since when without a break."""
    at: float = -math.inf

    @property
    def starved(self) -> tuple[Threshold, ...]:
        """The thresholds that call for eviction."""
        return tuple(one for one, since in self.met_since.items() if self.at - since >= one.grace_seconds)


def judge(
    before: Judgement,
    thresholds: Sequence[Threshold],
    observed: Mapping[str, Observation],
    now: float,
    transition_seconds: float = TRANSITION_SECONDS,
) -> Judgement:
    """What follows from a new measurement."""
    unresolved = met_thresholds(before.starved, observed, with_reclaim=True)
    met = tuple(dict.fromkeys((*met_thresholds(thresholds, observed), *unresolved)))
    seen_at = {**before.seen_at, **{one.condition: now for one in met}}
    # One that is seen now holds even if there is no transition period.
    held = {name for name, at in seen_at.items() if at == now or now - at < transition_seconds}
    return Judgement(
        conditions=tuple(name for name in dict.fromkeys(CONDITIONS.values()) if name in held),
        seen_at=seen_at,
        met_since={one: before.met_since.get(one, now) for one in met},
        at=now,
    )
