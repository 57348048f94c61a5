"""Measures the machine every ten seconds and tells which pressures it is under.

In: a reader of signals, and where images are. Out: the conditions that hold, told whenever they change. What is decided is
in `judgement.py`; who is evicted for it, in `evictor.py`.

Upstream: pkg/kubelet/eviction/eviction_manager.go
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pykubelet.agent.pressure.eviction_plan import Shortage
from pykubelet.agent.pressure.judgement import TRANSITION_SECONDS, Judgement, judge
from pykubelet.agent.pressure.thresholds import (
    DEFAULT_THRESHOLDS,
    IMAGE_FS_AVAILABLE,
    IMAGE_FS_INODES,
    Observation,
    Threshold,
    met_thresholds,
)
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.runtime.file_system import ImageFs
from pykubelet.runtime.protocol import RuntimeFailure

log = get_logger(__name__)

PERIOD_SECONDS = 10.0


class SignalReader(Protocol):
    """Measures the machine."""

    def read(self) -> Mapping[str, Observation]:
        """How much is left, by signal. May block for a moment; called in a thread."""


class PressureWatch:
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
        self._judgement = Judgement()
        self._observed: Mapping[str, Observation] = {}

    @property
    def judgement(self) -> Judgement:
        """What was concluded last."""
        return self._judgement

    @property
    def has_image_fs(self) -> bool:
        """Whether images have a file system of their own."""
        return self._has_image_fs

    @property
    def shortage(self) -> Shortage | None:
        """What pods have to be evicted for, as of the last look; None if for nothing."""
        starved = self._judgement.starved
        if not starved:
            return None
        return Shortage(starved=starved, observed=self._observed, has_image_fs=self._has_image_fs)

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
        self._judgement = judge(before, self._thresholds, observed, self._clock.monotonic(), self._transition_seconds)
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
