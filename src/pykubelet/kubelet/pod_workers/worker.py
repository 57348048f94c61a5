"""The task of one pod: takes up its newest work, syncs it, comes back when it is due.

In: jobs of the machine. Out: outcomes to the machine. A sync never decides on what was seen before the last one ended,
and may be interrupted: the pod is to end now, or sooner than thought. Upstream: podWorkerLoop and completeWork in
pkg/kubelet/pod_workers.go.

How long syncs of pods take, by what was asked for. A collector of metrics.

Upstream: PodWorkerDuration in pkg/kubelet/metrics/metrics.go
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.aio.histogram import Histogram
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.kubelet.pleg.pod_cache import BEGINNING, Moment
from pykubelet.kubelet.pod_workers.state import SyncJob
from pykubelet.kubelet.types import PodStatusFunc, PodWorkerState, SyncPodType
from pykubelet.runtimes.protocol import RuntimeFailure, RuntimePod

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class PodWorkerDurations:
    """The syncs of one node; those that failed or were interrupted count as well."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._took: dict[str, Histogram] = {}

    @contextmanager
    def measuring(self, asked: SyncPodType, state: PodWorkerState) -> Iterator[None]:
        """Measures a sync that goes on while the context lasts."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            operation = "terminated" if state is PodWorkerState.TERMINATED else asked.name.lower()
            self._took.setdefault(operation, Histogram()).observe(self._clock.monotonic() - began)

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for."""
        from prometheus_client.metrics_core import HistogramMetricFamily

        took = HistogramMetricFamily(
            "kubelet_pod_worker_duration_seconds", "How long a sync of a pod took.", labels=("operation_type",)
        )
        for operation, histogram in self._took.items():
            took.add_metric((operation,), buckets=histogram.buckets, sum_value=histogram.sum)
        yield took


log = get_logger(__name__)

FAILED_SYNC = "FailedSync"
# Whoever asks to be called back at once, again and again, must not keep the others from working.
_SOONEST_SECONDS = 0.1


class SyncFailed(Exception):
    """A sync could not be finished. It is tried again, soon if the cause is known to pass."""

    def __init__(self, message: str, *, is_transient: bool = False, retry_in_seconds: float | None = None) -> None:
        super().__init__(message)
        self.is_transient, self.retry_in_seconds = is_transient, retry_in_seconds


class WorkerResult(Struct, frozen=True):
    """How a sync of a running pod went: whether the pod has come to its end, and when to look again at the latest."""

    is_terminal: bool = False
    again_in_seconds: float | None = None


class SyncFunctions(Protocol):
    """What is done for a pod in each state. All may be interrupted and are tried again until they do not raise."""

    async def sync_pod(self, pod: Pod, observed: RuntimePod) -> WorkerResult:
        """Bring a pod closer to what it should be."""

    async def sync_terminating_pod(
        self, pod: Pod, observed: RuntimePod, grace_seconds: int, change_status: PodStatusFunc | None
    ) -> None:
        """Stop everything of a pod; returns when nothing runs any more."""

    async def sync_terminating_runtime_pod(self, running: RuntimePod) -> None:
        """The same for a pod that only the runtime knows."""

    async def sync_terminated_pod(self, pod: Pod, observed: RuntimePod) -> None:
        """Clear up after a pod that was stopped; afterwards nothing is left to do."""


class PodStatusCache(Protocol):
    """Looks at what the runtime has of a pod."""

    async def newer_than(self, uid: PodUid, moment: Moment) -> RuntimePod:
        """What there is of a pod, by a look that began after a moment; RuntimeFailure if that cannot be known."""


class Moments(Protocol):
    """The order of looks and deeds."""

    def moment(self) -> Moment:
        """Now: looks that begin from here on are newer."""


class SyncJobs(Protocol):
    """What a worker takes its work from."""

    def begin(self, uid: PodUid) -> SyncJob | None:
        """The next sync of a pod, if there is one and it may begin."""

    def complete(self, job: SyncJob, *, is_terminal: bool) -> None:
        """A sync went well."""

    def fail(self, job: SyncJob, why: str, again_in_seconds: float) -> None:
        """A sync failed and will be tried again."""

    def ask_again(self, uid: PodUid) -> None:
        """Have a pod synced once more."""

    def is_over(self, uid: PodUid) -> bool:
        """Whether the worker of this pod is no longer needed."""


class WorkerDelays(Struct, frozen=True, kw_only=True):
    """When a worker comes back by itself; upstream's numbers."""

    resync: Backoff = Backoff(first_seconds=60, limit_seconds=60, jitter=0.5)
    failed: Backoff = Backoff(first_seconds=10, limit_seconds=10, jitter=0.5)
    transient: Backoff = Backoff(first_seconds=1, limit_seconds=1, jitter=0.5)


class SyncJobRunner:
    """Runs one job: looks at what the runtime has, then does what the pod's state asks for. Shared by all workers."""

    def __init__(
        self,
        *,
        syncs: SyncFunctions,
        looks: PodStatusCache,
        moments: Moments,
        recorder: EventRecorder,
        durations: PodWorkerDurations,
        delays: WorkerDelays | None = None,
    ) -> None:
        self._syncs, self._looks, self._recorder, self._durations = syncs, looks, recorder, durations
        self.moments, self.delays = moments, delays or WorkerDelays()

    async def run(self, job: SyncJob, last_sync: Moment) -> WorkerResult:
        """Do it. Anything it raises is a failure of this pod's sync."""
        try:
            with self._durations.measuring(job.work.type, job.state):
                return await self._run(job, last_sync)
        except RuntimeFailure as error:
            raise _sync_failed(str(error), error) from error

    async def _run(self, job: SyncJob, last_sync: Moment) -> WorkerResult:
        work = job.work
        if work.running is not None:
            await self._syncs.sync_terminating_runtime_pod(work.running)
            return WorkerResult()
        pod = work.pod
        assert pod is not None
        observed = await self._observed(job.uid, pod, last_sync)
        if job.state is PodWorkerState.SYNC:
            return await self._syncs.sync_pod(pod, observed)
        if job.state is PodWorkerState.TERMINATING:
            await self._syncs.sync_terminating_pod(pod, observed, job.grace_seconds, job.change_status)
        else:
            await self._syncs.sync_terminated_pod(pod, observed)
        return WorkerResult()

    async def _observed(self, uid: PodUid, pod: Pod, last_sync: Moment) -> RuntimePod:
        try:
            return await self._looks.newer_than(uid, last_sync)
        except RuntimeFailure as error:
            message = f"error determining status: {error}"
            self._recorder.event(reference_to(pod), WARNING, FAILED_SYNC, message)
            raise _sync_failed(message, error) from error


def _sync_failed(message: str, cause: RuntimeFailure) -> SyncFailed:
    """A runtime that says when to come again is soon back."""
    return SyncFailed(message, is_transient=cause.retry_at is not None)


class PodWorker:
    """Looks after one pod until nothing is left to do."""

    def __init__(self, uid: PodUid, *, jobs: SyncJobs, runner: SyncJobRunner) -> None:
        self._uid, self._jobs, self._runner = uid, jobs, runner
        self._woken = asyncio.Event()
        self._sync: asyncio.Timeout | None = None
        # Before any sync, whatever was seen of the pod is new enough.
        self._last_sync = BEGINNING

    def wake(self) -> None:
        """There is, or may be, something to do."""
        self._woken.set()

    def interrupt(self) -> None:
        """Give up the sync under way, if any: there is something more urgent."""
        sync, self._sync = self._sync, None
        if sync is not None:
            sync.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Work until the pod is done with."""
        loop = asyncio.get_running_loop()
        due_at = loop.time() + self._runner.delays.failed.delay_seconds(1)
        while not self._jobs.is_over(self._uid):
            self._woken.clear()
            job = self._jobs.begin(self._uid)
            if job is not None:
                due_at = loop.time() + await self._do(job)
                continue
            try:
                async with asyncio.timeout_at(due_at):
                    await self._woken.wait()
            except TimeoutError:
                due_at = loop.time() + self._runner.delays.resync.delay_seconds(1)
                self._jobs.ask_again(self._uid)

    async def _do(self, job: SyncJob) -> float:
        """Run a job; in how many seconds to come back if nobody asks before."""
        delays = self._runner.delays
        self._sync = sync = asyncio.timeout(None)
        try:
            async with sync:
                synced = await self._runner.run(job, self._last_sync)
        except Exception as error:  # noqa: BLE001  whatever goes wrong with one pod stays with that pod
            if sync.expired():
                # Work is waiting: that was the reason.
                return delays.failed.delay_seconds(1)
            return self._failed(job, error)
        finally:
            self._sync = None
            self._last_sync = self._runner.moments.moment()
        self._jobs.complete(job, is_terminal=synced.is_terminal)
        resync = delays.resync.delay_seconds(1)
        return (
            resync if synced.again_in_seconds is None else max(min(resync, synced.again_in_seconds), _SOONEST_SECONDS)
        )

    def _failed(self, job: SyncJob, error: Exception) -> float:
        delay = self._retry_seconds(error)
        if isinstance(error, SyncFailed):
            log.warning("sync of a pod failed", uid=job.uid, state=job.state.name, cause=str(error))
        else:
            log.error("sync of a pod failed", error=error, uid=job.uid, state=job.state.name)
        self._jobs.fail(job, str(error) or type(error).__name__, delay)
        return delay

    def _retry_seconds(self, error: Exception) -> float:
        delays = self._runner.delays
        if not isinstance(error, SyncFailed):
            return delays.failed.delay_seconds(1)
        if error.retry_in_seconds is not None:
            return max(error.retry_in_seconds, _SOONEST_SECONDS)
        return (delays.transient if error.is_transient else delays.failed).delay_seconds(1)
