"""Generates the status of a pod from everything the node knows about it.

The status has no times: the status manager adds them when something changed. A pod never leaves a terminal phase. A
container that ended but will be restarted counts as stopped for the phase, so that a crashing pod stays Running. A pod
whose sandbox is gone keeps its addresses; the family of the node's primary address comes first.

Upstream: pkg/kubelet/kubelet_pods.go, pkg/kubelet/active_deadline.go, pkg/kubelet/pleg/generic.go
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import TypeAlias

from msgspec.structs import replace

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import ContainerStatus, HostIP, Pod, PodIP, PodStatus
from pykubelet.api.names import parse_address
from pykubelet.api.pod_resources import qos_class
from pykubelet.api.pods import OWNED_CONDITIONS, PodUid, is_restartable_init_container, is_static_pod, is_terminal
from pykubelet.api.pods import is_terminal as is_terminal_phase
from pykubelet.api.serializer import to_document
from pykubelet.api.times import parse_time, seconds_after
from pykubelet.client.recorder import NORMAL, EventRecorder, reference_to
from pykubelet.kubelet.kuberuntime.pod_actions import SyncResult, pod_sandbox_changed
from pykubelet.kubelet.status import conditions as make
from pykubelet.kubelet.status.conditions import Conditions, find_condition, replace_or_append
from pykubelet.kubelet.status.container_statuses import (
    ContainerObservations,
    ReasonCache,
    ephemeral_statuses,
    init_statuses,
    regular_statuses,
)
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.runtimes.protocol import RuntimePod


def with_addresses(
    pod: Pod, status: PodStatus, *, observed: RuntimePod, old: PodStatus, host_ips: Sequence[str]
) -> PodStatus:
    """The status with host and pod addresses; without `host_ips` the node does not know its own yet."""
    pod_ips = _pod_ips(pod, observed, old, host_ips)
    hosts = tuple(HostIP(ip=ip) for ip in host_ips[:2]) if host_ips else old.host_ips
    return replace(
        status,
        host_ip=hosts[0].ip if hosts else "",
        host_ips=hosts,
        pod_ip=pod_ips[0] if pod_ips else "",
        pod_ips=tuple(PodIP(ip=ip) for ip in pod_ips),
    )


def in_order(ips: Sequence[str], host_ips: Sequence[str]) -> tuple[str, ...]:
    """The first address of the node's primary family, then the first of the other; invalid ones are dropped."""
    first: dict[int, str] = {}
    for ip in ips:
        address = parse_address(ip)
        if address is not None:
            first.setdefault(address.version, str(address))
    primary = _version(host_ips[0]) if host_ips else 4
    return tuple(first[version] for version in sorted(first, key=lambda version: version != primary))


def _pod_ips(pod: Pod, observed: RuntimePod, old: PodStatus, host_ips: Sequence[str]) -> tuple[str, ...]:
    newest = observed.sandboxes[0] if observed.sandboxes else None
    ips = in_order(newest.ips, host_ips) if newest is not None and newest.is_ready else ()
    had = tuple(one.ip for one in old.pod_ips)
    if pod.spec.host_network:
        ips = ips or had or tuple(host_ips[:1])
        # The node may have received its second address since.
        is_lacking = len(ips) == 1 and len(host_ips) > 1 and _version(ips[0]) != _version(host_ips[1])
        return (*ips, host_ips[1]) if is_lacking else ips
    return ips if ips or any(sandbox.is_ready for sandbox in observed.sandboxes) else had


def _version(ip: str) -> int | None:
    address = parse_address(ip)
    return address.version if address is not None else None


@dataclass(frozen=True, slots=True)
class DeadlineResult:
    """Reason and message of a pod that exceeded activeDeadlineSeconds."""

    reason: str
    message: str


DEADLINE_EXCEEDED = DeadlineResult("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


def deadline_at(pod: Pod, reported: PodStatus) -> datetime | None:
    """When activeDeadlineSeconds ends; None without one, or before the pod started. `reported` is the last status."""
    limit = pod.spec.active_deadline_seconds
    if limit is None or reported.start_time is None:
        return None
    return seconds_after(parse_time(reported.start_time), limit)


def deadline_exceeded(pod: Pod, reported: PodStatus, now: datetime) -> DeadlineResult | None:
    """The result for a pod whose deadline has passed; None otherwise."""
    deadline = deadline_at(pod, reported)
    return DEADLINE_EXCEEDED if deadline is not None and now >= deadline else None


PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


class _Is(Enum):
    """How a container counts for the phase."""

    UNKNOWN = auto()
    RUNNING = auto()
    WAITING = auto()
    STOPPED = auto()


def pod_phase(
    pod: Pod, statuses: Iterable[ContainerStatus], *, is_terminal: bool = False, has_initialized: bool = False
) -> str:
    """The phase; `statuses` are those of init and regular containers together.

    `is_terminal` means that no container will be started again, `has_initialized` that a regular container was started
    in the current sandbox.
    """
    # If a name occurs twice, the first one counts.
    by_name = {status.name: status for status in reversed(tuple(statuses))}
    plain = [one for one in pod.spec.init_containers if not is_restartable_init_container(one)]
    if any(_has_failed(by_name.get(one.name)) for one in plain) and pod.spec.restart_policy == "Never":
        return FAILED
    if any(_is_pending(by_name.get(one.name)) for one in plain):
        return PENDING
    sidecars = [by_name.get(one.name) for one in pod.spec.init_containers if is_restartable_init_container(one)]
    if not has_initialized and any(map(_is_pending_sidecar, sidecars)):
        return PENDING
    return _phase_of_initialized(pod, sidecars, by_name, is_terminal=is_terminal)


def _phase_of_initialized(
    pod: Pod, sidecars: Iterable[ContainerStatus | None], by_name: Mapping[str, ContainerStatus], *, is_terminal: bool
) -> str:
    regular = [by_name.get(container.name) for container in pod.spec.containers]
    counts = Counter(_kind(one) for one in regular)
    stopped = counts[_Is.STOPPED]
    # Stopped sidecars do not affect the phase.
    counts.update(_kind(one) for one in sidecars)
    if counts[_Is.WAITING] or counts[_Is.UNKNOWN]:
        return PENDING
    if counts[_Is.RUNNING]:
        return RUNNING
    if not stopped:
        return PENDING
    all_succeeded = all(map(_has_succeeded, regular))
    # A static pod ends only by its containers' restart policy.
    if is_terminal and not is_static_pod(pod):
        return SUCCEEDED if all_succeeded else FAILED
    if pod.spec.restart_policy == "Always":
        return RUNNING
    if all_succeeded:
        return SUCCEEDED
    return FAILED if pod.spec.restart_policy == "Never" else RUNNING


def _kind(status: ContainerStatus | None) -> _Is:
    if status is None:
        return _Is.UNKNOWN
    state = status.state
    if state.running is not None:
        return _Is.RUNNING
    if state.terminated is not None:
        return _Is.STOPPED
    if state.waiting is not None:
        return _Is.STOPPED if status.last_state.terminated is not None else _Is.WAITING
    return _Is.UNKNOWN


def _has_succeeded(status: ContainerStatus | None) -> bool:
    ended = status.state.terminated if status is not None else None
    return ended is not None and ended.exit_code == 0


def _has_failed(status: ContainerStatus | None) -> bool:
    """Whether a regular init container has failed, even if it will be retried."""
    if status is None or status.state.running is not None:
        return False
    ended = status.state.terminated
    if ended is None and status.state.waiting is not None:
        ended = status.last_state.terminated
    return ended is not None and ended.exit_code != 0


def _is_pending(status: ContainerStatus | None) -> bool:
    return _kind(status) is not _Is.STOPPED


def _is_pending_sidecar(status: ContainerStatus | None) -> bool:
    if status is None:
        return False
    kind = _kind(status)
    return kind in {_Is.WAITING, _Is.UNKNOWN} or (kind is _Is.RUNNING and not status.started)


Probed: TypeAlias = Callable[[Pod, PodStatus], PodStatus]
"""Sets `started` and `ready` of each container from its probes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusInputs:
    """What a status is generated from, besides the pod.

    `reported` is the last known status, the node's own if there is one. `is_ending` means that no container will be
    started again, `end` that a deadline was exceeded. `resize` are the resize conditions.
    """

    seen: ContainerObservations
    reported: PodStatus
    host_ips: tuple[str, ...] = ()
    resize: Conditions = ()
    is_ending: bool = False
    end: DeadlineResult | None = None


def generate_status(pod: Pod, known: StatusInputs, probed: Probed) -> PodStatus:
    old, seen = known.reported, known.seen
    status = PodStatus(
        qos_class=pod.status.qos_class or old.qos_class or qos_class(to_document(pod.spec)),
        container_statuses=regular_statuses(pod, seen, old.container_statuses),
        init_container_statuses=init_statuses(pod, seen, old.init_container_statuses),
        ephemeral_container_statuses=ephemeral_statuses(pod, seen, old.ephemeral_container_statuses),
    )
    status = probed(pod, _with_phase(pod, status, known))
    status = replace(status, conditions=_conditions(pod, status, known))
    return with_addresses(pod, status, observed=seen.runtime, old=old, host_ips=known.host_ips)


def _with_phase(pod: Pod, status: PodStatus, known: StatusInputs) -> PodStatus:
    old = known.reported
    # Upstream lets one terminal phase follow another; here the first one stays.
    phase = next((one for one in (pod.status.phase, old.phase) if is_terminal(one)), "")
    if not phase and known.end is not None:
        return replace(status, phase=FAILED, reason=known.end.reason, message=known.end.message)
    phase = phase or pod_phase(
        pod,
        (*status.container_statuses, *status.init_container_statuses),
        is_terminal=known.is_ending,
        has_initialized=_has_active_container(pod, known.seen.runtime),
    )
    # Reason and message belong to the phase: they stay with it, and the API's come with its terminal phase.
    if phase == old.phase:
        reason, message = old.reason or pod.status.reason, old.message or pod.status.message
    elif is_terminal(pod.status.phase):
        reason, message = pod.status.reason, pod.status.message
    else:
        reason = message = ""
    return replace(status, phase=phase, reason=reason, message=message)


def _has_active_container(pod: Pod, observed: RuntimePod) -> bool:
    """Whether a regular container was created in the current sandbox, so the pod was initialized in it."""
    if not observed.sandboxes or not observed.sandboxes[0].is_ready:
        return False
    names = {container.name for container in pod.spec.containers}
    sandbox_id = observed.sandboxes[0].id
    return any(one.name in names and one.sandbox_id == sandbox_id for one in observed.containers)


def _conditions(pod: Pod, status: PodStatus, known: StatusInputs) -> Conditions:
    """The conditions of others as the API has them, then the kubelet's own."""
    old, phase = known.reported, status.phase
    found: Conditions = tuple(one for one in pod.status.conditions if one.type not in OWNED_CONDITIONS)
    found += () if known.is_ending else known.resize
    if (disruption := find_condition(old.conditions, "DisruptionTarget")) is not None:
        # The condition records a past event, so it cannot be generated again.
        found = replace_or_append(found, disruption)
    statuses = (*status.init_container_statuses, *status.container_statuses)
    has_sandbox = not pod_sandbox_changed(pod, known.seen.runtime).is_new
    found += (
        make.pod_ready_to_start_containers(pod, old, has_sandbox=has_sandbox),
        make.pod_initialized(pod, old, statuses, phase),
    )
    return (
        *found,
        make.pod_ready(pod, old, found, statuses, phase),
        make.containers_ready(pod, old, statuses, phase),
        make.pod_scheduled(pod, old),
    )


class StatusReporter:
    """Generates the statuses of pods for their workers and passes them to the status manager.

    `host_ips` returns the node's one or two addresses, the primary first, none while unknown; `runtime_name` is the
    scheme of container IDs.
    """

    def __init__(
        self,
        *,
        manager: StatusManager,
        reasons: ReasonCache,
        probed: Probed,
        host_ips: Callable[[], tuple[str, ...]],
        recorder: EventRecorder,
        clock: Clock,
        runtime_name: str,
    ) -> None:
        self.manager, self._reasons, self._probed, self._host_ips = manager, reasons, probed, host_ips
        self._recorder, self._clock, self._runtime_name = recorder, clock, runtime_name

    def generate(self, pod: Pod, observed: RuntimePod, *, is_terminal: bool) -> PodStatus:
        """The status of a pod; `is_terminal` means that none of its containers will be started again."""
        uid = PodUid(pod.metadata.uid)
        reported = self.manager.pod_status(uid) or self.manager.shown_status(pod)
        end = deadline_exceeded(pod, reported, self._clock.now())
        if end is not None and not is_terminal_phase(reported.phase):
            self._recorder.event(reference_to(pod), NORMAL, end.reason, end.message)
        seen = ContainerObservations(
            runtime=observed, runtime_name=self._runtime_name, start_failures=self._reasons.failures_of(pod)
        )
        known = StatusInputs(
            seen=seen,
            reported=reported,
            host_ips=self._host_ips(),
            resize=self.manager.resize.of(uid),
            is_ending=is_terminal,
            end=end,
        )
        return generate_status(pod, known, self._probed)

    def note_start_results(self, uid: PodUid, results: Sequence[SyncResult]) -> None:
        """Remember why containers did not start, for their statuses."""
        self._reasons.update(uid, results)
