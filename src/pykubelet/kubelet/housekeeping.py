"""Cleans up after pods: at once after each pod that ended, and periodically for all.

A cleanup reads desired pods, workers and runtime without waiting in between and decides from that one snapshot. What
takes time comes last and checks again before it removes anything. Upstream cleans up every two seconds; here cleanup
runs only while something may be left, and once a minute otherwise.

Upstream: pkg/kubelet/kubelet_pods.go
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid, is_terminal, pod_label
from pykubelet.kubelet.lifecycle.admission import PodAdmission
from pykubelet.kubelet.pod.mirror_client import MirrorReconciler
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.pod_workers.pod_workers import ORPHAN_KILL, PodWorkers
from pykubelet.kubelet.pod_workers.state import is_active, is_running
from pykubelet.kubelet.prober.prober_manager import ProberManager
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import PodWorkerState, SyncPodType, Trail, UpdatePodOptions
from pykubelet.runtimes.protocol import Runtime, RuntimeFailure, RuntimePod

log = get_logger(__name__)

COMPONENT = "housekeeping"
_MAY_RUN = (PodWorkerState.SYNC, PodWorkerState.TERMINATING)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupInputs:
    """A snapshot of the node. `workers` are those left after workers of undesired pods began to terminate.

    `phase_of` returns the phase that this node reports for a pod, empty if it reports none; `is_held` says that a pod
    waits for preemption and therefore has no worker.
    """

    pods: Sequence[Pod]
    workers: Mapping[PodUid, PodWorkerState]
    runtime: Sequence[RuntimePod]
    phase_of: Callable[[PodUid], str]
    is_held: Callable[[PodUid], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """Pods to restart, finish and kill. The sets name what to keep; everything else of its kind is removed."""

    restart: tuple[Pod, ...]
    finish: tuple[Pod, ...]
    kill: tuple[RuntimePod, ...]
    probed: frozenset[PodUid]
    desired: frozenset[PodUid]
    running: frozenset[PodUid]
    leftovers: int
    """The number of workers of pods that are no longer desired."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing was left to do."""
        return not (self.restart or self.finish or self.kill or self.leftovers)


def plan_cleanup(reading: CleanupInputs) -> CleanupPlan:
    """Decide what to clean up.

    A desired pod without a worker restarts: its UID was used before, and its earlier worker has been forgotten. A
    rejected pod that is deleted has no worker either, and needs one to finish. Running pods without an owner are killed.
    """
    workers, phase_of = reading.workers, reading.phase_of
    desired = {PodUid(pod.metadata.uid): pod for pod in reading.pods}
    unknown = {uid: pod for uid, pod in desired.items() if uid not in workers and not reading.is_held(uid)}
    running = {pod.uid: pod for pod in reading.runtime if is_running(pod)}
    restart = {uid: pod for uid, pod in unknown.items() if is_active(pod, None, phase_of(uid))}
    deleted = {uid: pod for uid, pod in unknown.items() if pod.metadata.deletion_timestamp is not None}
    return CleanupPlan(
        restart=tuple(restart.values()),
        finish=tuple(pod for uid, pod in deleted.items() if is_terminal(pod.status.phase) and uid not in running),
        kill=tuple(pod for uid, pod in running.items() if uid not in workers and uid not in restart),
        probed=frozenset(uid for uid, state in workers.items() if state in _MAY_RUN),
        desired=frozenset(desired),
        running=frozenset(running),
        leftovers=sum(uid not in desired for uid in workers),
    )


class OrphanRemover(Protocol):
    """Something kept per pod: directories, awaited objects, back-offs."""

    async def remove_orphans(self, keep: Container[PodUid]) -> None:
        """Remove what belongs to other pods than these; checks `keep` before each, since the answer may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCleaners:
    """The parts that keep something per pod: statuses, probes, mirror pods, and by name what removes its orphans."""

    statuses: StatusManager
    probes: ProberManager
    mirrors: MirrorReconciler
    leftovers: tuple[tuple[str, OrphanRemover], ...] = ()


class Housekeeper:
    """Removes what pods leave behind; the sync loop calls it."""

    def __init__(
        self,
        *,
        pods: PodManager,
        workers: PodWorkers,
        admission: PodAdmission,
        runtime: Runtime,
        cleaners: PodCleaners,
        trail: Trail,
    ) -> None:
        self._pods, self._workers, self._admission = pods, workers, admission
        self._runtime, self._cleaners, self._trail = runtime, cleaners, trail

    def tidy(self, uid: PodUid) -> None:
        """Forget a pod whose worker has nothing left to do, or restart it if it is desired again."""
        if not self._workers.settle(uid):
            pod = self._pods.pod_by_uid(uid)
            if pod is not None and not self._admission.is_held(uid):
                self._restart(pod)

    async def delete_orphaned_mirrors(self) -> bool:
        """Delete mirror pods without a static pod, once they show how it ended; return whether there were none."""
        orphans = self._pods.orphaned_mirror_pod_names()
        if orphans:
            await self._cleaners.statuses.until_sent(orphans)
            await self._cleaners.mirrors.delete_orphaned_mirrors(orphans, self._workers.is_static_pod_terminating)
        return not orphans

    async def clean(self) -> bool:
        """Clean up everything; return whether nothing is left to do. Only call it when all sources are ready."""
        listed: Sequence[RuntimePod] | None = None
        try:
            listed = await self._runtime.pods()
        except RuntimeFailure as failure:
            log.warning("housekeeping skipped: the runtime could not be listed", cause=failure.message)
        pods = self._pods.pods()
        workers = self._workers.sync_known_pods({PodUid(pod.metadata.uid) for pod in pods})
        if listed is None:
            return False
        plan = plan_cleanup(
            CleanupInputs(
                pods=pods, workers=workers, runtime=listed, phase_of=self._own_phase, is_held=self._admission.is_held
            )
        )
        self._carry_out(plan)
        has_no_orphans = await self.delete_orphaned_mirrors()
        await self._remove_leftovers(plan)
        return plan.is_settled and has_no_orphans

    def _carry_out(self, plan: CleanupPlan) -> None:
        self._cleaners.probes.clean_up(plan.probed)
        self._cleaners.statuses.remove_orphaned_statuses(plan.desired)
        for pod in plan.restart:
            self._restart(pod)
        for pod in plan.finish:
            self._trail.note(PodUid(pod.metadata.uid), COMPONENT, "finished, it was deleted and never ran")
            self._workers.update(UpdatePodOptions(SyncPodType.KILL, pod))
        for orphan in plan.kill:
            log.info("killing orphaned pod", pod=f"{orphan.namespace}/{orphan.name}", uid=orphan.uid)
            self._trail.note(orphan.uid, COMPONENT, "killed, no source names it")
            self._workers.update(UpdatePodOptions(SyncPodType.KILL, running=orphan, kill=ORPHAN_KILL))

    def _restart(self, pod: Pod) -> None:
        log.info("pod restarts under its former UID", pod=pod_label(pod), uid=pod.metadata.uid)
        self._trail.note(PodUid(pod.metadata.uid), COMPONENT, "restarted, its UID was used before")
        self._admission.start(pod)

    async def _remove_leftovers(self, plan: CleanupPlan) -> None:
        needed = _NeededPods(self._pods, self._workers, plan.running)
        for name, leftovers in self._cleaners.leftovers:
            try:
                await leftovers.remove_orphans(needed)
            except OSError as error:
                log.warning("orphans not removed", what=name, cause=str(error))

    def _own_phase(self, uid: PodUid) -> str:
        status = self._cleaners.statuses.pod_status(uid)
        return status.phase if status is not None else ""


class _NeededPods:
    """The pods whose leftovers must stay: desired, with a worker, or running when the runtime was listed."""

    def __init__(self, pods: PodManager, workers: PodWorkers, running: Container[PodUid]) -> None:
        self._pods, self._workers, self._running = pods, workers, running

    def __contains__(self, uid: object) -> bool:
        known = PodUid(str(uid))
        is_known = self._pods.pod_by_uid(known) is not None or self._workers.state(known) is not None
        return is_known or known in self._running
