"""The four syncs of a pod: running, terminating, terminating without a spec, and terminated.

Each sync may be interrupted at any await, and runs again from the start until it succeeds. A sync starts probes before
it generates the first status; upstream does so later, and a container with a probe but no result would count as ready
until then, and turn unready a moment after each start of the kubelet. Failures to start containers show in the status
at once, not at the next sync.

Upstream: pkg/kubelet/kubelet.go, pkg/kubelet/pod_workers.go, pkg/kubelet/active_deadline.go, pkg/kubelet/metrics/metrics.go
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.aio.histogram import Histogram
from pykubelet.api.generated.core import Pod, PodStatus, Secret
from pykubelet.api.pods import PodUid, is_terminal
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.kubelet.kuberuntime.manager import KubeRuntimeManager
from pykubelet.kubelet.kuberuntime.pod_actions import SyncResult, error_text, retry_at
from pykubelet.kubelet.kuberuntime.termination import TerminationMessages, pod_from_runtime
from pykubelet.kubelet.nodestatus.node_status import NodeHealth
from pykubelet.kubelet.objectcache.secret_and_configmap_manager import PodReferences
from pykubelet.kubelet.pleg.pleg import Moment, PodLifecycleEventGenerator
from pykubelet.kubelet.pod.mirror_client import MirrorReconciler
from pykubelet.kubelet.pod_workers.state import SHORTEST_GRACE_SECONDS, SyncJob
from pykubelet.kubelet.prober.prober_manager import ProberManager
from pykubelet.kubelet.status.generate import StatusReporter, deadline_at
from pykubelet.kubelet.types import PodStatusFunc, PodWorkerState, SyncPodType, Trail, WaitStage
from pykubelet.kubelet.volumemanager.volume_manager import VolumeManager
from pykubelet.runtimes.protocol import ContainerState, RuntimeFailure, RuntimePod

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

COMPONENT = "sync"
FAILED_SYNC = "FailedSync"
NETWORK_NOT_READY = "network is not ready"


class SyncFailed(Exception):
    """A sync could not finish and runs again, after `retry_in_seconds` or soon if the cause is transient."""

    def __init__(self, message: str, *, is_transient: bool = False, retry_in_seconds: float | None = None) -> None:
        super().__init__(message)
        self.is_transient, self.retry_in_seconds = is_transient, retry_in_seconds


class WorkerResult(Struct, frozen=True):
    """The result of a sync: whether the pod reached a terminal phase, and when to sync again at the latest."""

    is_terminal: bool = False
    again_in_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnvironment:
    """What a pod needs around its containers: network, referenced objects, mirror pod, volumes, termination messages."""

    health: NodeHealth
    references: PodReferences
    mirrors: MirrorReconciler
    volumes: VolumeManager
    termination_messages: TerminationMessages


class PodSyncer:
    """Runs the four syncs; shared by all workers, keeps nothing between calls."""

    def __init__(
        self,
        *,
        reports: StatusReporter,
        environment: PodEnvironment,
        containers: KubeRuntimeManager,
        probes: ProberManager,
        recorder: EventRecorder,
        trail: Trail,
        clock: Clock,
    ) -> None:
        self._reports, self._statuses = reports, reports.manager
        self._environment, self._containers = environment, containers
        self._probes, self._recorder, self._trail, self._clock = probes, recorder, trail, clock

    async def sync_pod(self, pod: Pod, observed: RuntimePod) -> WorkerResult:
        """Bring a pod closer to its desired state."""
        uid, around = PodUid(pod.metadata.uid), self._environment
        self._probes.add_pod(pod, self._statuses.shown_status(pod))
        observed = await around.termination_messages.fill(pod, observed)
        status = self._reports.generate(pod, observed, is_terminal=False)
        self._statuses.set_pod_status(pod, status)
        if is_terminal(status.phase):
            await self._containers.prune(observed)
            self._trail.note(uid, COMPONENT, "pod has come to its end", phase=status.phase, reason=status.reason)
            return WorkerResult(is_terminal=True)
        self._need_network(pod)
        around.references.register_pod(pod)
        await around.mirrors.reconcile(pod)
        await self._need_directories(pod)
        await self._need_volumes(pod)
        secrets = await self._pull_secrets(pod)
        with self._waiting(pod, WaitStage.START, "containers being started"):
            results = await self._containers.sync_pod(pod, observed, secrets)
        self._reports.note_start_results(uid, results)
        await self._containers.prune(observed)
        if error_text(results):
            await self._report_failures(pod, observed)
        self._raise_for(results)
        # Only the kept status knows when the pod started.
        kept = self._statuses.pod_status(uid) or status
        return WorkerResult(again_in_seconds=deadline_in_seconds(pod, kept, self._clock.now()))

    async def sync_terminating_pod(
        self, pod: Pod, observed: RuntimePod, grace_seconds: int, change_status: PodStatusFunc | None
    ) -> None:
        """Stop everything of a pod, and report how its containers ended while the runtime still shows it."""
        messages = self._environment.termination_messages
        self._environment.volumes.stop_updating(pod)
        self._probes.add_pod(pod, self._statuses.shown_status(pod))
        observed = await messages.fill(pod, observed)
        status = self._reports.generate(pod, observed, is_terminal=False)
        self._statuses.set_pod_status(pod, change_status(status) if change_status is not None else status)
        self._probes.stop_liveness_and_startup(pod)
        with self._waiting(pod, WaitStage.STOP, f"containers being stopped, {grace_seconds} s of grace", grace_seconds):
            await self._kill(pod, observed, grace_seconds)
        self._probes.remove_pod(pod)
        await self._containers.prune(observed)
        stopped = await self._containers.inspect(PodUid(pod.metadata.uid)) or nothing_left_of(observed)
        if running := running_ids(stopped):
            raise SyncFailed(f"detected running containers after a successful KillPod: [{' '.join(running)}]")
        stopped = await messages.fill(pod, with_addresses_of(stopped, observed))
        self._statuses.set_pod_status(pod, self._reports.generate(pod, stopped, is_terminal=True))

    async def sync_terminating_runtime_pod(self, running: RuntimePod) -> None:
        """Stop everything of a pod that only the runtime knows; it has no status to report."""
        await self._kill(None, running, SHORTEST_GRACE_SECONDS)

    async def sync_terminated_pod(self, pod: Pod, observed: RuntimePod) -> None:
        """Clean up after a stopped pod. Garbage collection removes its containers later, so logs stay readable."""
        observed = await self._environment.termination_messages.fill(pod, observed)
        self._statuses.set_pod_status(pod, self._reports.generate(pod, observed, is_terminal=True))
        with self._waiting(pod, WaitStage.UNMOUNT, "volumes being unmounted"):
            await self._environment.volumes.unmount(pod)
        self._environment.references.unregister_pod(pod)
        self._statuses.terminate_pod(pod)

    def _need_network(self, pod: Pod) -> None:
        error = self._environment.health.network_error()
        if error and not pod.spec.host_network:
            message = f"{NETWORK_NOT_READY}: {error}"
            self._warn(pod, "NetworkNotReady", message)
            raise SyncFailed(message, is_transient=True)

    async def _need_directories(self, pod: Pod) -> None:
        try:
            await self._environment.volumes.make_directories(pod)
        except OSError as error:
            self._warn(pod, "Failed", f"error making pod data directories: {error}")
            raise SyncFailed(str(error)) from error

    async def _need_volumes(self, pod: Pod) -> None:
        try:
            with self._waiting(pod, WaitStage.VOLUMES, "volumes"):
                await self._environment.volumes.mount(pod)
        except Exception as error:
            message = f"Unable to attach or mount volumes: {error}"
            self._warn(pod, "FailedMount", message)
            raise SyncFailed(message, retry_in_seconds=getattr(error, "retry_in_seconds", None)) from error

    async def _pull_secrets(self, pod: Pod) -> Sequence[Secret]:
        secrets, missing = await self._environment.references.pull_secrets(pod)
        if missing:
            self._warn(
                pod,
                "FailedToRetrieveImagePullSecret",
                f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
                "attempting to pull the image may not succeed.",
            )
        return secrets

    async def _report_failures(self, pod: Pod, observed: RuntimePod) -> None:
        """Show at once why containers did not start."""
        try:
            found = await self._containers.inspect(PodUid(pod.metadata.uid)) or nothing_left_of(observed)
        except RuntimeFailure:
            # The failure to start says more than the failure to inspect.
            return
        now = await self._environment.termination_messages.fill(pod, found)
        self._statuses.set_pod_status(pod, self._reports.generate(pod, now, is_terminal=False))

    async def _kill(self, pod: Pod | None, observed: RuntimePod, grace_seconds: int) -> None:
        results = await self._containers.kill_pod(pod, observed, grace_seconds=grace_seconds)
        if error := error_text(results):
            self._warn(pod or pod_from_runtime(observed), "FailedKillPod", f"error killing pod: {error}")
            self._raise_for(results)

    def _raise_for(self, results: Sequence[SyncResult]) -> None:
        if error := error_text(results):
            again_at = retry_at(results)
            retry = (again_at - self._clock.now()).total_seconds() if again_at is not None else None
            raise SyncFailed(error, retry_in_seconds=retry)

    def _warn(self, pod: Pod, reason: str, message: str) -> None:
        self._recorder.event(reference_to(pod), WARNING, reason, message)

    @contextmanager
    def _waiting(self, pod: Pod, stage: WaitStage, what: str, seconds: float | None = None) -> Iterator[None]:
        """Record what the pod waits for, for `why`, while the context lasts."""
        uid = PodUid(pod.metadata.uid)
        self._trail.waits(uid, stage, what, seconds)
        try:
            yield
        finally:
            self._trail.waits(uid, stage, "")


def running_ids(observed: RuntimePod) -> tuple[str, ...]:
    return tuple(container.id for container in observed.containers if container.state is ContainerState.RUNNING)


def nothing_left_of(observed: RuntimePod) -> RuntimePod:
    """The same pod without sandboxes and containers."""
    return replace(observed, sandboxes=(), containers=())


def with_addresses_of(stopped: RuntimePod, before: RuntimePod) -> RuntimePod:
    """A stopped pod with the addresses it had while it ran: runtimes drop them, the final status keeps them."""
    known = {sandbox.id: sandbox.ips for sandbox in before.sandboxes}
    kept = tuple(
        sandbox if sandbox.ips else replace(sandbox, ips=known.get(sandbox.id, ())) for sandbox in stopped.sandboxes
    )
    return replace(stopped, sandboxes=kept or tuple(replace(sandbox, is_ready=False) for sandbox in before.sandboxes))


def deadline_in_seconds(pod: Pod, status: PodStatus, now: datetime) -> float | None:
    """How long the pod may still be active; None without activeDeadlineSeconds, or before it has started."""
    ends_at = deadline_at(pod, status)
    return None if ends_at is None else max((ends_at - now).total_seconds(), 0.0)


class PodWorkerDurations:
    """Prometheus collector for the durations of syncs, failed and interrupted ones included."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._histograms: dict[str, Histogram] = {}

    @contextmanager
    def measuring(self, type: SyncPodType, state: PodWorkerState) -> Iterator[None]:
        """Measure the sync that runs while the context lasts."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            operation = "terminated" if state is PodWorkerState.TERMINATED else type.name.lower()
            self._histograms.setdefault(operation, Histogram()).observe(self._clock.monotonic() - began)

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import HistogramMetricFamily

        durations = HistogramMetricFamily(
            "kubelet_pod_worker_duration_seconds", "How long a sync of a pod took.", labels=("operation_type",)
        )
        for operation, histogram in self._histograms.items():
            durations.add_metric((operation,), buckets=histogram.buckets, sum_value=histogram.sum)
        yield durations


class WorkerDelays(Struct, frozen=True, kw_only=True):
    """When a worker syncs again by itself; upstream's values."""

    resync: Backoff = Backoff(first_seconds=60, limit_seconds=60, jitter=0.5)
    failed: Backoff = Backoff(first_seconds=10, limit_seconds=10, jitter=0.5)
    transient: Backoff = Backoff(first_seconds=1, limit_seconds=1, jitter=0.5)


class SyncRunner:
    """Runs one sync: waits for a current pod status, then calls the sync for the worker's state."""

    def __init__(
        self,
        *,
        syncer: PodSyncer,
        pleg: PodLifecycleEventGenerator,
        recorder: EventRecorder,
        durations: PodWorkerDurations,
        delays: WorkerDelays | None = None,
    ) -> None:
        self._syncer, self._pleg, self._recorder, self._durations = syncer, pleg, recorder, durations
        self.cache, self.delays = pleg.cache, delays or WorkerDelays()

    def namesakes(self, pod: Pod) -> tuple[RuntimePod, ...]:
        """What the runtime has of other pods with the pod's name."""
        return self._pleg.namesakes(pod)

    async def run(self, job: SyncJob, last_sync: Moment) -> WorkerResult:
        """Run a sync with a pod status newer than `last_sync`. Whatever it raises is a failure of this pod's sync."""
        try:
            with self._durations.measuring(job.work.type, job.state):
                return await self._run(job, last_sync)
        except RuntimeFailure as error:
            raise _sync_failed(str(error), error) from error

    async def _run(self, job: SyncJob, last_sync: Moment) -> WorkerResult:
        work = job.work
        if work.running is not None:
            await self._syncer.sync_terminating_runtime_pod(work.running)
            return WorkerResult()
        pod = work.pod
        assert pod is not None
        observed = await self._observed(job.uid, pod, last_sync)
        if job.state is PodWorkerState.SYNC:
            return await self._syncer.sync_pod(pod, observed)
        if job.state is PodWorkerState.TERMINATING:
            await self._syncer.sync_terminating_pod(pod, observed, job.grace_seconds, job.change_status)
        else:
            await self._syncer.sync_terminated_pod(pod, observed)
        return WorkerResult()

    async def _observed(self, uid: PodUid, pod: Pod, last_sync: Moment) -> RuntimePod:
        try:
            return await self._pleg.newer_than(uid, last_sync)
        except RuntimeFailure as error:
            message = f"error determining status: {error}"
            self._recorder.event(reference_to(pod), WARNING, FAILED_SYNC, message)
            raise _sync_failed(message, error) from error


def _sync_failed(message: str, cause: RuntimeFailure) -> SyncFailed:
    """A runtime that names a time to retry is expected back soon."""
    return SyncFailed(message, is_transient=cause.retry_at is not None)
