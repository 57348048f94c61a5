"""When to probe a container, and what follows from what its probe found.

In: what is probed, what is remembered of it, the pod's status, the time, the finding. Out: a `Step`: what to remember,
whether to probe now, which results to set, whether to go on at all. Pure.

Upstream: pkg/kubelet/prober/worker.go (doProbe). On purpose otherwise: a container that the API showed as ready or
started before this agent was there stays so until its probe says otherwise.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from pykubelet.agent.flow import ProbeKind, ProbeVerdict
from pykubelet.api.generated.core import Container, ContainerStatus, Pod, PodStatus, Probe
from pykubelet.api.pods import is_restartable_init_container, is_terminal
from pykubelet.api.times import parse_time

INITIAL_RESULTS = {
    ProbeKind.LIVENESS: ProbeVerdict.SUCCESS,
    ProbeKind.READINESS: ProbeVerdict.FAILURE,
    ProbeKind.STARTUP: ProbeVerdict.UNKNOWN,
}
"""What counts for a new container until its probe has said something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One probe of one container."""

    pod: Pod
    container: Container
    kind: ProbeKind
    probe: Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is remembered from one look to the next; `run` is how often in a row the probe found `last`."""

    container_id: str = ""
    last: ProbeVerdict = ProbeVerdict.SUCCESS
    run: int = 0
    is_on_hold: bool = False
    """Nothing is probed until there is a new container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What follows from one look: forget the result of `forgotten`, then set `results`, all of the remembered container."""

    memory: Memory
    keep_going: bool = True
    should_probe: bool = False
    forgotten: str = ""
    results: tuple[ProbeVerdict, ...] = ()


def probe_of(container: Container, kind: ProbeKind) -> Probe | None:
    """The probe of this kind that a container has."""
    if kind == ProbeKind.LIVENESS:
        return container.liveness_probe
    return container.readiness_probe if kind == ProbeKind.READINESS else container.startup_probe


def examine(subject: Subject, memory: Memory, status: PodStatus | None, now: datetime) -> Step:
    """One look at the pod's status, before any probing."""
    if status is None:
        return Step(memory=memory)
    if is_terminal(status.phase):
        return Step(memory=memory, keep_going=False)
    container = _status_with_id(status, subject.container.name)
    if container is None:
        return Step(memory=memory)
    if container.container_id == memory.container_id:
        step = Step(memory=memory)
    else:
        known = replace(memory, container_id=container.container_id, is_on_hold=False)
        step = Step(memory=known, forgotten=memory.container_id, results=(INITIAL_RESULTS[subject.kind],))
    return step if step.memory.is_on_hold else _examine_container(subject, step, container, now)


def conclude(subject: Subject, memory: Memory, found: ProbeVerdict) -> Step:
    """What a finding changes: nothing until there were enough equal ones in a row."""
    memory = replace(memory, last=found, run=memory.run + 1 if found == memory.last else 1)
    is_failure = found == ProbeVerdict.FAILURE
    threshold = subject.probe.failure_threshold if is_failure else subject.probe.success_threshold
    if memory.run < threshold:
        return Step(memory=memory)
    if subject.kind == ProbeKind.STARTUP or (subject.kind == ProbeKind.LIVENESS and is_failure):
        # The container will be restarted, or has started for good: either way this probe has no more to ask of it.
        memory = replace(memory, is_on_hold=True, run=0)
    return Step(memory=memory, results=(found,))


def taken_over(name: str, kind: ProbeKind, shown: PodStatus) -> tuple[Memory, ProbeVerdict | None]:
    """What to begin with, and the result to go on from, if the API shows that a probe has succeeded already."""
    container = _status_with_id(shown, name)
    if container is None or container.state.running is None or kind == ProbeKind.LIVENESS:
        return Memory(), None
    has_passed = container.ready if kind == ProbeKind.READINESS else container.started
    return (Memory(container_id=container.container_id), ProbeVerdict.SUCCESS) if has_passed else (Memory(), None)


def first_delay_seconds(period_seconds: float, agent_age_seconds: float, random: float) -> float:
    """How long a new probe waits; not at once for all if the agent has only just started."""
    return random * period_seconds if period_seconds > agent_age_seconds else 0.0


def next_tick(last: float, now: float, period_seconds: float) -> float:
    """When the tick after `last` is due; of those missed meanwhile one is made up for, the others are left out."""
    return last + max(int((now - last) // period_seconds), 1) * period_seconds


def _status_with_id(status: PodStatus, name: str) -> ContainerStatus | None:
    """The status of a container that was made; a regular one's comes first."""
    return _find(status.container_statuses, name) or _find(status.init_container_statuses, name)


def _find(statuses: Iterable[ContainerStatus], name: str) -> ContainerStatus | None:
    found = next((status for status in statuses if status.name == name), None)
    return found if found is not None and found.container_id else None


def _examine_container(subject: Subject, step: Step, container: ContainerStatus, now: datetime) -> Step:
    running = container.state.running
    if running is None:
        has_ended = container.state.terminated is not None and not _may_restart(subject)
        return replace(step, keep_going=not has_ended, results=(*step.results, ProbeVerdict.FAILURE))
    is_readiness = subject.kind == ProbeKind.READINESS
    if subject.pod.metadata.deletion_timestamp is not None and not is_readiness:
        # A last good word, so that nobody restarts what is going away.
        return replace(step, keep_going=False, results=(*step.results, ProbeVerdict.SUCCESS))
    if running.started_at is not None and _whole_seconds(running.started_at, now) < subject.probe.initial_delay_seconds:
        return step
    is_startup = subject.kind == ProbeKind.STARTUP
    # A startup probe asks until the container has started, the others from then on.
    return replace(step, should_probe=is_startup != bool(container.started))


def _may_restart(subject: Subject) -> bool:
    pod, container = subject.pod, subject.container
    if pod.spec.restart_policy != "Never":
        return True
    is_init = any(init.name == container.name for init in pod.spec.init_containers)
    return is_init and is_restartable_init_container(container)


def _whole_seconds(since: str, now: datetime) -> int:
    return int((now - parse_time(since)).total_seconds())
