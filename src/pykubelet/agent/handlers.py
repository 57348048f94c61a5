"""What the loop does with each thing it hears: changes of pods, of containers, verdicts of probes.

In: values. Out: calls to the pod manager, the entrance, the workers and the status manager. Nothing here waits, so that
no two of these ever mix. Upstream: the HandlePod* functions and syncLoopIteration in pkg/kubelet/kubelet.go.
"""

from collections.abc import Callable
from typing import Protocol

from pykubelet.agent.entrance import Entrance, Workers
from pykubelet.agent.flow import PodOp, PodUpdate, PodWork, ProbeKind, ProbeResult, ProbeVerdict, SyncType, Trail
from pykubelet.agent.status.conditions import need_to_reconcile_pod_readiness
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.api.pods import is_mirror_pod, is_terminal, pod_label
from pykubelet.runtime.relist import ChangeKind
from pykubelet.runtime.watchdog import PodChanges

log = get_logger(__name__)

STATION = "loop"


class KnownPods(Protocol):
    """The pods this node should run, and the mirrors of static ones."""

    def update_pod(self, pod: Pod) -> None:
        """Take a pod or a mirror, new or changed."""

    def delete_pod(self, pod: Pod) -> None:
        """Forget a pod or a mirror."""

    def pod_by_uid(self, uid: PodUid) -> Pod | None:
        """The regular pod with this UID."""

    def pod_by_mirror_pod(self, mirror_pod: Pod) -> Pod | None:
        """The regular pod of a mirror's name."""


class ProbedStatuses(Protocol):
    """The statuses of pods, as far as probes and the API change them."""

    def set_container_readiness(self, uid: PodUid, container_id: str, *, ready: bool) -> None:
        """A container is ready or not."""

    def set_container_startup(self, uid: PodUid, container_id: str, *, started: bool) -> None:
        """A container has started or not."""

    def reconcile_pod(self, uid: str) -> None:
        """What the API shows of a pod or a mirror has changed."""


class Sources(Protocol):
    """Which sources have told all their pods."""

    def is_ready(self, source: str) -> bool:
        """Whether a pod that this source does not name may go."""

    def saw(self, update: PodUpdate) -> None:
        """An update has been handled."""


class DeadContainers(Protocol):
    """Containers that have ended. Both calls only ask for it."""

    def prune(self, uid: PodUid, container_id: str) -> None:
        """A container has ended: remove older ones of its name."""

    def remove_all(self, uid: PodUid) -> None:
        """Remove everything of a pod that has ended."""


class PodHandlers:
    """Turns what is heard into work. One pod that cannot be handled does not keep the others from it."""

    def __init__(
        self,
        *,
        pods: KnownPods,
        workers: Workers,
        entrance: Entrance,
        statuses: ProbedStatuses,
        sources: Sources,
        dead: DeadContainers,
        trail: Trail,
        first_seen: Callable[[PodUid], None] = lambda _: None,
    ) -> None:
        """`first_seen` hears of every pod that comes."""
        self._pods, self._workers, self._entrance = pods, workers, entrance
        self._statuses, self._sources, self._dead, self._trail = statuses, sources, dead, trail
        self._first_seen = first_seen
        self._handlers: dict[PodOp, Callable[[Pod, str], None]] = {
            PodOp.ADD: self._added,
            PodOp.RESTORE: self._added,
            PodOp.UPDATE: self._updated,
            PodOp.DELETE: self._updated,
            PodOp.REMOVE: self._removed,
            PodOp.RECONCILE: self._reconciled,
        }

    def handle(self, update: PodUpdate) -> None:
        """Pods of one source changed."""
        handler = self._handlers.get(update.op)
        if handler is None:
            log.error("the loop takes no snapshots", source=update.source, op=update.op.name)
        else:
            for pod in sorted(update.pods, key=_creation) if handler == self._added else update.pods:
                self._guarded(handler, pod, update)
        self._sources.saw(update)

    def pod_changed(self, heard: PodChanges) -> bool:
        """Containers of a pod changed; whether the pod is known."""
        pod = self._pods.pod_by_uid(heard.uid)
        if pod is not None and any(change.kind is not ChangeKind.REMOVED for change in heard.changes):
            self.sync(pod)
        for change in heard.changes:
            if change.kind is ChangeKind.DIED:
                self._dead.prune(heard.uid, change.container_id)
        return pod is not None

    def probed(self, result: ProbeResult) -> None:
        """A probe's verdict on a container changed."""
        is_success = result.verdict is ProbeVerdict.SUCCESS
        if result.kind is ProbeKind.READINESS:
            self._statuses.set_container_readiness(result.uid, result.container_id, ready=is_success)
        elif result.kind is ProbeKind.STARTUP:
            self._statuses.set_container_startup(result.uid, result.container_id, started=is_success)
        elif result.verdict is not ProbeVerdict.FAILURE:
            # That a container lives changes nothing.
            return
        facts = {"container": result.container} if result.container else {}
        self._trail.note(result.uid, "probes", f"{result.kind} probe", verdict=result.verdict, **facts)
        if pod := self._pods.pod_by_uid(result.uid):
            self.sync(pod)

    def arrived(self, uid: PodUid) -> None:
        """What a pod waits for may be there now."""
        if pod := self._pods.pod_by_uid(uid):
            self.sync(pod)

    def sync(self, pod: Pod) -> None:
        """Have a regular pod looked at by its worker."""
        self._tell(SyncType.SYNC, pod)

    def _guarded(self, handler: Callable[[Pod, str], None], pod: Pod, update: PodUpdate) -> None:
        try:
            handler(pod, update.source)
        except Exception as error:  # noqa: BLE001  a pod that cannot be handled must not stop the node
            log.error("pod not handled", error=error, pod=pod_label(pod), op=update.op.name)
            self._trail.note(PodUid(pod.metadata.uid), STATION, "not handled", op=update.op.name, why=error)

    def _added(self, pod: Pod, source: str) -> None:
        self._pods.update_pod(pod)
        if is_mirror_pod(pod):
            self._mirror_changed(pod)
        else:
            uid = PodUid(pod.metadata.uid)
            self._first_seen(uid)
            self._trail.note(uid, STATION, "added", source=source)
            self._entrance.let_in(pod)

    def _updated(self, pod: Pod, source: str) -> None:
        self._pods.update_pod(pod)
        if is_mirror_pod(pod):
            self._mirror_changed(pod)
        else:
            self._trail.note(PodUid(pod.metadata.uid), STATION, "changed", source=source)
            self._entrance.change(pod)
            self._tell(SyncType.UPDATE, pod)

    def _removed(self, pod: Pod, source: str) -> None:
        self._pods.delete_pod(pod)
        if is_mirror_pod(pod):
            self._mirror_changed(pod)
            return
        uid = PodUid(pod.metadata.uid)
        was_held = self._entrance.is_held(uid)
        self._entrance.forget(uid)
        is_ready = self._sources.is_ready(source)
        self._trail.note(
            uid, STATION, "removed", source=source, kill="now" if is_ready else "once all sources are known"
        )
        if is_ready and not was_held:
            self._workers.update(PodWork(SyncType.KILL, pod))

    def _reconciled(self, pod: Pod, _source: str) -> None:
        self._pods.update_pod(pod)
        self._statuses.reconcile_pod(pod.metadata.uid)
        known = self._pods.pod_by_mirror_pod(pod) if is_mirror_pod(pod) else pod
        if known is None:
            return
        # Somebody else may have declared the pod dead; upstream finds out at the next resync. Not of one that was refused.
        is_dead = is_terminal(known.status.phase) and self._entrance.is_in(PodUid(known.metadata.uid))
        if is_dead or need_to_reconcile_pod_readiness(known):
            self.sync(known)
        if (known.status.phase, known.status.reason) == ("Failed", "Evicted"):
            self._dead.remove_all(PodUid(known.metadata.uid))

    def _mirror_changed(self, mirror: Pod) -> None:
        """The static pod's worker sees to it, and to what the API shows."""
        self._statuses.reconcile_pod(mirror.metadata.uid)
        if pod := self._pods.pod_by_mirror_pod(mirror):
            self._tell(SyncType.UPDATE, pod)

    def _tell(self, type: SyncType, pod: Pod) -> None:
        # A pod that waits for room must not start before there is.
        if not self._entrance.is_held(PodUid(pod.metadata.uid)):
            self._workers.update(PodWork(type, pod))


def _creation(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""
