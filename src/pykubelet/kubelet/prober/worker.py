"""Probes one container with one probe, period after period, until nothing is left to probe.

`examine` and `conclude` decide: whether to probe now, which results to set, and whether to go on. Other than upstream, a
container that the API showed as ready or started before this kubelet started stays so until its probe fails.

Upstream: pkg/kubelet/prober/worker.go
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Container, ContainerStatus, PodStatus, Probe
from pykubelet.api.pods import PodUid, is_restartable_init_container, is_terminal
from pykubelet.api.times import parse_time
from pykubelet.kubelet.prober.prober import Prober
from pykubelet.kubelet.prober.results import ProbeCounts, ProbedContainer, ResultsManager
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import ProbeOutcome, ProbeType

INITIAL_RESULTS = {
    ProbeType.LIVENESS: ProbeOutcome.SUCCESS,
    ProbeType.READINESS: ProbeOutcome.FAILURE,
    ProbeType.STARTUP: ProbeOutcome.UNKNOWN,
}
"""The result of a new container until its first probe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRecord:
    """The state between two iterations; `run` counts consecutive outcomes equal to `last`."""

    container_id: str = ""
    last: ProbeOutcome = ProbeOutcome.SUCCESS
    run: int = 0
    is_on_hold: bool = False
    """Nothing is probed until the container is replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStep:
    """The result of one iteration: drop the result of `forgotten`, then set `results` for the current container."""

    record: ProbeRecord
    keep_going: bool = True
    should_probe: bool = False
    forgotten: str = ""
    results: tuple[ProbeOutcome, ...] = ()


def probe_of(container: Container, kind: ProbeType) -> Probe | None:
    """The probe of this type of a container."""
    if kind == ProbeType.LIVENESS:
        return container.liveness_probe
    return container.readiness_probe if kind == ProbeType.READINESS else container.startup_probe


def examine(probed: ProbedContainer, record: ProbeRecord, status: PodStatus | None, now: datetime) -> ProbeStep:
    """Evaluate the pod's status before probing."""
    if status is None:
        return ProbeStep(record=record)
    if is_terminal(status.phase):
        return ProbeStep(record=record, keep_going=False)
    container = _status_with_id(status, probed.container.name)
    if container is None:
        return ProbeStep(record=record)
    if container.container_id == record.container_id:
        step = ProbeStep(record=record)
    else:
        known = replace(record, container_id=container.container_id, is_on_hold=False)
        step = ProbeStep(record=known, forgotten=record.container_id, results=(INITIAL_RESULTS[probed.kind],))
    return step if step.record.is_on_hold else _examine_container(probed, step, container, now)


def conclude(probed: ProbedContainer, record: ProbeRecord, found: ProbeOutcome) -> ProbeStep:
    """Apply an outcome: the result changes only after enough equal outcomes in a row."""
    record = replace(record, last=found, run=record.run + 1 if found == record.last else 1)
    is_failure = found == ProbeOutcome.FAILURE
    threshold = probed.probe.failure_threshold if is_failure else probed.probe.success_threshold
    if record.run < threshold:
        return ProbeStep(record=record)
    if probed.kind == ProbeType.STARTUP or (probed.kind == ProbeType.LIVENESS and is_failure):
        # The container will be restarted, or has started for good: this probe is done with it.
        record = replace(record, is_on_hold=True, run=0)
    return ProbeStep(record=record, results=(found,))


def initial_record(name: str, kind: ProbeType, shown: PodStatus) -> tuple[ProbeRecord, ProbeOutcome | None]:
    """The initial state, and the result to start from if the API shows that the probe has succeeded before."""
    container = _status_with_id(shown, name)
    if container is None or container.state.running is None or kind == ProbeType.LIVENESS:
        return ProbeRecord(), None
    has_passed = container.ready if kind == ProbeType.READINESS else container.started
    return (
        (ProbeRecord(container_id=container.container_id), ProbeOutcome.SUCCESS)
        if has_passed
        else (ProbeRecord(), None)
    )


def first_delay_seconds(period_seconds: float, kubelet_age_seconds: float, random: float) -> float:
    """The delay before the first probe; random if the kubelet has only just started, to spread the load."""
    return random * period_seconds if period_seconds > kubelet_age_seconds else 0.0


def next_tick(last: float, now: float, period_seconds: float) -> float:
    """The time of the tick after `last`; of several missed ticks one is made up for."""
    return last + max(int((now - last) // period_seconds), 1) * period_seconds


def _status_with_id(status: PodStatus, name: str) -> ContainerStatus | None:
    """The status of a created container; regular containers come first."""
    return _find(status.container_statuses, name) or _find(status.init_container_statuses, name)


def _find(statuses: Iterable[ContainerStatus], name: str) -> ContainerStatus | None:
    found = next((status for status in statuses if status.name == name), None)
    return found if found is not None and found.container_id else None


def _examine_container(
    probed: ProbedContainer, step: ProbeStep, container: ContainerStatus, now: datetime
) -> ProbeStep:
    running = container.state.running
    if running is None:
        has_ended = container.state.terminated is not None and not _may_restart(probed)
        return replace(step, keep_going=not has_ended, results=(*step.results, ProbeOutcome.FAILURE))
    is_readiness = probed.kind == ProbeType.READINESS
    if probed.pod.metadata.deletion_timestamp is not None and not is_readiness:
        # A final success, so that a terminating container is not restarted.
        return replace(step, keep_going=False, results=(*step.results, ProbeOutcome.SUCCESS))
    if running.started_at is not None and _whole_seconds(running.started_at, now) < probed.probe.initial_delay_seconds:
        return step
    is_startup = probed.kind == ProbeType.STARTUP
    # A startup probe runs until the container has started, the others from then on.
    return replace(step, should_probe=is_startup != bool(container.started))


def _may_restart(probed: ProbedContainer) -> bool:
    pod, container = probed.pod, probed.container
    if pod.spec.restart_policy != "Never":
        return True
    is_init = any(init.name == container.name for init in pod.spec.init_containers)
    return is_init and is_restartable_init_container(container)


def _whole_seconds(since: str, now: datetime) -> int:
    return int((now - parse_time(since)).total_seconds())


class ProbeWorker:
    """Runs one probe of one container."""

    def __init__(
        self,
        *,
        probed: ProbedContainer,
        record: ProbeRecord,
        results: ResultsManager,
        statuses: StatusManager,
        prober: Prober,
        counts: ProbeCounts,
        clock: Clock,
        first_delay_seconds: float = 0.0,
    ) -> None:
        self._probed, self._record, self._results = probed, record, results
        self._statuses, self._prober, self._counts, self._clock = statuses, prober, counts, clock
        self._first_delay_seconds = first_delay_seconds
        self._triggered = asyncio.Event()
        self._uid = PodUid(probed.pod.metadata.uid)

    def trigger(self) -> None:
        """Probe at once; the next period starts then."""
        self._triggered.set()

    async def run(self) -> None:
        """Probe until finished. May be called again after a crash; the state is kept."""
        loop = asyncio.get_running_loop()
        period_seconds = max(self._probed.probe.period_seconds, 1)
        tick = loop.time() + self._first_delay_seconds
        while True:
            if await self._is_triggered_before(tick):
                tick = loop.time()
            if not await self._iterate():
                return
            tick = next_tick(tick, loop.time(), period_seconds)

    def forget(self) -> None:
        """Drop the result of a worker that no longer runs."""
        self._counts.forget(self._probed)
        if self._record.container_id:
            self._results.remove(self._record.container_id)

    async def _is_triggered_before(self, tick: float) -> bool:
        try:
            async with asyncio.timeout_at(tick):
                await self._triggered.wait()
        except TimeoutError:
            return False
        self._triggered.clear()
        return True

    async def _iterate(self) -> bool:
        """Run one iteration; return whether to continue."""
        status = self._statuses.pod_status(self._uid)
        step = self._applied(examine(self._probed, self._record, status, self._clock.now()))
        if step.should_probe and status is not None:
            began = self._clock.monotonic()
            found = await self._prober.probe(self._probed, status, self._record.container_id)
            if found is not None:
                self._counts.note(self._probed, found, self._clock.monotonic() - began)
                step = self._applied(conclude(self._probed, self._record, found))
        return step.keep_going

    def _applied(self, step: ProbeStep) -> ProbeStep:
        self._record = step.record
        if step.forgotten:
            self._results.remove(step.forgotten)
        for result in step.results:
            self._results.set(self._record.container_id, result, self._uid, self._probed.container.name)
        return step
