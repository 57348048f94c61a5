"""What a pod waits for now, and what would unblock it.

Pure: takes a `PodSituation`; returns `Blocked`. Each check makes the later ones irrelevant: a terminating pod waits for
its end, a pod without a node for the scheduler, one with a broken manifest for its author, and finally for its first
container that is not ready.
"""

import re
from collections.abc import Callable
from datetime import datetime
from functools import partial

from pykubelet.api.generated.core import Container, ContainerStateWaiting, ContainerStatus, Probe
from pykubelet.api.pods import is_restartable_init_container, is_terminal
from pykubelet.api.times import parse_time
from pykubelet.api.volumes import pod_claims
from pykubelet.kubelet.explain.explanation import Blocked, BlockingStep, PodSituation
from pykubelet.kubelet.explain.terminating import blocked_by_termination
from pykubelet.kubelet.explain.trail import NOT_SENT, SENT, TrailEntry
from pykubelet.kubelet.types import WaitStage

_IMAGE = {
    "ErrImagePull": "put right the image's name or the pull secrets, or wait until its registry answers",
    "ImagePullBackOff": "put right the image's name or the pull secrets, or wait until its registry answers",
    "ErrImageNeverPull": "bring the image onto the node, or set imagePullPolicy to IfNotPresent",
    "InvalidImageName": "write the image's name as HOST/PATH:TAG",
    "ImageInspectError": "the runtime can inspect the image again",
    "RegistryUnavailable": "its registry answers again",
    "SignatureValidationFailed": "an image whose signature is good",
}
_NOT_STARTED = frozenset({"", "ContainerCreating", "PodInitializing"})
# The texts are the API's, and object names contain no quotes.
_MISSING = re.compile(r'(configmap|secret) "(?P<name>[^"]+)" not found|non-existent (config|secret) key')
_UNBOUND = "unbound immediate PersistentVolumeClaims"
_NETWORK = "network is not ready"
REJECTED = "Pod was rejected: "
"""How the status message of a rejected pod begins."""

# What would make the node admit a rejected pod, by the reason of the rejection.
_ROOM = "free {} on the node or ask for less of it"
_ADMISSION = {
    "NodeAffinity": "give the node the labels that the pod asks for, or change its nodeSelector or affinity",
    "NodeName": "name this node in spec.nodeName",
    "NodePorts": "free the host ports that the pod asks for, or ask for others",
    "TaintToleration": "remove the taint from the node, or have the pod tolerate it",
    "Evicted": "wait until the node is not under that pressure any more",
    "NodeShutdown": "wait until the node is back",
    "SysctlForbidden": "drop the sysctl, or allow it on the node",
    "AppArmor": "drop the AppArmor profile, or run the pod where it can be enforced",
}
# The step, what the pod waits for, and what unblocks it, by the stage at which it waits.
_STAGES = {
    WaitStage.ADMISSION: (BlockingStep.ROOM, "room on its node", "they end; their termination was requested"),
    WaitStage.SOURCES: (
        BlockingStep.MANIFEST,
        "its manifest to become valid; it runs as the last valid version says",
        "correct the manifest; the change takes effect at once",
    ),
    WaitStage.CLAIMS: (
        BlockingStep.DUPLICATE,
        "nothing, but another manifest names it too",
        "remove the pod from one of them, or give it another name there",
    ),
}
_RECREATE = "; a rejected pod is never tried again: delete it and create it again"


def waiting_for(seen: PodSituation) -> Blocked:
    """What a pod waits for; BlockingStep.NOTHING if it is as desired."""
    for check in _CHECKS:
        if (found := check(seen)) is not None:
            return found
    return Blocked(BlockingStep.NOTHING, "nothing: it runs and is ready")


def _refused(seen: PodSituation) -> Blocked | None:
    status, note = seen.status, seen.newest("refused")
    is_refused = status.phase == "Failed" and status.message.startswith(REJECTED)
    if not is_refused and not (note is not None and note.component == "admission"):
        return None
    why = status.message.removeprefix(REJECTED) if is_refused else note.fact("why") if note else ""
    reason = status.reason or (note.fact("reason") if note else "")
    resource = reason.removeprefix("OutOf")
    unblock = _ROOM.format(resource) if resource != reason else _ADMISSION.get(reason, "put right what the node names")
    return Blocked(
        BlockingStep.ADMISSION,
        f"nothing any more: its node refused it ({reason}): {why.strip()}",
        unblock + _RECREATE,
        since=note.at if note else None,
    )


def _ended(seen: PodSituation) -> Blocked | None:
    status = seen.status
    if not is_terminal(status.phase):
        return None
    why = ": ".join(filter(None, (status.reason, status.message)))
    codes = ", ".join(
        f"container {one.name} exited with {one.state.terminated.exit_code}"
        for one in (*status.init_container_statuses, *status.container_statuses)
        if one.state.terminated is not None and one.state.terminated.exit_code
    )
    details = "; ".join(filter(None, (why, codes)))
    return Blocked(
        BlockingStep.ENDED, f"nothing any more: it has {status.phase.lower()}" + (f" ({details})" if details else "")
    )


def _unscheduled(seen: PodSituation) -> Blocked | None:
    pod = seen.pod
    if pod.spec.node_name:
        return None
    if gates := ", ".join(gate.name for gate in pod.spec.scheduling_gates):
        return Blocked(
            BlockingStep.SCHEDULING, f"its scheduling gates: {gates}", "the controllers that set them remove them"
        )
    condition = next((one for one in seen.status.conditions if one.type == "PodScheduled"), None)
    event = seen.newest("FailedScheduling")
    why = condition.message if condition is not None and condition.status == "False" else ""
    why = why or (event.fact("said") if event else "")
    claims = ", ".join(name for _, name in pod_claims(pod))
    if claims and (not why or _UNBOUND in why):
        what, unblock = f"its claims to be bound to volumes: {claims}", "each has a volume; `describe pvc` says why not"
        return Blocked(BlockingStep.SCHEDULING, what, unblock)
    if why:
        return Blocked(
            BlockingStep.SCHEDULING,
            f"a node that it fits on: {why}",
            "a node that meets all of this, or a pod that asks for less",
        )
    name = pod.spec.scheduler_name or "default-scheduler"
    return Blocked(
        BlockingStep.SCHEDULING,
        f"a scheduler: none has handled it, it asks for {name}",
        f"run {name}, or set spec.nodeName",
    )


def _at_stage(stage: WaitStage, seen: PodSituation) -> Blocked | None:
    wait = seen.at(stage)
    if wait is None:
        return None
    step, what, unblock = _STAGES[stage]
    return Blocked(step, f"{what}: {wait.what}", unblock, since=wait.since)


def _turn(seen: PodSituation) -> Blocked | None:
    wait = seen.at(WaitStage.TURNS)
    if wait is None:
        return None
    holder = waiting_for(seen.holder) if seen.holder is not None else None
    reason = f"; that one waits for {holder.what}" if holder is not None else ""
    unblock = holder.unblock if holder is not None and holder.unblock else "the former one ends"
    until = holder.until if holder is not None else None
    return Blocked(
        BlockingStep.TURN, f"the former static pod of this name to end{reason}", unblock, since=wait.since, until=until
    )


def _node(seen: PodSituation) -> Blocked | None:
    if not seen.node_problem:
        return None
    return Blocked(BlockingStep.NODE, f"its node {seen.pod.spec.node_name}: {seen.node_problem}", "the node comes back")


def _gate(seen: PodSituation) -> Blocked | None:
    known = {one.type: one for one in seen.status.conditions}
    missing = [
        gate.condition_type
        for gate in seen.pod.spec.readiness_gates
        if gate.condition_type not in known or known[gate.condition_type].status != "True"
    ]
    if not missing:
        return None
    return Blocked(
        BlockingStep.READINESS_GATE,
        f"its readiness gates: {', '.join(missing)}",
        "the controllers of these conditions set them to True in the pod's status",
    )


def _unsent(seen: PodSituation) -> Blocked | None:
    note = seen.newest(SENT, NOT_SENT)
    if note is None or note.what == SENT:
        return None
    return Blocked(
        BlockingStep.STATUS,
        f"the API server to accept its status: {note.fact('why')}",
        "the API server answers again, or allows it",
        since=note.at,
    )


def blocked_by_containers(seen: PodSituation) -> Blocked | None:
    """What keeps the first container from being ready, init containers first."""
    status, spec = seen.status, seen.pod.spec
    known = {one.name: one for one in (*status.init_container_statuses, *status.container_statuses)}
    # A running container proves that the init containers completed, even if they are unknown by now.
    is_initialized = any(one.state.running is not None for one in status.container_statuses)
    for container in () if is_initialized else spec.init_containers:
        found = _init(seen, container, known.get(container.name, ContainerStatus(name=container.name)))
        if found is not None:
            return found
    sidecars = [one for one in spec.init_containers if is_restartable_init_container(one)]
    found_all = [
        _regular(seen, container, known.get(container.name, ContainerStatus(name=container.name)))
        for container in (*sidecars, *spec.containers)
    ]
    blocks = [found for found in found_all if found is not None]
    # A container that has not been tried says less than one that failed.
    return min(blocks, key=lambda found: found.step is BlockingStep.START, default=None)


def _init(seen: PodSituation, container: Container, status: ContainerStatus) -> Blocked | None:
    state = status.state
    if is_restartable_init_container(container):
        return None if status.started else _regular(seen, container, status)
    if state.terminated is not None and state.terminated.exit_code == 0:
        return None
    found = _not_running(seen, container, status)
    if found is not None and found.step is not BlockingStep.CRASH_LOOP:
        return found
    name = f"init container {container.name}"
    logs = f"its log tells why: {_logs(seen, container, previous=state.running is None)}"
    if found is not None:
        return Blocked(
            BlockingStep.INIT_CONTAINER, f"{name}, {found.what}", f"it exits with 0; {logs}", until=found.until
        )
    if state.running is not None:
        since = parse_time(state.running.started_at) if state.running.started_at else None
        return Blocked(BlockingStep.INIT_CONTAINER, f"{name} to end: it runs", f"it exits with 0; {logs}", since=since)
    return Blocked(BlockingStep.INIT_CONTAINER, f"{name}, which {_exit(status)}", f"it exits with 0; {logs}")


def _regular(seen: PodSituation, container: Container, status: ContainerStatus) -> Blocked | None:
    if status.ready:
        return None
    found = _not_running(seen, container, status)
    if found is not None:
        return found
    name = f"container {container.name}"
    if status.state.running is None:
        return Blocked(
            BlockingStep.CONTAINER_ENDED,
            f"{name}, which {_exit(status)} and is not started again: restartPolicy is {seen.pod.spec.restart_policy}",
            f"change the container or the restartPolicy; its log: {_logs(seen, container)}",
        )
    if container.startup_probe is not None and not status.started:
        return _probe(seen, container, BlockingStep.STARTUP_PROBE, "Startup", container.startup_probe)
    if container.readiness_probe is not None:
        return _probe(seen, container, BlockingStep.READINESS_PROBE, "Readiness", container.readiness_probe)
    return Blocked(BlockingStep.START, f"{name}: it runs, and is about to be called ready")


def _probe(seen: PodSituation, container: Container, step: BlockingStep, kind: str, probe: Probe) -> Blocked:
    note = seen.newest("Unhealthy", container=container.name, said=f"{kind} probe")
    what = f"the {kind.lower()} probe of container {container.name}"
    if note is None:
        return Blocked(
            step,
            f"{what}: it has not passed yet, it runs every {max(probe.period_seconds, 1)} s "
            f"after {probe.initial_delay_seconds} s",
            "it passes",
        )
    return Blocked(
        step,
        f"{what} to pass: {note.fact('said').partition(': ')[2].strip() or note.fact('said')}",
        f"the container answers it; its log: {_logs(seen, container, previous=False)}",
        since=note.at,
    )


def _not_running(seen: PodSituation, container: Container, status: ContainerStatus) -> Blocked | None:
    """What keeps a container from running, if anything does."""
    waiting = status.state.waiting
    if status.state.running is not None:
        return None
    if waiting is None and status.state.terminated is not None:
        if not _comes_back(seen, container, status):
            return None
        waiting = ContainerStateWaiting(reason="CrashLoopBackOff")
    reason, message = (waiting.reason, waiting.message) if waiting is not None else ("", "")
    if reason in _NOT_STARTED:
        return _starting(seen, container)
    name = f"container {container.name}"
    if reason in _IMAGE:
        return Blocked(
            BlockingStep.IMAGE,
            f"the image {container.image} of {name}: {message or reason}",
            _IMAGE[reason],
            until=_retry(seen),
        )
    if reason == "CreateContainerConfigError":
        return Blocked(BlockingStep.CONFIGURATION, f"what {name} is configured with: {message}", _mend(message))
    if reason == "CrashLoopBackOff":
        return _crashed(seen, container, status)
    if reason == "PostStartHookError":
        return Blocked(BlockingStep.HOOK, f"the postStart hook of {name}, which failed: {message}", "the hook succeeds")
    return Blocked(
        BlockingStep.RUNTIME,
        f"the runtime to start {name}: {reason}: {message}",
        "put right what the runtime names",
        until=_retry(seen),
    )


def _crashed(seen: PodSituation, container: Container, status: ContainerStatus) -> Blocked:
    killed = seen.newest("Killing", container=container.name)
    why = f"; {killed.fact('said')}" if killed is not None and "probe" in killed.fact("said") else ""
    return Blocked(
        BlockingStep.CRASH_LOOP,
        f"container {container.name} to be started again: it {_exit(status)}, "
        f"was restarted {status.restart_count} times, and the back-off grows{why}",
        f"it stops failing; its log tells why: {_logs(seen, container)}",
        until=_retry(seen),
    )


def _starting(seen: PodSituation, container: Container) -> Blocked:
    """What comes before the first attempt to start a container."""
    retry, volumes, start = seen.at(WaitStage.RETRY), seen.at(WaitStage.VOLUMES), seen.at(WaitStage.START)
    hook = seen.below(WaitStage.HOOKS)
    why = retry.what.removeprefix("another try: ") if retry is not None else ""
    if why.startswith(_NETWORK):
        return Blocked(BlockingStep.NETWORK, f"the network of its node: {why}", "the node's network plugin gets ready")
    entry = seen.newest("FailedMount", "Scheduled", "Pulling", "Pulled", "FailedCreatePodSandBox", "Created")
    is_volume = entry is not None and entry.what == "FailedMount"
    if volumes is not None or "mount volumes" in why or (is_volume and not seen.is_from_node):
        return _volumes(seen, entry if is_volume else None)
    if hook is not None:
        return Blocked(BlockingStep.HOOK, f"the {hook.what} to end", "the hook ends", since=hook.since)
    if entry is not None and entry.what == "FailedCreatePodSandBox":
        return Blocked(
            BlockingStep.RUNTIME, f"its sandbox: {entry.fact('said')}", "the runtime can make one", since=entry.at
        )
    if entry is not None and entry.what == "Pulling" and (start is not None or not seen.is_from_node):
        name = entry.fact("container") or container.name
        what = f"the image of container {name}, which is being pulled: {entry.fact('said')}"
        return Blocked(BlockingStep.IMAGE, what, "the pull ends", since=entry.last_at or entry.at)
    if why:
        return Blocked(BlockingStep.RUNTIME, f"its node to start it, which failed: {why}", "", until=_retry(seen))
    if start is not None:
        what = f"the runtime to start container {container.name}"
        return Blocked(BlockingStep.START, what, "the runtime answers", since=start.since)
    return Blocked(BlockingStep.START, f"its node {seen.pod.spec.node_name} to start it", "the node takes it up")


def _volumes(seen: PodSituation, entry: TrailEntry | None) -> Blocked:
    wait, retry = seen.at(WaitStage.VOLUMES), seen.at(WaitStage.RETRY)
    said = entry.fact("said") if entry is not None else ""
    since = wait.since if wait is not None else retry.since if retry is not None else None
    if _MISSING.search(said):
        return Blocked(
            BlockingStep.CONFIGURATION, f"what one of its volumes is made of: {said}", _mend(said), since=since
        )
    if said:
        return Blocked(BlockingStep.VOLUME, f"its volumes: {said}", "put right what the node names", since=since)
    names = ", ".join(volume.name for volume in seen.pod.spec.volumes)
    return Blocked(
        BlockingStep.VOLUME,
        f"its volumes to be made: {names}",
        "the file system under them answers; a server that is gone comes back",
        since=since,
    )


def _mend(message: str) -> str:
    missing = _MISSING.search(message)
    if missing is None:
        return "put right what the node names"
    if missing["name"]:
        return f"create the {missing[1]} {missing['name']} in the pod's namespace; the pod goes on at once"
    return "add the key to the object; the pod goes on at once"


def _comes_back(seen: PodSituation, container: Container, status: ContainerStatus) -> bool:
    policy = seen.pod.spec.restart_policy or "Always"
    if is_restartable_init_container(container) or policy == "Always":
        return True
    ended = status.state.terminated
    return policy == "OnFailure" and ended is not None and ended.exit_code != 0


def _exit(status: ContainerStatus) -> str:
    ended = status.state.terminated or status.last_state.terminated
    if ended is None:
        return "ended"
    why = f" ({ended.reason})" if ended.reason not in {"", "Error", "Completed"} else ""
    return f"exited with {ended.exit_code}{why}"


def _retry(seen: PodSituation) -> datetime | None:
    wait = seen.at(WaitStage.RETRY)
    return wait.until if wait is not None else None


def _logs(seen: PodSituation, container: Container, *, previous: bool = True) -> str:
    meta = seen.pod.metadata
    return f"kubectl logs {meta.name} -n {meta.namespace} -c {container.name}" + (" --previous" if previous else "")


_CHECKS: tuple[Callable[[PodSituation], Blocked | None], ...] = (
    blocked_by_termination,
    _refused,
    _ended,
    _unscheduled,
    partial(_at_stage, WaitStage.ADMISSION),
    _turn,
    partial(_at_stage, WaitStage.SOURCES),
    _node,
    blocked_by_containers,
    _gate,
    _unsent,
    partial(_at_stage, WaitStage.CLAIMS),
)
