"""What a terminating pod waits for: hooks, containers, volumes, the API or finalizers.

Pure: takes a `PodSituation`; returns `Blocked`, or None if the pod is not terminating.
"""

from datetime import datetime

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import is_terminal
from pykubelet.api.times import parse_time
from pykubelet.kubelet.explain.explanation import Blocked, BlockingStep, PodSituation
from pykubelet.kubelet.explain.trail import DONE, NOT_SENT, SENT
from pykubelet.kubelet.types import PodWorkerState, WaitStage

_FORCE = (
    "kubectl delete pod {} -n {} --grace-period=0 --force deletes it from the API at once, even if containers still run"
)


def blocked_by_termination(seen: PodSituation) -> Blocked | None:
    """The termination step that the pod has reached."""
    is_deleted = seen.pod.metadata.deletion_timestamp is not None
    if seen.is_from_node:
        if seen.worker is PodWorkerState.TERMINATING:
            return _stopping(seen)
        if seen.worker is PodWorkerState.TERMINATED:
            return _clearing(seen)
    elif is_deleted and seen.node_problem and seen.pod.spec.node_name:
        return Blocked(
            BlockingStep.NODE,
            f"its node {seen.pod.spec.node_name} to stop it: {seen.node_problem}",
            f"the node comes back, or is deleted; {_force(seen)}",
        )
    elif is_deleted and seen.pod.spec.node_name and not is_terminal(seen.status.phase):
        return _stopping(seen)
    return _forgotten(seen) if is_deleted else None


def _stopping(seen: PodSituation) -> Blocked:
    retry, wait, hook = seen.at(WaitStage.RETRY), seen.at(WaitStage.STOP), seen.below(WaitStage.HOOKS)
    until = wait.until if wait is not None else _deletion_time(seen.pod)
    if hook is not None:
        return Blocked(
            BlockingStep.HOOK,
            f"the {hook.what} to end{_left(seen, until)}",
            "the hook ends, or its grace period does; then the container is stopped",
            since=hook.since,
            until=until,
        )
    if wait is None and retry is not None:
        return Blocked(
            BlockingStep.STOP,
            f"its containers to be stopped, which failed: {retry.what.removeprefix('another try: ')}",
            f"the runtime stops them; {_force(seen)}",
            since=retry.since,
            until=retry.until,
        )
    known = (*seen.status.init_container_statuses, *seen.status.container_statuses)
    running = [one.name for one in known if one.state.running is not None]
    # A pod that its source no longer names may have no status.
    running = running if known else [one.name for one in seen.pod.spec.containers]
    names = (
        f"{'container' if len(running) == 1 else 'containers'} {', '.join(running)}" if running else "its containers"
    )
    is_late = until is not None and seen.now > until
    obeys = (
        "the runtime did not kill it after its grace" if is_late else "the stop signal was sent, but it has not ended"
    )
    unblock = "the runtime kills it" if is_late else "it ends on SIGTERM, or is killed when its grace is over"
    return Blocked(
        BlockingStep.RUNTIME if is_late else BlockingStep.STOP,
        f"{names} to end: {obeys}{'' if is_late else _left(seen, until)}",
        f"{unblock}; {_force(seen)}",
        since=wait.since if wait is not None else None,
        until=until,
    )


def _clearing(seen: PodSituation) -> Blocked:
    wait, retry = seen.at(WaitStage.UNMOUNT), seen.at(WaitStage.RETRY)
    if wait is None and retry is not None:
        what = f"its volumes to be removed, which failed: {retry.what.removeprefix('another try: ')}"
        return Blocked(BlockingStep.VOLUME, what, "put right what the node names", since=retry.since, until=retry.until)
    return Blocked(
        BlockingStep.VOLUME,
        "its volumes to be unmounted",
        "the file system under them answers; a server that is gone comes back, or is unmounted by force",
        since=wait.since if wait is not None else None,
    )


def _forgotten(seen: PodSituation) -> Blocked:
    """The step of a pod that has stopped and is still in the API."""
    note = seen.newest(SENT, NOT_SENT, DONE)
    # The node knows only the first version of the finalizers; but nothing else keeps a pod that it deleted.
    if (note is not None and note.what == DONE) or (not seen.is_from_node and seen.pod.metadata.finalizers):
        return blocked_by_finalizers(seen.pod)
    if note is not None and note.what == NOT_SENT:
        return Blocked(
            BlockingStep.STATUS,
            f"the API server to accept its last status: {note.fact('why')}",
            "the API server answers again",
            since=note.at,
        )
    return Blocked(
        BlockingStep.STATUS, "the API server to delete it", f"the node requests the deletion; {_force(seen)}"
    )


def blocked_by_finalizers(pod: Pod) -> Blocked:
    """The step of an ended pod that only its finalizers keep in the API."""
    named = ", ".join(pod.metadata.finalizers)
    return Blocked(
        BlockingStep.FINALIZER,
        f"its finalizers in the API{f': {named}' if named else ''}; nothing of it runs any more",
        "the controllers that set them remove them from metadata.finalizers",
        since=_deletion_time(pod),
    )


def _deletion_time(pod: Pod) -> datetime | None:
    """When the grace period of the API ends."""
    text = pod.metadata.deletion_timestamp
    return parse_time(text) if text else None


def _left(seen: PodSituation, until: datetime | None) -> str:
    return f", {(until - seen.now).total_seconds():.0f} s of its grace are left" if until and until > seen.now else ""


def _force(seen: PodSituation) -> str:
    return _FORCE.format(seen.pod.metadata.name, seen.pod.metadata.namespace or "default")
