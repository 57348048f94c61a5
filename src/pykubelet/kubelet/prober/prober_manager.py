"""Probes the containers of pods: one worker task for each probe of each container.

A hung probe affects only its own worker. `with_results` sets `started` and `ready` in a pod's status; changed results
are passed to `changed`. `examine` and `conclude` decide whether a worker probes now, which result it sets, and whether
it goes on. Other than upstream, a container that the API showed as ready or started before this kubelet started stays
so until its probe fails.

Upstream: pkg/kubelet/prober/prober_manager.go, pkg/kubelet/prober/worker.go
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from msgspec import structs

from pykubelet.aio.backoff import Random, system_random
from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import Container, ContainerStatus, Pod, PodStatus, Probe
from pykubelet.api.pods import PodUid, is_restartable_init_container, is_terminal
from pykubelet.api.times import parse_time
from pykubelet.kubelet.prober.prober import Prober
from pykubelet.kubelet.prober.results import ProbeCounts, ProbedContainer, ResultsManager
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import ProbeOutcome, ProbeResult, ProbeType

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
    if not (container.ready if kind == ProbeType.READINESS else container.started):
        return ProbeRecord(), None
    return ProbeRecord(container_id=container.container_id), ProbeOutcome.SUCCESS


def first_delay_seconds(period_seconds: float, kubelet_age_seconds: float, random: float) -> float:
    """The delay before the first probe; random if the kubelet has only just started, to spread the load."""
    return random * period_seconds if period_seconds > kubelet_age_seconds else 0.0


def next_tick(last: float, now: float, period_seconds: float) -> float:
    """The time of the tick after `last`; of several missed ticks one is made up for."""
    return last + max(int((now - last) // period_seconds), 1) * period_seconds


def _status_with_id(status: PodStatus, name: str) -> ContainerStatus | None:
    """The status of a created container; regular containers come first."""
    statuses = (*status.container_statuses, *status.init_container_statuses)
    return next((one for one in statuses if one.name == name and one.container_id), None)


def _examine_container(
    probed: ProbedContainer, step: ProbeStep, container: ContainerStatus, now: datetime
) -> ProbeStep:
    running = container.state.running
    if running is None:
        has_ended = container.state.terminated is not None and not _may_restart(probed)
        return replace(step, keep_going=not has_ended, results=(*step.results, ProbeOutcome.FAILURE))
    if probed.pod.metadata.deletion_timestamp is not None and probed.kind != ProbeType.READINESS:
        # A final success, so that a terminating container is not restarted.
        return replace(step, keep_going=False, results=(*step.results, ProbeOutcome.SUCCESS))
    if running.started_at is not None:
        age_seconds = int((now - parse_time(running.started_at)).total_seconds())
        # A start further in the future than the delay is from before the clock was set back.
        if abs(age_seconds) < probed.probe.initial_delay_seconds:
            return step
    # A startup probe runs until the container has started, the others from then on.
    return replace(step, should_probe=(probed.kind == ProbeType.STARTUP) != bool(container.started))


def _may_restart(probed: ProbedContainer) -> bool:
    pod, container = probed.pod, probed.container
    if pod.spec.restart_policy != "Never":
        return True
    is_init = any(init.name == container.name for init in pod.spec.init_containers)
    return is_init and is_restartable_init_container(container)


class ProbeWorker:
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
        self.task: asyncio.Task[None] | None = None
        """The task of `run`, while the manager runs."""
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


_Key = tuple[str, ProbeType]


class PodProbeResults:
    def __init__(self, results: Mapping[ProbeType, ResultsManager], workers: Collection[_Key]) -> None:
        self._results, self._workers = results, workers

    def result(self, kind: ProbeType, container_id: str) -> ProbeOutcome | None:
        """The result of a container's probe; None if there is none yet."""
        return self._results[kind].get(container_id)

    def is_probed(self, kind: ProbeType, container_name: str) -> bool:
        return (container_name, kind) in self._workers


def with_probe_results(pod: Pod, status: PodStatus, results: PodProbeResults) -> tuple[PodStatus, tuple[str, ...]]:
    """The status with `started` and `ready`, and the names of containers whose readiness probe should run at once."""
    sidecars = {container.name for container in pod.spec.init_containers if is_restartable_init_container(container)}
    regular = tuple(_probed(one, results) for one in status.container_statuses)
    init = tuple(
        _probed(one, results) if one.name in sidecars else _plain_init(one, results)
        for one in status.init_container_statuses
    )
    ended = {container.name for container in pod.spec.init_containers} - sidecars
    urgent = tuple(
        one.name
        for one in (*regular, *init)
        if one.name not in ended
        and one.started
        and not one.ready
        and one.state.running is not None
        and results.is_probed(ProbeType.READINESS, one.name)
    )
    return structs.replace(status, container_statuses=regular, init_container_statuses=init), urgent


def _probed(status: ContainerStatus, results: PodProbeResults) -> ContainerStatus:
    if not _has_started(status, results):
        return structs.replace(status, started=False)
    has_passed = results.result(ProbeType.READINESS, status.container_id) == ProbeOutcome.SUCCESS
    return structs.replace(
        status, started=True, ready=has_passed or not results.is_probed(ProbeType.READINESS, status.name)
    )


def _plain_init(status: ContainerStatus, results: PodProbeResults) -> ContainerStatus:
    terminated = status.state.terminated
    is_done = terminated is not None and terminated.exit_code == 0
    return structs.replace(status, started=_has_started(status, results), ready=status.ready or is_done)


def _has_started(status: ContainerStatus, results: PodProbeResults) -> bool:
    if status.state.running is None:
        return False
    result = results.result(ProbeType.STARTUP, status.container_id)
    if result is not None:
        return result == ProbeOutcome.SUCCESS
    return not results.is_probed(ProbeType.STARTUP, status.name)


class ProberManager:
    """The probes of this node's pods. Only `run` blocks."""

    def __init__(
        self,
        *,
        statuses: StatusManager,
        prober: Prober,
        changed: Callable[[ProbeResult], None],
        clock: Clock,
        rand: Random = system_random,
    ) -> None:
        self._statuses, self._prober, self._clock, self._rand = statuses, prober, clock, rand
        self.counts = ProbeCounts()
        """Metrics of all probes."""
        self._results = {kind: ResultsManager(kind, changed) for kind in ProbeType}
        self._pods: dict[PodUid, dict[_Key, ProbeWorker]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._started_at = clock.monotonic()

    async def run(self, ready: asyncio.Event) -> None:
        """Run the probe workers until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for uid, workers in self._pods.items():
                    for key, worker in workers.items():
                        self._start(uid, key, worker)
                ready.set()
                # Keeps the task group open even without workers.
                await asyncio.Event().wait()
        finally:
            self._group = None
            await self._prober.close()

    def add_pod(self, pod: Pod, shown: PodStatus | None = None) -> None:
        """Start probing a pod's containers; does nothing for a known pod.

        `shown` is the pod's status in the API, by default its own (for a static pod, pass the mirror's): a container that was
        ready or started before the kubelet started stays so.
        """
        uid = PodUid(pod.metadata.uid)
        if uid in self._pods:
            return
        workers: dict[_Key, ProbeWorker] = {}
        for container in _probed_containers(pod):
            for kind in ProbeType:
                if (worker := self._worker(pod, container, kind, shown or pod.status)) is not None:
                    workers[container.name, kind] = worker
        if workers:
            self._pods[uid] = workers
            for key, worker in workers.items():
                self._start(uid, key, worker)

    def stop_liveness_and_startup(self, pod: Pod) -> None:
        """Stop the probes that could restart containers of a terminating pod. Readiness probes continue."""
        kinds = (ProbeType.LIVENESS, ProbeType.STARTUP)
        self._stop(PodUid(pod.metadata.uid), [(one.name, kind) for one in pod.spec.containers for kind in kinds])

    def remove_pod(self, pod: Pod) -> None:
        """Stop all probes of a pod and drop their results."""
        uid = PodUid(pod.metadata.uid)
        self._stop(uid, tuple(self._pods.get(uid, {})))

    def clean_up(self, keep: Collection[PodUid]) -> None:
        """Drop every pod that is not in `keep`."""
        for uid in [uid for uid in self._pods if uid not in keep]:
            self._stop(uid, tuple(self._pods[uid]))

    def with_results(self, pod: Pod, status: PodStatus) -> PodStatus:
        """Set `started` and `ready` of each container, and trigger readiness probes that are waited for."""
        workers = self._pods.get(PodUid(pod.metadata.uid), {})
        result, urgent = with_probe_results(pod, status, PodProbeResults(self._results, workers))
        for name in urgent:
            workers[name, ProbeType.READINESS].trigger()
        return result

    def passed(self, kind: ProbeType) -> Mapping[str, bool]:
        """Whether each container passed, by its ID at the runtime; a live view without unknown results."""
        return self._results[kind].passed

    def __len__(self) -> int:
        return sum(map(len, self._pods.values()))

    def _worker(self, pod: Pod, container: Container, kind: ProbeType, shown: PodStatus) -> ProbeWorker | None:
        probe = probe_of(container, kind)
        if probe is None:
            return None
        record, verdict = initial_record(container.name, kind, shown)
        if verdict is not None:
            self._results[kind].put_silently(record.container_id, verdict)
        age_seconds = self._clock.monotonic() - self._started_at
        return ProbeWorker(
            probed=ProbedContainer(pod=pod, container=container, kind=kind, probe=probe),
            record=record,
            results=self._results[kind],
            statuses=self._statuses,
            prober=self._prober,
            counts=self.counts,
            clock=self._clock,
            first_delay_seconds=first_delay_seconds(probe.period_seconds, age_seconds, self._rand()),
        )

    def _start(self, uid: PodUid, key: _Key, worker: ProbeWorker) -> None:
        if self._group is None:
            return

        async def run() -> None:
            await worker.run()
            worker.task = None
            if self._pods.get(uid, {}).get(key) is worker:
                self._stop(uid, [key])

        worker.task = start_supervised(self._group, f"{key[1]} probe of {uid} {key[0]}", run)

    def _stop(self, uid: PodUid, keys: Iterable[_Key]) -> None:
        workers = self._pods.get(uid, {})
        for key in keys:
            if (worker := workers.pop(key, None)) is not None:
                if worker.task is not None:
                    worker.task.cancel()
                worker.forget()
        if not workers:
            self._pods.pop(uid, None)


def _probed_containers(pod: Pod) -> Iterable[Container]:
    """Regular containers and sidecars; other init containers run to completion and have no probes."""
    yield from pod.spec.containers
    yield from (container for container in pod.spec.init_containers if is_restartable_init_container(container))
