"""Eviction thresholds: parses them and decides whether they are met.

A signal is what is measured, such as `memory.available`; a threshold is a quantity of it or a percentage of the capacity.

Upstream: pkg/kubelet/eviction/helpers.go, pkg/kubelet/eviction/defaults_linux.go, pkg/kubelet/eviction/api/types.go,
pkg/kubelet/cm/helpers.go
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pykubelet.api.pods import EPHEMERAL_STORAGE, MEMORY
from pykubelet.api.quantity import Quantity, QuantityOrPercentage, add, parse_quantity_or_percentage

MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE = "MemoryPressure", "DiskPressure", "PIDPressure"
INODES, PIDS = "inodes", "pids"
MEMORY_AVAILABLE, PID_AVAILABLE = "memory.available", "pid.available"
NODE_FS_AVAILABLE, NODE_FS_INODES = "nodefs.available", "nodefs.inodesFree"
IMAGE_FS_AVAILABLE, IMAGE_FS_INODES = "imagefs.available", "imagefs.inodesFree"

CONDITIONS = {
    MEMORY_AVAILABLE: MEMORY_PRESSURE,
    NODE_FS_AVAILABLE: DISK_PRESSURE,
    NODE_FS_INODES: DISK_PRESSURE,
    IMAGE_FS_AVAILABLE: DISK_PRESSURE,
    IMAGE_FS_INODES: DISK_PRESSURE,
    PID_AVAILABLE: PID_PRESSURE,
}
"""The node condition of each signal."""

RESOURCES = {
    MEMORY_AVAILABLE: MEMORY,
    NODE_FS_AVAILABLE: EPHEMERAL_STORAGE,
    NODE_FS_INODES: INODES,
    IMAGE_FS_AVAILABLE: EPHEMERAL_STORAGE,
    IMAGE_FS_INODES: INODES,
    PID_AVAILABLE: PIDS,
}
"""The starved resource of each signal."""

DEFAULT_EVICTION_HARD = {
    MEMORY_AVAILABLE: "100Mi",
    NODE_FS_AVAILABLE: "10%",
    NODE_FS_INODES: "5%",
    IMAGE_FS_AVAILABLE: "15%",
    IMAGE_FS_INODES: "5%",
}
NOTHING = QuantityOrPercentage()
# Switches a threshold off.
_OFF = frozenset({"0%", "100%"})


@dataclass(frozen=True, slots=True)
class Observation:
    available: int
    capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Less than `value` is too little; evictions continue until `min_reclaim` more than that is available.

    A soft threshold calls for eviction only after `grace_seconds`; the node condition is set at once.
    """

    signal: str
    value: QuantityOrPercentage
    grace_seconds: float = 0.0
    min_reclaim: QuantityOrPercentage = NOTHING

    @property
    def condition(self) -> str:
        """The node condition while it is met."""
        return CONDITIONS[self.signal]

    @property
    def resource(self) -> str:
        """The starved resource while it is met."""
        return RESOURCES[self.signal]

    @property
    def is_hard(self) -> bool:
        return self.grace_seconds == 0

    def needed(self, observed: Observation) -> Quantity:
        """The amount that should be available."""
        return self.value.of(observed.capacity)

    def is_met(self, observed: Observation, *, with_reclaim: bool) -> bool:
        """Whether too little is available; `with_reclaim`, whether evictions must continue."""
        return self.missing(observed) > 0 if with_reclaim else observed.available < self.needed(observed).value()

    def missing(self, observed: Observation) -> int:
        """How much has to be reclaimed until evictions stop; not positive if they may."""
        return add(self.needed(observed), self.min_reclaim.of(observed.capacity)).value() - observed.available


def parse_thresholds(
    hard: Mapping[str, str],
    *,
    soft: Mapping[str, str] | None = None,
    soft_grace_seconds: Mapping[str, float] | None = None,
    minimum_reclaim: Mapping[str, str] | None = None,
) -> tuple[Threshold, ...]:
    """Parse thresholds by signal, such as `{"memory.available": "100Mi", "nodefs.available": "10%"}`; raises ValueError."""
    graces = {_known(signal): _grace(seconds) for signal, seconds in (soft_grace_seconds or {}).items()}
    reclaims = {_known(signal): _reclaim(signal, text) for signal, text in (minimum_reclaim or {}).items()}
    found = [Threshold(signal=signal, value=_value(signal, text)) for signal, text in _switched_on(hard)]
    for signal, text in _switched_on(soft or {}):
        value = _value(signal, text)
        if signal not in graces:
            raise ValueError(f"grace period must be specified for the soft eviction threshold {signal}")
        found.append(Threshold(signal=signal, value=value, grace_seconds=graces[signal]))
    return tuple(replace(one, min_reclaim=reclaims.get(one.signal, NOTHING)) for one in found)


def _switched_on(statements: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(signal, text) for signal, text in statements.items() if _known(signal) and text not in _OFF]


def _known(signal: str) -> str:
    if signal not in CONDITIONS:
        raise ValueError(f"unsupported eviction signal {signal}")
    return signal


def _value(signal: str, text: str) -> QuantityOrPercentage:
    value = parse_quantity_or_percentage(text)
    if value.quantity is None and not 0 <= value.share <= 1:
        bound = "<= 100%" if value.share > 1 else ">= 0%"
        raise ValueError(f"eviction percentage threshold {signal} must be {bound}: {text}")
    if value.quantity is not None and value.sign <= 0:
        raise ValueError(f"eviction threshold {signal} must be positive: {text}")
    return value


def _grace(seconds: float) -> float:
    if not 0 <= seconds < math.inf:
        raise ValueError(f"invalid eviction grace period specified: {seconds}, must be a positive value")
    return seconds


def _reclaim(signal: str, text: str) -> QuantityOrPercentage:
    value = parse_quantity_or_percentage(text)
    if value.quantity is None and not 0 < value.share < math.inf:
        raise ValueError(f"eviction percentage minimum reclaim {signal} must be positive: {text}")
    if value.sign < 0:
        raise ValueError(f"negative eviction minimum reclaim specified for {signal}")
    return value


def met_thresholds(
    thresholds: Iterable[Threshold], observed: Mapping[str, Observation], *, with_reclaim: bool = False
) -> tuple[Threshold, ...]:
    """The thresholds that are met; a signal without measurement is not."""
    return tuple(
        one
        for one in thresholds
        if one.signal in observed and one.is_met(observed[one.signal], with_reclaim=with_reclaim)
    )


def kept_free(thresholds: Iterable[Threshold]) -> dict[str, QuantityOrPercentage]:
    """The amounts by resource that are not allocatable: with less available, the node would evict pods at once."""
    named = {MEMORY_AVAILABLE: MEMORY, NODE_FS_AVAILABLE: EPHEMERAL_STORAGE}
    return {named[one.signal]: one.value for one in thresholds if one.is_hard and one.signal in named}


DEFAULT_THRESHOLDS = parse_thresholds(DEFAULT_EVICTION_HARD)
