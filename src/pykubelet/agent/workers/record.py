"""What is known about the worker of one pod, and what that means to others.

Pure values. A record is replaced, never changed; `machine.py` decides by what. Upstream: podSyncStatus in
pkg/kubelet/pod_workers.go.
"""

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.agent.flow import PodKill, PodWork, StatusChange, WorkerState
from pykubelet.api.generated.core import Pod
from pykubelet.runtime.protocol import ContainerState, RuntimePod

SHORTEST_GRACE_SECONDS = 1
"""Nobody gets less, so that zero can stand for "not decided yet"."""


class PodRecord(Struct, frozen=True, kw_only=True):
    """Where a pod is in its life on this node. Times are on the monotonic clock; None says "not yet".

    `acknowledged` is set once the worker itself has seen that the pod is to end: from then on nothing is started.
    `observed` says that the runtime has something of a pod that this worker may never have started. `pending` is
    what the worker takes up next, `active` what it took up last.
    """

    full_name: str
    started_at: float | None = None
    terminating_at: float | None = None
    terminated_at: float | None = None
    acknowledged: bool = False
    deleted: bool = False
    evicted: bool = False
    finished: bool = False
    restart_requested: bool = False
    observed: bool = False
    grace_seconds: int = 0
    change_status: StatusChange | None = None
    pending: PodWork | None = None
    active: PodWork | None = None

    @property
    def state(self) -> WorkerState:
        """Which of the four it is."""
        if self.finished:
            return WorkerState.FINISHED
        if self.terminated_at is not None:
            return WorkerState.TERMINATED
        return WorkerState.SYNC if self.terminating_at is None else WorkerState.TERMINATING

    @property
    def is_terminating(self) -> bool:
        """Whether the pod was asked to end, whatever has come of it."""
        return self.terminating_at is not None

    @property
    def is_terminated(self) -> bool:
        """Whether no container of the pod runs any more."""
        return self.terminated_at is not None

    @property
    def is_started(self) -> bool:
        """Whether the pod was ever let start."""
        return self.started_at is not None

    @property
    def pod(self) -> Pod | None:
        """The pod as the worker was last told, if it was told of one at all."""
        if self.pending is not None and self.pending.pod is not None:
            return self.pending.pod
        return self.active.pod if self.active is not None else None


def taken_up(record: PodRecord, work: PodWork) -> PodRecord:
    """The record once its worker has taken up `work`; how it is to be killed stays in the record itself."""
    return replace(record, pending=None, active=replace(work, kill=None))


def replayed(record: PodRecord) -> PodRecord:
    """The record with its last work to be done again, unless newer work is waiting or there was none."""
    return record if record.pending is not None else replace(record, pending=record.active)


def effective_grace(recorded: int, pod: Pod | None, kill: PodKill | None) -> int:
    """How many seconds a pod gets to end: the least of what was recorded, the API says and the killer asks for.

    Zero in `recorded` stands for none. Without any of them it is what the pod's spec wishes.
    """
    asked = (pod.metadata.deletion_grace_period_seconds if pod else None, kill.grace_seconds if kill else None)
    grace, is_asked = recorded, False
    for seconds in asked:
        if seconds is not None and (grace == 0 or seconds < grace):
            grace, is_asked = seconds, True
    if not is_asked and grace == 0 and pod is not None:
        grace = pod.spec.termination_grace_period_seconds or 0
    return max(grace, SHORTEST_GRACE_SECONDS)


def is_quiet(seen: RuntimePod) -> bool:
    """Whether the runtime runs nothing of a pod: no container, no ready sandbox."""
    return not any(container.state is ContainerState.RUNNING for container in seen.containers) and not any(
        sandbox.is_ready for sandbox in seen.sandboxes
    )
