"""Measures the machine every ten seconds and tells which pressures it is under.

In: a reader of signals, and where images are. Out: the conditions that hold, told whenever they change. What is decided is
in `judgement.py`; who is evicted for it, in `evictor.py`.

Upstream: pkg/kubelet/eviction/eviction_manager.go

Measures how much is left of memory, disk and process ids, from where Linux keeps it.

Out: observations by signal. What cannot be read is missing. The file system of images is the runtime's to tell; containers
that are plain processes have none.

Upstream: makeSignalObservations in pkg/kubelet/eviction/helpers.go, pkg/kubelet/stats/pidlimit/pidlimit_linux.go

Which pressures a node is under: those seen now, and those seen so lately that they may come back.

Pure. In: what was concluded before, what is measured now, the time. Out: a `Judgement`, which holds all that the next one
needs: conditions that hold, and thresholds that call for eviction because they were met for as long as they must be. Once
one calls for eviction it does so until there is its minimum reclaim more than the threshold.

Upstream: synchronize in pkg/kubelet/eviction/eviction_manager.go, up to the choice of a pod
"""

import asyncio
import math
import os
import re
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
    Observation,
    Threshold,
    met_thresholds,
)
from pykubelet.runtimes.protocol import ImageFs, RuntimeFailure

TRANSITION_SECONDS = 300.0
"""How long a condition stays after it was last seen, so that pods are not let in and pushed out by turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureState:
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


def next_pressure_state(
    before: PressureState,
    thresholds: Sequence[Threshold],
    observed: Mapping[str, Observation],
    now: float,
    transition_seconds: float = TRANSITION_SECONDS,
) -> PressureState:
    """What follows from a new measurement."""
    unresolved = met_thresholds(before.starved, observed, with_reclaim=True)
    met = tuple(dict.fromkeys((*met_thresholds(thresholds, observed), *unresolved)))
    seen_at = {**before.seen_at, **{one.condition: now for one in met}}
    # One that is seen now holds even if there is no transition period.
    held = {name for name, at in seen_at.items() if at == now or now - at < transition_seconds}
    return PressureState(
        conditions=tuple(name for name in dict.fromkeys(CONDITIONS.values()) if name in held),
        seen_at=seen_at,
        met_since={one: before.met_since.get(one, now) for one in met},
        at=now,
    )


class LinuxSignals:
    """Reads /proc below `root`; the disk is the file system with `data_dir`. SignalReader."""

    def __init__(self, *, data_dir: Path, root: Path = Path("/")) -> None:
        self._data_dir, self._root = data_dir, root

    def read(self) -> dict[str, Observation]:
        """As it is now. May block for a moment; called in a thread."""
        found = {"memory.available": self._memory(), "pid.available": self._pids(), **self._disk()}
        return {signal: observation for signal, observation in found.items() if observation is not None}

    def _memory(self) -> Observation | None:
        numbers = dict(re.findall(r"^(\w+):\s+(\d+) kB$", self._text("proc/meminfo"), re.MULTILINE))
        if "MemAvailable" not in numbers or "MemTotal" not in numbers:
            return None
        return Observation(int(numbers["MemAvailable"]) * 1024, int(numbers["MemTotal"]) * 1024)

    def _disk(self) -> dict[str, Observation]:
        try:
            found = os.statvfs(self._data_dir)
        except OSError:
            return {}
        observations = {
            "nodefs.available": Observation(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)
        }
        # Some file systems make inodes as they need them, and say there are none.
        if found.f_files:
            observations["nodefs.inodesFree"] = Observation(found.f_ffree, found.f_files)
        return observations

    def _pids(self) -> Observation | None:
        limits = [self._text(f"proc/sys/kernel/{name}").strip() for name in ("pid_max", "threads-max")]
        known = [int(limit) for limit in limits if limit.isdecimal()]
        tasks = re.search(r" \d+/(\d+) ", self._text("proc/loadavg"))
        if not known or tasks is None:
            return None
        return Observation(min(known) - int(tasks[1]), min(known))

    def _text(self, path: str) -> str:
        try:
            return (self._root / path).read_text()
        except OSError:
            return ""


log = get_logger(__name__)

PERIOD_SECONDS = 10.0


class SignalReader(Protocol):
    """Measures the machine."""

    def read(self) -> Mapping[str, Observation]:
        """How much is left, by signal. May block for a moment; called in a thread."""


class PressureMonitor:
    """Watches one machine; `changed` hears the names of the conditions that hold.

    Without `image_fs` nothing is known of the file system of images; it is one of its own if its device is not
    `node_device`, that of volumes and logs.
    """

    def __init__(
        self,
        *,
        reader: SignalReader,
        changed: Callable[[tuple[str, ...]], None],
        clock: Clock,
        thresholds: Sequence[Threshold] = DEFAULT_THRESHOLDS,
        transition_seconds: float = TRANSITION_SECONDS,
        image_fs: ImageFs | None = None,
        node_device: int | None = None,
    ) -> None:
        self._reader, self._changed, self._clock = reader, changed, clock
        self._thresholds, self._transition_seconds = tuple(thresholds), transition_seconds
        self._image_fs, self._node_device = image_fs, node_device
        self._has_image_fs = False
        self._judgement = PressureState()
        self._observed: Mapping[str, Observation] = {}

    @property
    def judgement(self) -> PressureState:
        """What was concluded last."""
        return self._judgement

    @property
    def has_image_fs(self) -> bool:
        """Whether images have a file system of their own."""
        return self._has_image_fs

    @property
    def shortage(self) -> StarvedResource | None:
        """What pods have to be evicted for, as of the last look; None if for nothing."""
        starved = self._judgement.starved
        if not starved:
            return None
        return StarvedResource(starved=starved, observed=self._observed, has_image_fs=self._has_image_fs)

    async def run(self, ready: asyncio.Event) -> None:
        """Measure until cancelled; `ready` is set after the first time."""
        while True:
            await self.look()
            ready.set()
            await asyncio.sleep(PERIOD_SECONDS)

    async def look(self) -> None:
        """Measure once, and tell what has changed."""
        self._observed = observed = await self._measure()
        before = self._judgement
        self._judgement = next_pressure_state(
            before, self._thresholds, observed, self._clock.monotonic(), self._transition_seconds
        )
        if self._judgement.conditions != before.conditions:
            short = {one.signal: observed[one.signal].available for one in self._judgement.met_since}
            log.warning("pressure on the node changed", conditions=list(self._judgement.conditions), short=short)
            self._changed(self._judgement.conditions)

    async def is_relieved(self) -> bool:
        """Measure once more: whether there is enough of everything again, minimum reclaims included."""
        return not met_thresholds(self._thresholds, await self._measure(), with_reclaim=True)

    async def _measure(self) -> Mapping[str, Observation]:
        return {**await asyncio.to_thread(self._reader.read), **await self._images()}

    async def _images(self) -> Mapping[str, Observation]:
        if self._image_fs is None:
            return {}
        try:
            found = await self._image_fs.image_file_system()
        except RuntimeFailure as failure:
            log.warning("the file system of images is not measured", cause=failure.message)
            return {}
        self._has_image_fs = self._node_device is not None and found.device != self._node_device
        observed = {IMAGE_FS_AVAILABLE: Observation(found.available_bytes, found.capacity_bytes)}
        return observed | ({IMAGE_FS_INODES: Observation(found.inodes_free, found.inodes)} if found.inodes else {})
