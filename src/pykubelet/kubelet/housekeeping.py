"""Clears up after pods: at once after each that ended, now and then after all.

In: hints that something may be left. Out: pods started anew or killed, and everything removed that no pod needs any
more. It goes by one reading of the node, taken without waiting in between; what takes time comes last, and looks again
before it removes anything. Upstream: HandlePodCleanups in pkg/kubelet/kubelet_pods.go, which does all of it every two
seconds; here that happens only while something may be left to do, and once a minute otherwise.

What is to be cleared up on a node: which pods start anew, which end, what may be kept of which.

Pure. One reading of the desired pods, of the workers and of the runtime in; decisions out. Upstream: HandlePodCleanups,
filterOutInactivePods and filterTerminalPodsToDelete in pkg/kubelet/kubelet_pods.go.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.pods import PodUid, is_terminal, pod_label
from pykubelet.kubelet.types import KillPodOptions, PodWorkerState, SyncPodType, Trail, UpdatePodOptions, is_active
from pykubelet.runtimes.protocol import ContainerState, RuntimeFailure, RuntimePod

_MAY_RUN = (PodWorkerState.SYNC, PodWorkerState.TERMINATING)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupInputs:
    """A node at one moment. `workers` is what is left after the workers were told which pods are desired.

    `phase_of` gives the phase that this node itself has for a pod, empty if it has none; `is_held` says that a pod waits
    for room and has no worker because of that.
    """

    pods: Sequence[Pod]
    workers: Mapping[PodUid, PodWorkerState]
    runtime: Sequence[RuntimePod]
    phase_of: Callable[[PodUid], str]
    is_held: Callable[[PodUid], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """What to do. The sets name what is kept; everything else of its kind goes."""

    restart: tuple[Pod, ...]
    finish: tuple[Pod, ...]
    kill: tuple[RuntimePod, ...]
    probed: frozenset[PodUid]
    desired: frozenset[PodUid]
    running: frozenset[PodUid]
    leftovers: int
    """How many workers see to pods that nobody wants any more."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing was left to be done."""
        return not (self.restart or self.finish or self.kill or self.leftovers)


def plan_cleanup(reading: CleanupInputs) -> CleanupPlan:
    """What is to be cleared up.

    A pod that is wanted and has no worker starts anew: its UID was used before, and what it was then has been
    forgotten by now. One that was refused and is deleted has no worker either, and needs one to come to its end.
    What runs and belongs to nobody is killed.
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


def is_running(pod: RuntimePod) -> bool:
    """Whether anything of a pod runs: a container, or its sandbox."""
    return any(sandbox.is_ready for sandbox in pod.sandboxes) or any(
        container.state is ContainerState.RUNNING for container in pod.containers
    )


log = get_logger(__name__)

STATION = "housekeeping"


class CleanupPods(Protocol):
    """The pods this node should run, and the mirrors of static ones."""

    def pods(self) -> Sequence[Pod]:
        """All regular pods."""

    def orphaned_mirror_pod_names(self) -> Sequence[str]:
        """The full names of mirrors that have no pod."""

    def pod_by_uid(self, uid: PodUid) -> Pod | None:
        """The regular pod with this UID."""


class CleanupWorkers(Protocol):
    """The workers of pods."""

    def update(self, work: UpdatePodOptions) -> None:
        """Have a worker see to a pod."""

    def sync_known_pods(self, desired: Container[PodUid]) -> Mapping[PodUid, PodWorkerState]:
        """Have pods that are not desired end; where the remaining workers are."""

    def settle(self, uid: PodUid) -> bool:
        """The same for one pod; whether a worker still knows it."""


class CleanupWorkerQueries(Protocol):
    """What the workers know."""

    def is_static_pod_terminating(self, full_name: str) -> bool:
        """Whether the static pod started under this name is being stopped."""

    def state(self, uid: PodUid) -> PodWorkerState | None:
        """Where the worker of a pod is."""


class CleanupAdmission(Protocol):
    """The way in for pods."""

    def is_held(self, uid: PodUid) -> bool:
        """Whether a pod waits for room, and has no worker because of that."""

    def start_anew(self, pod: Pod) -> None:
        """Let a pod in that was on the node before, without asking again."""


class RuntimeListing(Protocol):
    """What the runtime has."""

    async def pods(self) -> Sequence[RuntimePod]:
        """Everything; RuntimeFailure if that cannot be known."""


class CleanupStatuses(Protocol):
    """The statuses of pods."""

    def pod_status(self, uid: str) -> PodStatus | None:
        """The newest status of a pod."""

    def remove_orphaned_statuses(self, keep: Container[PodUid]) -> None:
        """Forget every pod that is not to be kept."""


class CleanupProbes(Protocol):
    """The probes of pods."""

    def clean_up(self, keep: Container[PodUid]) -> None:
        """Stop all but those of these pods."""


class CleanupMirrors(Protocol):
    """Mirrors in the API."""

    async def delete_orphaned_mirrors(self, full_names: Iterable[str], is_terminating: Callable[[str], bool]) -> None:
        """Delete mirrors that have no static pod any more, unless that is still being stopped."""


class OrphanRemover(Protocol):
    """Something on the machine that is kept per pod: folders, cgroups, entries of backoffs."""

    async def remove_orphans(self, keep: Container[PodUid]) -> None:
        """Remove what belongs to other pods than these; asks before each, for the answer may change meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCleaners:
    """Those who clear up: each knows one kind of thing that pods leave behind."""

    statuses: CleanupStatuses
    probes: CleanupProbes
    mirrors: CleanupMirrors
    leftovers: tuple[tuple[str, OrphanRemover], ...] = ()
    """By name, in the order in which they go."""


class Housekeeper:
    """Keeps the node tidy; owned by the loop."""

    def __init__(
        self,
        *,
        pods: CleanupPods,
        workers: CleanupWorkers,
        queries: CleanupWorkerQueries,
        entrance: CleanupAdmission,
        runtime: RuntimeListing,
        cleaners: PodCleaners,
        trail: Trail,
    ) -> None:
        self._pods, self._workers, self._queries, self._entrance = pods, workers, queries, entrance
        self._runtime, self._cleaners, self._trail = runtime, cleaners, trail

    def tidy(self, uid: PodUid) -> None:
        """A worker has nothing left to do: forget its pod, or start it anew if it is wanted again."""
        if not self._workers.settle(uid):
            pod = self._pods.pod_by_uid(uid)
            if pod is not None and not self._entrance.is_held(uid):
                self._restart(pod)

    async def delete_orphaned_mirrors(self) -> bool:
        """Delete mirrors that have no static pod any more; whether there were none."""
        orphans = self._pods.orphaned_mirror_pod_names()
        if orphans:
            await self._cleaners.mirrors.delete_orphaned_mirrors(orphans, self._queries.is_static_pod_terminating)
        return not orphans

    async def clean(self) -> bool:
        """Clear up everything; whether nothing is left to be done. Call it only when all sources are known."""
        listed: Sequence[RuntimePod] | None = None
        try:
            listed = await self._runtime.pods()
        except RuntimeFailure as failure:
            log.warning("not cleaned up, runtime not listed", cause=failure.message)
        pods = self._pods.pods()
        workers = self._workers.sync_known_pods({PodUid(pod.metadata.uid) for pod in pods})
        if listed is None:
            return False
        reading = CleanupInputs(
            pods=pods, workers=workers, runtime=listed, phase_of=self._own_phase, is_held=self._entrance.is_held
        )
        plan = plan_cleanup(reading)
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
            self._trail.note(PodUid(pod.metadata.uid), STATION, "finished, it was deleted and never ran")
            self._workers.update(UpdatePodOptions(SyncPodType.KILL, pod))
        for orphan in plan.kill:
            log.info("pod that nobody wants is killed", pod=f"{orphan.namespace}/{orphan.name}", uid=orphan.uid)
            self._trail.note(orphan.uid, STATION, "killed, nobody wants it")
            self._workers.update(
                UpdatePodOptions(SyncPodType.KILL, running=orphan, kill=KillPodOptions(grace_seconds=1))
            )

    def _restart(self, pod: Pod) -> None:
        log.info("pod starts anew under its old UID", pod=pod_label(pod), uid=pod.metadata.uid)
        self._trail.note(PodUid(pod.metadata.uid), STATION, "started anew, its UID was used before")
        self._entrance.start_anew(pod)

    async def _remove_leftovers(self, plan: CleanupPlan) -> None:
        needed = _NeededNow(self._pods, self._queries, plan.running)
        for name, leftovers in self._cleaners.leftovers:
            try:
                await leftovers.remove_orphans(needed)
            except OSError as error:
                log.warning("leftovers not removed", what=name, cause=str(error))

    def _own_phase(self, uid: PodUid) -> str:
        status = self._cleaners.statuses.pod_status(uid)
        return status.phase if status is not None else ""


class _NeededNow:
    """The pods whose things must stay: they are desired, have a worker, or ran when the runtime was listed."""

    def __init__(self, pods: CleanupPods, queries: CleanupWorkerQueries, running: Container[PodUid]) -> None:
        self._pods, self._queries, self._running = pods, queries, running

    def __contains__(self, uid: object) -> bool:
        known = PodUid(str(uid))
        is_known = self._pods.pod_by_uid(known) is not None or self._queries.state(known) is not None
        return is_known or known in self._running
