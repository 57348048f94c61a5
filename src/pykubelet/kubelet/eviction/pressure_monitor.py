"""Measures the node every ten seconds and reports the pressure conditions.

A threshold calls for eviction once it is met for its grace period, until its minimum reclaim is available again. A
condition stays for a transition period after it was last met.

Upstream: pkg/kubelet/eviction/eviction_manager.go, pkg/kubelet/eviction/helpers.go,
pkg/kubelet/stats/pidlimit/pidlimit_linux.go
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.kubelet.eviction.ranking import StarvedResource
from pykubelet.kubelet.eviction.thresholds import (
    CONDITIONS,
    DEFAULT_THRESHOLDS,
    IMAGE_FS_AVAILABLE,
    IMAGE_FS_INODES,
    MEMORY_AVAILABLE,
    NODE_FS_AVAILABLE,
    NODE_FS_INODES,
    PID_AVAILABLE,
    Observation,
    Threshold,
    met_thresholds,
)
from pykubelet.kubelet.stats.machine_usage import ProcFiles, file_system_usage
from pykubelet.runtimes.protocol import ImageFs, RuntimeFailure

log = get_logger(__name__)

TRANSITION_SECONDS = 300.0
"""How long a condition stays after it was last met, so that pods are not admitted and evicted in turns."""
PERIOD_SECONDS = 10.0
PRESSURE_PERIOD_SECONDS = 2.0
"""The period while a condition holds, so that the node is soon back to normal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureState:
    """The state after one measurement; times are monotonic."""

    conditions: tuple[str, ...] = ()
    """The conditions that hold, in the order memory, disk, PIDs."""
    seen_at: Mapping[str, float] = field(default_factory=dict)
    """When a measurement last met each condition."""
    met_since: Mapping[Threshold, float] = field(default_factory=dict)
    """The thresholds that are met, or not reclaimed enough, and since when without interruption."""
    at: float = -math.inf

    @property
    def starved(self) -> tuple[Threshold, ...]:
        """The thresholds that call for eviction."""
        return tuple(one for one, since in self.met_since.items() if self.at - since >= one.grace_seconds)


def next_pressure_state(
    before: PressureState,
    thresholds: Sequence[Threshold],
    observed: Mapping[str, Observation],
    now: float,
    transition_seconds: float = TRANSITION_SECONDS,
) -> PressureState:
    unresolved = met_thresholds(before.starved, observed, with_reclaim=True)
    met = tuple(dict.fromkeys((*met_thresholds(thresholds, observed), *unresolved)))
    seen_at = {**before.seen_at, **{one.condition: now for one in met}}
    # A condition that is met now holds even without a transition period.
    held = {name for name, at in seen_at.items() if at == now or now - at < transition_seconds}
    return PressureState(
        conditions=tuple(name for name in dict.fromkeys(CONDITIONS.values()) if name in held),
        seen_at=seen_at,
        met_since={one: before.met_since.get(one, now) for one in met},
        at=now,
    )


class LinuxSignals:
    """Reads /proc below `root`; the disk is the file system of `data_dir`. Implements SignalReader."""

    def __init__(self, *, data_dir: Path, root: Path = Path("/")) -> None:
        self._data_dir, self._proc = data_dir, ProcFiles(root)

    def read(self) -> dict[str, Observation]:
        """Measure now. May block briefly; runs in a thread."""
        found: dict[str, Observation] = {}
        memory = self._proc.numbers("meminfo")
        if "MemAvailable" in memory and "MemTotal" in memory:
            found[MEMORY_AVAILABLE] = Observation(memory["MemAvailable"] * 1024, memory["MemTotal"] * 1024)
        limit, processes = self._proc.max_processes(), self._proc.processes()
        if limit is not None and processes is not None:
            found[PID_AVAILABLE] = Observation(limit - processes, limit)
        if (disk := file_system_usage(self._data_dir)) is not None:
            found[NODE_FS_AVAILABLE] = Observation(disk.available_bytes, disk.capacity_bytes)
            # Some file systems create inodes on demand and report none.
            if disk.inodes:
                found[NODE_FS_INODES] = Observation(disk.inodes_free, disk.inodes)
        return found


class SignalReader(Protocol):
    """Measures the machine; tests have their own implementation."""

    def read(self) -> Mapping[str, Observation]:
        """The available amount by signal. May block briefly; runs in a thread."""


class PressureMonitor:
    """Monitors one machine; `changed` receives the conditions that hold.

    A condition lasts `transition_seconds`, or `undisturbed_seconds` if that is given and no pod was evicted lately. Without
    `image_fs`, the image file system is unknown; it is separate if its device is not `node_device`, that of volumes and logs.
    """

    def __init__(
        self,
        *,
        reader: SignalReader,
        changed: Callable[[tuple[str, ...]], None],
        clock: Clock,
        thresholds: Sequence[Threshold] = DEFAULT_THRESHOLDS,
        transition_seconds: float = TRANSITION_SECONDS,
        undisturbed_seconds: float | None = None,
        image_fs: ImageFs | None = None,
        node_device: int | None = None,
    ) -> None:
        self._undisturbed_seconds, self._evicted_at = undisturbed_seconds, -math.inf
        self._reader, self._changed, self._clock = reader, changed, clock
        self._thresholds, self._transition_seconds = tuple(thresholds), transition_seconds
        self._image_fs, self._node_device = image_fs, node_device
        self.has_image_fs = False
        """Whether images have a separate file system."""
        self.state = PressureState()
        """The state after the last measurement."""
        self._observed: Mapping[str, Observation] = {}

    @property
    def shortage(self) -> StarvedResource | None:
        """What pods must be evicted for, as of the last measurement; None if there is nothing."""
        starved = self.state.starved
        if not starved:
            return None
        return StarvedResource(starved=starved, observed=self._observed, has_image_fs=self.has_image_fs)

    async def run(self, ready: asyncio.Event) -> None:
        """Measure until cancelled; `ready` is set after the first measurement."""
        while True:
            await self.measure()
            ready.set()
            await self.pause()

    async def measure(self) -> None:
        """Measure once, and report changed conditions."""
        self._observed = observed = await self._measure()
        before, now, seconds = self.state, self._clock.monotonic(), self._transition_seconds
        if self._undisturbed_seconds is not None and now - self._evicted_at > seconds:
            seconds = self._undisturbed_seconds
        self.state = next_pressure_state(before, self._thresholds, observed, now, seconds)
        if self.state.conditions != before.conditions:
            short = {one.signal: observed[one.signal].available for one in self.state.met_since}
            log.warning("node pressure conditions changed", conditions=list(self.state.conditions), short=short)
            self._changed(self.state.conditions)

    def note_eviction(self) -> None:
        """Record that a pod was evicted now."""
        self._evicted_at = self._clock.monotonic()

    async def pause(self) -> None:
        """Wait until it is time to act again; measure meanwhile while a condition holds."""
        if not self.state.conditions:
            await asyncio.sleep(PERIOD_SECONDS)
            return
        for _ in range(int(PERIOD_SECONDS / PRESSURE_PERIOD_SECONDS)):
            await asyncio.sleep(PRESSURE_PERIOD_SECONDS)
            await self.measure()

    async def is_relieved(self) -> bool:
        """Measure again: whether enough of everything is available, minimum reclaims included."""
        return not met_thresholds(self._thresholds, await self._measure(), with_reclaim=True)

    async def _measure(self) -> Mapping[str, Observation]:
        return {**await asyncio.to_thread(self._reader.read), **await self._images()}

    async def _images(self) -> Mapping[str, Observation]:
        if self._image_fs is None:
            return {}
        try:
            found = await self._image_fs.image_file_system()
        except RuntimeFailure as failure:
            log.warning("image file system not measured", cause=failure.message)
            return {}
        self.has_image_fs = self._node_device is not None and found.device != self._node_device
        observed = {IMAGE_FS_AVAILABLE: Observation(found.available_bytes, found.capacity_bytes)}
        return observed | ({IMAGE_FS_INODES: Observation(found.inodes_free, found.inodes)} if found.inodes else {})
