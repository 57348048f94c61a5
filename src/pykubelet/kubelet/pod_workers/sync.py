"""What is done for a pod in each of its states, step by step.

In: a pod and what the runtime has of it. Out: its status, and everything a pod needs set up or taken down, in upstream's
order. Each function may be interrupted at any await and is run again from the start until it succeeds. Upstream:
SyncPod, SyncTerminatingPod, SyncTerminatingRuntimePod and SyncTerminatedPod in pkg/kubelet/kubelet.go.

Small questions about what the runtime has of a pod and what its status says.

Pure. Upstream: preserveDataFromBeforeStopping in pkg/kubelet/kubelet.go, pkg/kubelet/active_deadline.go.

What the syncs of a pod ask of the rest of the node.

Each Protocol is as narrow as its use; `app` passes the real ones. What may take time is async and may be interrupted;
what cannot be done raises, and the sync is tried again. Upstream: the fields of Kubelet that SyncPod and its kind use.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Pod, PodStatus, Secret
from pykubelet.api.pods import PodUid, is_terminal
from pykubelet.api.times import parse_time
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.kubelet.kuberuntime.pod_actions import SyncResult, error_text, retry_at
from pykubelet.kubelet.kuberuntime.termination import pod_from_runtime
from pykubelet.kubelet.pod_workers.state import SHORTEST_GRACE_SECONDS
from pykubelet.kubelet.pod_workers.worker import SyncFailed, WorkerResult
from pykubelet.kubelet.types import PodStatusFunc, Trail, WaitStation
from pykubelet.runtimes.protocol import ContainerState, RuntimeFailure, RuntimePod


class StatusReports(Protocol):
    """Makes the API's status of what the runtime has, and keeps it."""

    def generate(self, pod: Pod, observed: RuntimePod, *, is_terminal: bool) -> PodStatus:
        """The status of a pod; `is_terminal` says that none of its containers will ever be started again."""

    def set_pod_status(self, pod: Pod, status: PodStatus) -> None:
        """The pod's status is this now."""

    def pod_status(self, uid: PodUid) -> PodStatus | None:
        """The status as it was kept."""

    def terminate_pod(self, pod: Pod) -> None:
        """Nothing of the pod is left on this node: its status is final."""


class NetworkReadiness(Protocol):
    """Whether pods can get a network."""

    def network_error(self) -> str:
        """Why not; empty if they can."""


class SyncReferences(Protocol):
    """Keeps the secrets and config maps that a pod refers to at hand. Both are idempotent."""

    def register_pod(self, pod: Pod) -> None:
        """The pod needs them now."""

    def unregister_pod(self, pod: Pod) -> None:
        """The pod needs them no more."""


class SyncCgroups(Protocol):
    """The control groups of pods; OSError if something cannot be done."""

    def exists(self, pod: Pod) -> bool:
        """Whether the pod has one."""

    async def ensure(self, pod: Pod) -> None:
        """Make it, with the pod's limits."""

    async def remove(self, pod: Pod) -> None:
        """Remove it with everything below; nothing happens if there is none."""


class SyncMirrors(Protocol):
    """The mirrors of static pods in the API."""

    async def reconcile(self, pod: Pod) -> None:
        """Have the API show a static pod as it is; other pods have no mirror. Never raises."""


class SyncVolumes(Protocol):
    """A pod's folders and volumes."""

    async def make_directories(self, pod: Pod) -> None:
        """The folders every pod has; OSError if they cannot be made."""

    async def mount(self, pod: Pod) -> None:
        """Returns when every volume is there; raises with a message for people if one does not come."""

    def leave(self, pod: Pod) -> None:
        """Have the volumes stay as they are: the pod ends, and what it was made from may go before it."""

    async def unmount(self, pod: Pod) -> None:
        """Returns when no volume is left, and no path of one."""


class SyncTerminationMessages(Protocol):
    """What ended containers said last."""

    async def fill(self, pod: Pod, observed: RuntimePod) -> RuntimePod:
        """What the runtime has of a pod, with the termination messages of its containers. Never raises."""


class PullSecrets(Protocol):
    """The secrets that image pulls need."""

    async def pull_secrets(self, pod: Pod) -> tuple[Sequence[Secret], Sequence[str]]:
        """Those a pod names that could be had, and the names of those that could not."""


class SyncProbes(Protocol):
    """Probes the containers of pods."""

    def add_pod(self, pod: Pod) -> None:
        """Probe this pod; nothing happens if it is probed already."""

    def stop_liveness_and_startup(self, pod: Pod) -> None:
        """Probe only whether it is ready from now on."""

    def remove_pod(self, pod: Pod) -> None:
        """Probe it no more."""


class SyncContainers(Protocol):
    """The containers of pods."""

    async def sync_pod(self, pod: Pod, observed: RuntimePod, secrets: Sequence[Secret]) -> Sequence[SyncResult]:
        """Go as far as possible towards what the pod should be; what came of each step."""

    async def kill_pod(
        self, pod: Pod | None, observed: RuntimePod, *, grace_seconds: int | None = None
    ) -> Sequence[SyncResult]:
        """End everything that runs of a pod; None is one that only the runtime knows."""

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        """What the runtime has of a pod, as of now."""

    async def prune(self, observed: RuntimePod) -> None:
        """Remove ended containers of which there is a newer one of their name; call it once they were reported."""


class StartFailureReasons(Protocol):
    """Why containers did not start, for their statuses."""

    def update(self, uid: PodUid, results: Sequence[SyncResult]) -> None:
        """What came of the last attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSyncDependencies:
    """What a pod needs around it before its containers can start. Without `cgroups` there are none to see to."""

    network: NetworkReadiness
    references: SyncReferences
    mirrors: SyncMirrors
    storage: SyncVolumes
    pull_secrets: PullSecrets
    last_words: SyncTerminationMessages
    cgroups: SyncCgroups | None = None


def has_running_status(status: PodStatus) -> bool:
    """Whether the status shows a regular container that runs."""
    return any(container.state.running is not None for container in status.container_statuses)


def running_ids(observed: RuntimePod) -> tuple[str, ...]:
    """The containers that run."""
    return tuple(container.id for container in observed.containers if container.state is ContainerState.RUNNING)


def nothing_left_of(observed: RuntimePod) -> RuntimePod:
    """The same pod, of which the runtime has nothing any more."""
    return replace(observed, sandboxes=(), containers=())


def with_addresses_of(stopped: RuntimePod, before: RuntimePod) -> RuntimePod:
    """A stopped pod with the addresses it had while it ran: the runtime forgets them, its status must not."""
    known = {sandbox.id: sandbox.ips for sandbox in before.sandboxes}
    kept = tuple(
        sandbox if sandbox.ips else replace(sandbox, ips=known.get(sandbox.id, ())) for sandbox in stopped.sandboxes
    )
    return replace(stopped, sandboxes=kept or tuple(replace(sandbox, is_ready=False) for sandbox in before.sandboxes))


def deadline_in_seconds(pod: Pod, status: PodStatus, now: datetime) -> float | None:
    """How long the pod may still be active; None if nothing limits it, or it has not started."""
    if pod.spec.active_deadline_seconds is None or status.start_time is None:
        return None
    ends_at = parse_time(status.start_time) + timedelta(seconds=pod.spec.active_deadline_seconds)
    return max((ends_at - now).total_seconds(), 0.0)


STATION = "sync"
NETWORK_NOT_READY = "network is not ready"


class PodSyncer:
    """The four syncs; shared by all workers, keeps nothing between calls."""

    def __init__(
        self,
        *,
        reports: StatusReports,
        surroundings: PodSyncDependencies,
        containers: SyncContainers,
        reasons: StartFailureReasons,
        probes: SyncProbes,
        recorder: EventRecorder,
        trail: Trail,
        clock: Clock,
    ) -> None:
        self._reports, self._around, self._containers, self._reasons = reports, surroundings, containers, reasons
        self._probes, self._recorder, self._trail, self._clock = probes, recorder, trail, clock

    async def sync_pod(self, pod: Pod, observed: RuntimePod) -> WorkerResult:
        """Bring a pod closer to what it should be."""
        uid = PodUid(pod.metadata.uid)
        # Upstream probes later. But a container that has a probe and no verdict yet would count as ready until then, and
        # turn unready a moment after each start of the agent.
        self._probes.add_pod(pod)
        observed = await self._around.last_words.fill(pod, observed)
        status = self._reports.generate(pod, observed, is_terminal=False)
        self._reports.set_pod_status(pod, status)
        if is_terminal(status.phase):
            await self._containers.prune(observed)
            self._trail.note(uid, STATION, "pod has come to its end", phase=status.phase, reason=status.reason)
            return WorkerResult(is_terminal=True)
        self._need_network(pod)
        self._around.references.register_pod(pod)
        await self._need_cgroup(pod, status, observed)
        await self._around.mirrors.reconcile(pod)
        await self._need_directories(pod)
        await self._need_volumes(pod)
        secrets = await self._pull_secrets(pod)
        with self._waiting(pod, WaitStation.START, "containers being started"):
            results = await self._containers.sync_pod(pod, observed, secrets)
        self._reasons.update(uid, results)
        await self._containers.prune(observed)
        if error_text(results):
            await self._report_failures(pod, observed)
        self._raise_for(results)
        # Only the kept status knows when the pod started.
        kept = self._reports.pod_status(uid) or status
        return WorkerResult(again_in_seconds=deadline_in_seconds(pod, kept, self._clock.now()))

    async def sync_terminating_pod(
        self, pod: Pod, observed: RuntimePod, grace_seconds: int, change_status: PodStatusFunc | None
    ) -> None:
        """Stop everything of a pod, and report how its containers ended while that can still be seen."""
        self._around.storage.leave(pod)
        self._probes.add_pod(pod)
        observed = await self._around.last_words.fill(pod, observed)
        status = self._reports.generate(pod, observed, is_terminal=False)
        self._reports.set_pod_status(pod, change_status(status) if change_status is not None else status)
        self._probes.stop_liveness_and_startup(pod)
        with self._waiting(
            pod, WaitStation.STOP, f"containers being stopped, {grace_seconds} s of grace", grace_seconds
        ):
            await self._kill(pod, observed, grace_seconds)
        self._probes.remove_pod(pod)
        await self._containers.prune(observed)
        stopped = await self._containers.inspect(PodUid(pod.metadata.uid)) or nothing_left_of(observed)
        if running := running_ids(stopped):
            raise SyncFailed(f"detected running containers after a successful KillPod: [{' '.join(running)}]")
        stopped = await self._around.last_words.fill(pod, with_addresses_of(stopped, observed))
        final = self._reports.generate(pod, stopped, is_terminal=True)
        self._reports.set_pod_status(pod, final)

    async def sync_terminating_runtime_pod(self, running: RuntimePod) -> None:
        """Stop everything of a pod that only the runtime knows; nobody is there to report to."""
        await self._kill(None, running, SHORTEST_GRACE_SECONDS)

    async def sync_terminated_pod(self, pod: Pod, observed: RuntimePod) -> None:
        """Clear up after a pod that was stopped. Its containers stay until they are collected, so that logs can be read."""
        observed = await self._around.last_words.fill(pod, observed)
        self._reports.set_pod_status(pod, self._reports.generate(pod, observed, is_terminal=True))
        with self._waiting(pod, WaitStation.UNMOUNT, "volumes being unmounted"):
            await self._around.storage.unmount(pod)
        self._around.references.unregister_pod(pod)
        if self._around.cgroups is not None:
            await self._around.cgroups.remove(pod)
        self._reports.terminate_pod(pod)

    def _need_network(self, pod: Pod) -> None:
        error = self._around.network.network_error()
        if error and not pod.spec.host_network:
            message = f"{NETWORK_NOT_READY}: {error}"
            self._warn(pod, "NetworkNotReady", message)
            raise SyncFailed(message, is_transient=True)

    async def _need_cgroup(self, pod: Pod, status: PodStatus, observed: RuntimePod) -> None:
        """Containers that run outside the pod's cgroup are stopped first; a run-once pod does not come back after that."""
        cgroups = self._around.cgroups
        if cgroups is None or cgroups.exists(pod):
            return
        if has_running_status(status):
            results = await self._containers.kill_pod(pod, observed)
            if not error_text(results) and pod.spec.restart_policy == "Never":
                return
        try:
            await cgroups.ensure(pod)
        except OSError as error:
            self._warn(pod, "FailedCreatePodContainer", f"unable to ensure pod container exists: {error}")
            raise SyncFailed(
                f"failed to ensure that the pod: {pod.metadata.uid} cgroups exist and are correctly applied: {error}"
            ) from error

    async def _need_directories(self, pod: Pod) -> None:
        try:
            await self._around.storage.make_directories(pod)
        except OSError as error:
            self._warn(pod, "Failed", f"error making pod data directories: {error}")
            raise SyncFailed(str(error)) from error

    async def _need_volumes(self, pod: Pod) -> None:
        try:
            with self._waiting(pod, WaitStation.VOLUMES, "volumes"):
                await self._around.storage.mount(pod)
        except Exception as error:
            message = f"Unable to attach or mount volumes: {error}"
            self._warn(pod, "FailedMount", message)
            raise SyncFailed(message, retry_in_seconds=getattr(error, "retry_in_seconds", None)) from error

    async def _report_failures(self, pod: Pod, observed: RuntimePod) -> None:
        """Show at once why containers did not start; upstream does at the next sync, when the wait is over."""
        try:
            found = await self._containers.inspect(PodUid(pod.metadata.uid)) or nothing_left_of(observed)
        except RuntimeFailure:
            # What could not be done says more than that nobody can be asked about it.
            return
        now = await self._around.last_words.fill(pod, found)
        self._reports.set_pod_status(pod, self._reports.generate(pod, now, is_terminal=False))

    async def _pull_secrets(self, pod: Pod) -> Sequence[Secret]:
        secrets, missing = await self._around.pull_secrets.pull_secrets(pod)
        if missing:
            self._warn(
                pod,
                "FailedToRetrieveImagePullSecret",
                f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
                "attempting to pull the image may not succeed.",
            )
        return secrets

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
    def _waiting(self, pod: Pod, station: WaitStation, what: str, seconds: float | None = None) -> Iterator[None]:
        """Who asks why nothing happens is told what the pod waits for."""
        uid = PodUid(pod.metadata.uid)
        self._trail.waits(uid, station, what, seconds)
        try:
            yield
        finally:
            self._trail.waits(uid, station, "")
