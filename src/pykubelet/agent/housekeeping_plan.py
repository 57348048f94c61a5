"""What is to be cleared up on a node: which pods start anew, which end, what may be kept of which.

Pure. One reading of the desired pods, of the workers and of the runtime in; decisions out. Upstream: HandlePodCleanups,
filterOutInactivePods and filterTerminalPodsToDelete in pkg/kubelet/kubelet_pods.go.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pykubelet.agent.flow import WorkerState
from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.api.pods import is_terminal
from pykubelet.runtime.protocol import ContainerState, RuntimePod

_MAY_RUN = (WorkerState.SYNC, WorkerState.TERMINATING)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """A node at one moment. `workers` is what is left after the workers were told which pods are desired.

    `phase_of` gives the phase that this node itself has for a pod, empty if it has none; `is_held` says that a pod waits
    for room and has no worker because of that.
    """

    pods: Sequence[Pod]
    workers: Mapping[PodUid, WorkerState]
    runtime: Sequence[RuntimePod]
    phase_of: Callable[[PodUid], str]
    is_held: Callable[[PodUid], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
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


def plan_cleanup(reading: NodeReading) -> Cleanup:
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
    return Cleanup(
        restart=tuple(restart.values()),
        finish=tuple(pod for uid, pod in deleted.items() if is_terminal(pod.status.phase) and uid not in running),
        kill=tuple(pod for uid, pod in running.items() if uid not in workers and uid not in restart),
        probed=frozenset(uid for uid, state in workers.items() if state in _MAY_RUN),
        desired=frozenset(desired),
        running=frozenset(running),
        leftovers=sum(uid not in desired for uid in workers),
    )


def is_active(pod: Pod, worker: WorkerState | None, own_phase: str) -> bool:
    """Whether a pod counts: it has not ended, by the API's word or ours, or is still being stopped."""
    if worker is not None and worker >= WorkerState.TERMINATED:
        return False
    return worker is WorkerState.TERMINATING or not (is_terminal(pod.status.phase) or is_terminal(own_phase))


def is_running(pod: RuntimePod) -> bool:
    """Whether anything of a pod runs: a container, or its sandbox."""
    return any(sandbox.is_ready for sandbox in pod.sandboxes) or any(
        container.state is ContainerState.RUNNING for container in pod.containers
    )
