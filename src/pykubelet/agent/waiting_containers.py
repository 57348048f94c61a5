"""What a pod that is to run waits for: volumes, an image, a probe, the back-off of a crash.

In: a `Situation`. Out: `Blocked` for the first container that is not ready, or nothing if all are. Pure.
"""

import re
from datetime import datetime

from pykubelet.agent.explanation import Blocked, Situation, Step
from pykubelet.agent.flow import WaitAt
from pykubelet.agent.trail import TrailEntry
from pykubelet.api.generated.core import Container, ContainerStateWaiting, ContainerStatus, Probe
from pykubelet.api.pods import is_restartable_init_container
from pykubelet.api.times import parse_time

_IMAGE = {
    "ErrImagePull": "put right the image's name or the pull secrets, or wait until its registry answers",
    "ImagePullBackOff": "put right the image's name or the pull secrets, or wait until its registry answers",
    "ErrImageNeverPull": "bring the image onto the node, or set imagePullPolicy to IfNotPresent",
    "InvalidImageName": "write the image's name as HOST/PATH:TAG",
    "ImageInspectError": "the runtime can look at the image again",
    "RegistryUnavailable": "its registry answers again",
    "SignatureValidationFailed": "an image whose signature is good",
}
_NOT_STARTED = frozenset({"", "ContainerCreating", "PodInitializing"})
# Both words are the API's, and the names of objects hold no quote.
_MISSING = re.compile(r'(configmap|secret) "(?P<name>[^"]+)" not found|non-existent (config|secret) key')
_NETWORK = "network is not ready"


def containers(seen: Situation) -> Blocked | None:
    """The first thing that keeps a container from being ready, init containers first."""
    status, spec = seen.status, seen.pod.spec
    known = {one.name: one for one in (*status.init_container_statuses, *status.container_statuses)}
    # A container that runs proves that all before it are through, even if nothing is known of them any more.
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
    # One that has not had its turn says less than one that went wrong.
    return min(blocks, key=lambda found: found.step is Step.START, default=None)


def _init(seen: Situation, container: Container, status: ContainerStatus) -> Blocked | None:
    state = status.state
    if is_restartable_init_container(container):
        return None if status.started else _regular(seen, container, status)
    if state.terminated is not None and state.terminated.exit_code == 0:
        return None
    found = _not_running(seen, container, status)
    if found is not None and found.step is not Step.CRASH_LOOP:
        return found
    name = f"init container {container.name}"
    logs = f"its log tells why: {_logs(seen, container, previous=state.running is None)}"
    if found is not None:
        return Blocked(Step.INIT_CONTAINER, f"{name}, {found.what}", f"it exits with 0; {logs}", until=found.until)
    if state.running is not None:
        since = parse_time(state.running.started_at) if state.running.started_at else None
        return Blocked(Step.INIT_CONTAINER, f"{name} to end: it runs", f"it exits with 0; {logs}", since=since)
    return Blocked(Step.INIT_CONTAINER, f"{name}, which {_exit(status)}", f"it exits with 0; {logs}")


def _regular(seen: Situation, container: Container, status: ContainerStatus) -> Blocked | None:
    if status.ready:
        return None
    found = _not_running(seen, container, status)
    if found is not None:
        return found
    name = f"container {container.name}"
    if status.state.running is None:
        return Blocked(
            Step.CONTAINER_ENDED,
            f"{name}, which {_exit(status)} and is not started again: restartPolicy is {seen.pod.spec.restart_policy}",
            f"change the container or the restartPolicy; its log: {_logs(seen, container)}",
        )
    if container.startup_probe is not None and not status.started:
        return _probe(seen, container, Step.STARTUP_PROBE, "Startup", container.startup_probe)
    if container.readiness_probe is not None:
        return _probe(seen, container, Step.READINESS_PROBE, "Readiness", container.readiness_probe)
    return Blocked(Step.START, f"{name}: it runs, and is about to be called ready")


def _probe(seen: Situation, container: Container, step: Step, kind: str, probe: Probe) -> Blocked:
    note = seen.newest("Unhealthy", container=container.name, said=f"{kind} probe")
    what = f"the {kind.lower()} probe of container {container.name}"
    if note is None:
        return Blocked(
            step,
            f"{what}: it has not passed yet, it is asked every {max(probe.period_seconds, 1)} s "
            f"after {probe.initial_delay_seconds} s",
            "it passes",
        )
    return Blocked(
        step,
        f"{what} to pass: {note.fact('said').partition(': ')[2].strip() or note.fact('said')}",
        f"the container answers it; its log: {_logs(seen, container, previous=False)}",
        since=note.at,
    )


def _not_running(seen: Situation, container: Container, status: ContainerStatus) -> Blocked | None:
    """What keeps a container from running, if something does."""
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
            Step.IMAGE,
            f"the image {container.image} of {name}: {message or reason}",
            _IMAGE[reason],
            until=_retry(seen),
        )
    if reason == "CreateContainerConfigError":
        return Blocked(Step.CONFIGURATION, f"what {name} is configured with: {message}", _mend(message))
    if reason == "CrashLoopBackOff":
        return _crashed(seen, container, status)
    if reason == "PostStartHookError":
        return Blocked(Step.HOOK, f"the postStart hook of {name}, which failed: {message}", "the hook succeeds")
    return Blocked(
        Step.RUNTIME,
        f"the runtime to start {name}: {reason}: {message}",
        "put right what the runtime names",
        until=_retry(seen),
    )


def _crashed(seen: Situation, container: Container, status: ContainerStatus) -> Blocked:
    killed = seen.newest("Killing", container=container.name)
    why = f"; {killed.fact('said')}" if killed is not None and "probe" in killed.fact("said") else ""
    return Blocked(
        Step.CRASH_LOOP,
        f"container {container.name} to be started again: it {_exit(status)}, "
        f"was restarted {status.restart_count} times, and has to wait ever longer{why}",
        f"it stops failing; its log tells why: {_logs(seen, container)}",
        until=_retry(seen),
    )


def _starting(seen: Situation, container: Container) -> Blocked:
    """What comes before a container is tried at all."""
    retry, volumes, start = seen.at(WaitAt.RETRY), seen.at(WaitAt.VOLUMES), seen.at(WaitAt.START)
    hook = seen.below(WaitAt.HOOKS)
    why = retry.what.removeprefix("another try: ") if retry is not None else ""
    if why.startswith(_NETWORK):
        return Blocked(Step.NETWORK, f"the network of its node: {why}", "the node's network plugin gets ready")
    told = seen.newest("FailedMount", "Scheduled", "Pulling", "Pulled", "FailedCreatePodSandBox", "Created")
    is_volume = told is not None and told.what == "FailedMount"
    if volumes is not None or "mount volumes" in why or (is_volume and not seen.is_from_node):
        return _volumes(seen, told if is_volume else None)
    if hook is not None:
        return Blocked(Step.HOOK, f"the {hook.what} to end", "the hook ends", since=hook.since)
    if told is not None and told.what == "FailedCreatePodSandBox":
        return Blocked(Step.RUNTIME, f"its sandbox: {told.fact('said')}", "the runtime can make one", since=told.at)
    if told is not None and told.what == "Pulling" and (start is not None or not seen.is_from_node):
        name = told.fact("container") or container.name
        what = f"the image of container {name}, which is being pulled: {told.fact('said')}"
        return Blocked(Step.IMAGE, what, "the pull ends", since=told.last_at or told.at)
    if why:
        return Blocked(Step.RUNTIME, f"its node to start it, which failed: {why}", "", until=_retry(seen))
    if start is not None:
        what = f"the runtime to start container {container.name}"
        return Blocked(Step.START, what, "the runtime answers", since=start.since)
    return Blocked(Step.START, f"its node {seen.pod.spec.node_name} to start it", "the node takes it up")


def _volumes(seen: Situation, told: TrailEntry | None) -> Blocked:
    wait, retry = seen.at(WaitAt.VOLUMES), seen.at(WaitAt.RETRY)
    said = told.fact("said") if told is not None else ""
    since = wait.since if wait is not None else retry.since if retry is not None else None
    if _MISSING.search(said):
        return Blocked(Step.CONFIGURATION, f"what one of its volumes is made of: {said}", _mend(said), since=since)
    if said:
        return Blocked(Step.VOLUME, f"its volumes: {said}", "put right what the node names", since=since)
    names = ", ".join(volume.name for volume in seen.pod.spec.volumes)
    return Blocked(
        Step.VOLUME,
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


def _comes_back(seen: Situation, container: Container, status: ContainerStatus) -> bool:
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


def _retry(seen: Situation) -> datetime | None:
    wait = seen.at(WaitAt.RETRY)
    return wait.until if wait is not None else None


def _logs(seen: Situation, container: Container, *, previous: bool = True) -> str:
    meta = seen.pod.metadata
    return f"kubectl logs {meta.name} -n {meta.namespace} -c {container.name}" + (" --previous" if previous else "")
