"""Manages the probe workers: one task for each probe of each container.

A hung probe affects only its own worker. `with_results` sets `started` and `ready` in a pod's status; changed results are
passed to `changed`.

Upstream: pkg/kubelet/prober/prober_manager.go
"""

import asyncio
from collections.abc import Callable, Collection, Container, Iterable, Mapping

from msgspec.structs import replace

from pykubelet.aio.backoff import Random, system_random
from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import Container as ApiContainer
from pykubelet.api.generated.core import ContainerStatus, Pod, PodStatus
from pykubelet.api.pods import PodUid, is_restartable_init_container
from pykubelet.kubelet.prober.prober import Prober
from pykubelet.kubelet.prober.results import ProbeCounts, ProbedContainer, ResultsManager
from pykubelet.kubelet.prober.worker import ProbeWorker, first_delay_seconds, initial_record, probe_of
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import ProbeOutcome, ProbeResult, ProbeType

_Key = tuple[str, ProbeType]

_ENDING = (ProbeType.LIVENESS, ProbeType.STARTUP)


class PodProbeResults:
    """The current probe results of one pod."""

    def __init__(self, results: Mapping[ProbeType, ResultsManager], workers: Collection[_Key]) -> None:
        self._results, self._workers = results, workers

    def result(self, kind: ProbeType, container_id: str) -> ProbeOutcome | None:
        """The result of a container's probe; None if there is none yet."""
        return self._results[kind].get(container_id)

    def is_probed(self, kind: ProbeType, container_name: str) -> bool:
        """Whether the container has such a probe."""
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
    return replace(status, container_statuses=regular, init_container_statuses=init), urgent


def _probed(status: ContainerStatus, results: PodProbeResults) -> ContainerStatus:
    if not _has_started(status, results):
        return replace(status, started=False)
    has_passed = results.result(ProbeType.READINESS, status.container_id) == ProbeOutcome.SUCCESS
    return replace(status, started=True, ready=has_passed or not results.is_probed(ProbeType.READINESS, status.name))


def _plain_init(status: ContainerStatus, results: PodProbeResults) -> ContainerStatus:
    terminated = status.state.terminated
    is_done = terminated is not None and terminated.exit_code == 0
    return replace(status, started=_has_started(status, results), ready=status.ready or is_done)


def _has_started(status: ContainerStatus, results: PodProbeResults) -> bool:
    if status.state.running is None:
        return False
    result = results.result(ProbeType.STARTUP, status.container_id)
    if result is not None:
        return result == ProbeOutcome.SUCCESS
    return not results.is_probed(ProbeType.STARTUP, status.name)


class _Running:
    """A worker and its task, which exists while the manager runs."""

    def __init__(self, worker: ProbeWorker) -> None:
        self.worker = worker
        self.task: asyncio.Task[None] | None = None


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
        self._pods: dict[PodUid, dict[_Key, _Running]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._started_at = clock.monotonic()

    async def run(self, ready: asyncio.Event) -> None:
        """Run the probe workers until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for uid, workers in self._pods.items():
                    for key, running in workers.items():
                        self._start(uid, key, running)
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
        workers: dict[_Key, _Running] = {}
        for container in _probed_containers(pod):
            for kind in ProbeType:
                if (worker := self._worker(pod, container, kind, shown or pod.status)) is not None:
                    workers[container.name, kind] = _Running(worker)
        if workers:
            self._pods[uid] = workers
            for key, running in workers.items():
                self._start(uid, key, running)

    def stop_liveness_and_startup(self, pod: Pod) -> None:
        """Stop the probes that could restart containers of a terminating pod. Readiness probes continue."""
        regular = [container.name for container in pod.spec.containers]
        self._stop(PodUid(pod.metadata.uid), [(name, kind) for name in regular for kind in _ENDING])

    def remove_pod(self, pod: Pod) -> None:
        """Stop all probes of a pod and drop their results."""
        self._forget(PodUid(pod.metadata.uid))

    def clean_up(self, keep: Container[PodUid]) -> None:
        """Drop every pod that is not in `keep`."""
        for uid in [uid for uid in self._pods if uid not in keep]:
            self._forget(uid)

    def with_results(self, pod: Pod, status: PodStatus) -> PodStatus:
        """Set `started` and `ready` of each container, and trigger readiness probes that are waited for."""
        workers = self._pods.get(PodUid(pod.metadata.uid), {})
        result, urgent = with_probe_results(pod, status, PodProbeResults(self._results, workers))
        for name in urgent:
            workers[name, ProbeType.READINESS].worker.trigger()
        return result

    def passed(self, kind: ProbeType) -> Mapping[str, bool]:
        """Whether each container passed, by its ID at the runtime; a live view without unknown results."""
        return self._results[kind].passed

    def __len__(self) -> int:
        """The number of running probes."""
        return sum(map(len, self._pods.values()))

    def _worker(self, pod: Pod, container: ApiContainer, kind: ProbeType, shown: PodStatus) -> ProbeWorker | None:
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

    def _start(self, uid: PodUid, key: _Key, running: _Running) -> None:
        if self._group is None:
            return

        async def run() -> None:
            await running.worker.run()
            self._end(uid, key, running)

        running.task = start_supervised(self._group, f"{key[1]} probe of {uid} {key[0]}", run)

    def _end(self, uid: PodUid, key: _Key, running: _Running) -> None:
        """The worker of a probe has finished."""
        running.task = None
        if self._pods.get(uid, {}).get(key) is running:
            self._stop(uid, [key])

    def _forget(self, uid: PodUid) -> None:
        self._stop(uid, tuple(self._pods.get(uid, {})))

    def _stop(self, uid: PodUid, keys: Iterable[_Key]) -> None:
        workers = self._pods.get(uid, {})
        for key in keys:
            running = workers.pop(key, None)
            if running is not None:
                if running.task is not None:
                    running.task.cancel()
                running.worker.forget()
        if not workers:
            self._pods.pop(uid, None)


def _probed_containers(pod: Pod) -> Iterable[ApiContainer]:
    """Regular containers and sidecars; other init containers run to completion and have no probes."""
    yield from pod.spec.containers
    yield from (container for container in pod.spec.init_containers if is_restartable_init_container(container))
