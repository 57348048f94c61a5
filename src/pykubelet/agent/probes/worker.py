"""Probes one container for one thing, period after period, until there is nothing left to ask.

In: the pod's status, asked for at each look. Out: results. The decisions are those of `schedule.py`.
Upstream: pkg/kubelet/prober/worker.go
"""

import asyncio
from typing import Protocol

from pykubelet.agent.flow import ProbeVerdict
from pykubelet.agent.probes.counts import ProbeCounts
from pykubelet.agent.probes.results import Results
from pykubelet.agent.probes.schedule import Memory, Step, Subject, conclude, examine, next_tick
from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import PodStatus
from pykubelet.api.keys import PodUid


class PodStatuses(Protocol):
    """Knows the newest status of each pod."""

    def pod_status(self, uid: str, /) -> PodStatus | None:
        """The status of a pod, if there is one yet."""


class Probing(Protocol):
    """Runs a probe."""

    async def probe(self, subject: Subject, status: PodStatus, container_id: str) -> ProbeVerdict | None:
        """What it found; None if it could not be carried out. Takes about as long as the probe's timeout at most."""


class ProbeWorker:
    """One probe of one container."""

    def __init__(
        self,
        *,
        subject: Subject,
        memory: Memory,
        results: Results,
        statuses: PodStatuses,
        prober: Probing,
        counts: ProbeCounts,
        clock: Clock,
        first_delay_seconds: float = 0.0,
    ) -> None:
        self._subject, self._memory, self._results = subject, memory, results
        self._statuses, self._prober, self._counts, self._clock = statuses, prober, counts, clock
        self._first_delay_seconds = first_delay_seconds
        self._wanted_now = asyncio.Event()
        self._uid = PodUid(subject.pod.metadata.uid)

    def trigger(self) -> None:
        """Probe at once instead of at the next tick; the period counts from then."""
        self._wanted_now.set()

    async def run(self) -> None:
        """Probe until it is over. May be run again after a crash; what is remembered stays."""
        loop = asyncio.get_running_loop()
        period_seconds = max(self._subject.probe.period_seconds, 1)
        tick = loop.time() + self._first_delay_seconds
        while True:
            if await self._is_triggered_before(tick):
                tick = loop.time()
            if not await self._look():
                return
            tick = next_tick(tick, loop.time(), period_seconds)

    def forget(self) -> None:
        """Drop the result; the worker is not run any more."""
        self._counts.forget(self._subject)
        if self._memory.container_id:
            self._results.remove(self._memory.container_id)

    async def _is_triggered_before(self, tick: float) -> bool:
        try:
            async with asyncio.timeout_at(tick):
                await self._wanted_now.wait()
        except TimeoutError:
            return False
        self._wanted_now.clear()
        return True

    async def _look(self) -> bool:
        """One look, and one probe if it is time; whether to go on."""
        status = self._statuses.pod_status(self._uid)
        step = self._applied(examine(self._subject, self._memory, status, self._clock.now()))
        if step.should_probe and status is not None:
            began = self._clock.monotonic()
            found = await self._prober.probe(self._subject, status, self._memory.container_id)
            if found is not None:
                self._counts.note(self._subject, found, self._clock.monotonic() - began)
                step = self._applied(conclude(self._subject, self._memory, found))
        return step.keep_going

    def _applied(self, step: Step) -> Step:
        self._memory = step.memory
        if step.forgotten:
            self._results.remove(step.forgotten)
        for result in step.results:
            self._results.set(self._memory.container_id, result, self._uid, self._subject.container.name)
        return step
