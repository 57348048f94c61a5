"""What is done for a pod in each of its states, step by step.

In: a pod and what the runtime has of it. Out: its status, and everything a pod needs set up or taken down, in upstream's
order. Each function may be interrupted at any await and is run again from the start until it succeeds. Upstream:
SyncPod, SyncTerminatingPod, SyncTerminatingRuntimePod and SyncTerminatedPod in pkg/kubelet/kubelet.go.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pykubelet.agent.flow import StatusChange, Trail, WaitAt
from pykubelet.agent.workers.collaborators import Containers, Probes, Reasons, StatusReports, Surroundings
from pykubelet.agent.workers.observed import (
    deadline_in_seconds,
    has_running_status,
    nothing_left_of,
    running_ids,
    with_addresses_of,
)
from pykubelet.agent.workers.record import SHORTEST_GRACE_SECONDS
from pykubelet.agent.workers.worker import Synced, SyncFailed
from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Pod, PodStatus, Secret
from pykubelet.api.keys import PodUid
from pykubelet.api.pods import is_terminal
from pykubelet.kube.recorder import WARNING, EventRecorder, reference_to
from pykubelet.runtime.kill import bare_pod
from pykubelet.runtime.protocol import RuntimeFailure, RuntimePod
from pykubelet.runtime.results import StepResult, error_text, retry_at

STATION = "sync"
NETWORK_NOT_READY = "network is not ready"


class PodSyncs:
    """The four syncs; shared by all workers, keeps nothing between calls."""

    def __init__(
        self,
        *,
        reports: StatusReports,
        surroundings: Surroundings,
        containers: Containers,
        reasons: Reasons,
        probes: Probes,
        recorder: EventRecorder,
        trail: Trail,
        clock: Clock,
    ) -> None:
        self._reports, self._around, self._containers, self._reasons = reports, surroundings, containers, reasons
        self._probes, self._recorder, self._trail, self._clock = probes, recorder, trail, clock

    async def sync_pod(self, pod: Pod, observed: RuntimePod) -> Synced:
        """Bring a pod closer to what it should be."""
        uid = PodUid(pod.metadata.uid)
        # Upstream probes later. But a container that has a probe and no verdict yet would count as ready until then, and
        # turn unready a moment after each start of the agent.
        self._probes.add_pod(pod)
        observed = await self._around.last_words.heard(pod, observed)
        status = self._reports.generate(pod, observed, is_terminal=False)
        self._reports.set_pod_status(pod, status)
        if is_terminal(status.phase):
            await self._containers.prune(observed)
            self._trail.note(uid, STATION, "pod has come to its end", phase=status.phase, reason=status.reason)
            return Synced(is_terminal=True)
        self._need_network(pod)
        self._around.references.register_pod(pod)
        await self._need_cgroup(pod, status, observed)
        await self._around.mirrors.reconcile(pod)
        await self._need_directories(pod)
        await self._need_volumes(pod)
        secrets = await self._pull_secrets(pod)
        with self._waiting(pod, WaitAt.START, "containers being started"):
            results = await self._containers.sync_pod(pod, observed, secrets)
        self._reasons.update(uid, results)
        await self._containers.prune(observed)
        if error_text(results):
            await self._report_failures(pod, observed)
        self._raise_for(results)
        # Only the kept status knows when the pod started.
        kept = self._reports.pod_status(uid) or status
        return Synced(again_in_seconds=deadline_in_seconds(pod, kept, self._clock.now()))

    async def sync_terminating_pod(
        self, pod: Pod, observed: RuntimePod, grace_seconds: int, change_status: StatusChange | None
    ) -> None:
        """Stop everything of a pod, and report how its containers ended while that can still be seen."""
        self._around.storage.leave(pod)
        self._probes.add_pod(pod)
        observed = await self._around.last_words.heard(pod, observed)
        status = self._reports.generate(pod, observed, is_terminal=False)
        self._reports.set_pod_status(pod, change_status(status) if change_status is not None else status)
        self._probes.stop_liveness_and_startup(pod)
        with self._waiting(pod, WaitAt.STOP, f"containers being stopped, {grace_seconds} s of grace", grace_seconds):
            await self._kill(pod, observed, grace_seconds)
        self._probes.remove_pod(pod)
        await self._containers.prune(observed)
        stopped = await self._containers.inspect(PodUid(pod.metadata.uid)) or nothing_left_of(observed)
        if running := running_ids(stopped):
            raise SyncFailed(f"detected running containers after a successful KillPod: [{' '.join(running)}]")
        stopped = await self._around.last_words.heard(pod, with_addresses_of(stopped, observed))
        final = self._reports.generate(pod, stopped, is_terminal=True)
        self._reports.set_pod_status(pod, final)

    async def sync_terminating_runtime_pod(self, running: RuntimePod) -> None:
        """Stop everything of a pod that only the runtime knows; nobody is there to report to."""
        await self._kill(None, running, SHORTEST_GRACE_SECONDS)

    async def sync_terminated_pod(self, pod: Pod, observed: RuntimePod) -> None:
        """Clear up after a pod that was stopped. Its containers stay until they are collected, so that logs can be read."""
        observed = await self._around.last_words.heard(pod, observed)
        self._reports.set_pod_status(pod, self._reports.generate(pod, observed, is_terminal=True))
        with self._waiting(pod, WaitAt.UNMOUNT, "volumes being unmounted"):
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
            with self._waiting(pod, WaitAt.VOLUMES, "volumes"):
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
        now = await self._around.last_words.heard(pod, found)
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
            self._warn(pod or bare_pod(observed), "FailedKillPod", f"error killing pod: {error}")
            self._raise_for(results)

    def _raise_for(self, results: Sequence[StepResult]) -> None:
        if error := error_text(results):
            again_at = retry_at(results)
            retry = (again_at - self._clock.now()).total_seconds() if again_at is not None else None
            raise SyncFailed(error, retry_in_seconds=retry)

    def _warn(self, pod: Pod, reason: str, message: str) -> None:
        self._recorder.event(reference_to(pod), WARNING, reason, message)

    @contextmanager
    def _waiting(self, pod: Pod, station: WaitAt, what: str, seconds: float | None = None) -> Iterator[None]:
        """Who asks why nothing happens is told what the pod waits for."""
        uid = PodUid(pod.metadata.uid)
        self._trail.waits(uid, station, what, seconds)
        try:
            yield
        finally:
            self._trail.waits(uid, station, "")
