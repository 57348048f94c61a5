"""The status of a pod, made of everything known about it.

In: the pod, what was last reported of it, what the runtime has, what the node knows. Out: the whole status, without
times: the manager adds those when something has changed. A pod never leaves a terminal phase. Pure.
Upstream: generateAPIPodStatus in pkg/kubelet/kubelet_pods.go.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from pykubelet.agent.status import conditions as make
from pykubelet.agent.status.addresses import with_addresses
from pykubelet.agent.status.condition_list import Conditions, find_condition, replace_or_append
from pykubelet.agent.status.container_statuses import (
    Sightings,
    ephemeral_statuses,
    init_statuses,
    regular_statuses,
)
from pykubelet.agent.status.deadline import PodEnd
from pykubelet.agent.status.phase import FAILED, pod_phase
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.pods import OWNED_CONDITIONS, is_terminal
from pykubelet.api.quality_of_service import qos_class
from pykubelet.api.wire import to_document
from pykubelet.runtime.protocol import RuntimePod
from pykubelet.runtime.sandbox_need import sandbox_need

Probed: TypeAlias = Callable[[Pod, PodStatus], PodStatus]
"""Fills in which containers have started and are ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a status is made of, besides the pod.

    `reported` is the last status of the pod that the node knows of, its own if it made one. `is_ending` says that no
    container of it will be started again, `end` why the node ends it. `resize` are its resize conditions.
    """

    seen: Sightings
    reported: PodStatus
    host_ips: tuple[str, ...] = ()
    resize: Conditions = ()
    is_ending: bool = False
    end: PodEnd | None = None


def generate_status(pod: Pod, known: Known, probed: Probed) -> PodStatus:
    """The status of a pod as of now."""
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


def _with_phase(pod: Pod, status: PodStatus, known: Known) -> PodStatus:
    old = known.reported
    # Upstream lets one terminal phase follow another; here the first that was told stays.
    phase = next((one for one in (pod.status.phase, old.phase) if is_terminal(one)), "")
    if not phase and known.end is not None:
        return replace(status, phase=FAILED, reason=known.end.reason, message=known.end.message)
    phase = phase or pod_phase(
        pod,
        (*status.container_statuses, *status.init_container_statuses),
        is_terminal=known.is_ending,
        has_initialized=_has_active_container(pod, known.seen.runtime),
    )
    # Reason and message belong to a phase: they stay while it does, and the API's come with its end.
    if phase == old.phase:
        reason, message = old.reason or pod.status.reason, old.message or pod.status.message
    elif is_terminal(pod.status.phase):
        reason, message = pod.status.reason, pod.status.message
    else:
        reason = message = ""
    return replace(status, phase=phase, reason=reason, message=message)


def _has_active_container(pod: Pod, observed: RuntimePod) -> bool:
    """Whether a regular container was made in the present sandbox, so that the pod has been initialized in it."""
    if not observed.sandboxes or not observed.sandboxes[0].is_ready:
        return False
    names = {container.name for container in pod.spec.containers}
    sandbox_id = observed.sandboxes[0].id
    return any(one.name in names and one.sandbox_id == sandbox_id for one in observed.containers)


def _conditions(pod: Pod, status: PodStatus, known: Known) -> Conditions:
    """Those of others as the API has them, then ours."""
    old, phase = known.reported, status.phase
    found: Conditions = tuple(one for one in pod.status.conditions if one.type not in OWNED_CONDITIONS)
    found += () if known.is_ending else known.resize
    if (disruption := find_condition(old.conditions, "DisruptionTarget")) is not None:
        # It tells of something that happened once, so it cannot be made anew.
        found = replace_or_append(found, disruption)
    statuses = (*status.init_container_statuses, *status.container_statuses)
    has_sandbox = not sandbox_need(pod, known.seen.runtime).is_new
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
