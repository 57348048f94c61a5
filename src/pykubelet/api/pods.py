"""Properties of pods: identity, source, priority, requests, host ports, conditions, AppArmor profiles.

A static pod has two UIDs: its own, which the node uses, and that of its mirror pod, which the API server knows.
Confusing the two is a classic source of bugs, so they are two types.

Upstream: pkg/kubelet/types/pod_update.go, pkg/kubelet/types/pod_status.go, pkg/api/v1/pod/util.go, pkg/util/pod/pod.go,
staging/src/k8s.io/component-helpers/resource/helpers.go, pkg/scheduler/util/utils.go, pkg/security/apparmor/helpers.go
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NewType

from msgspec import Struct

from pykubelet.api.generated.core import AppArmorProfile, Container, EphemeralContainer, Pod, PodCondition
from pykubelet.api.pod_resources import container_sums, is_native, is_pod_level, qos_class
from pykubelet.api.quantity import Quantity, add, parse_quantity
from pykubelet.api.serializer import Document, to_document
from pykubelet.api.times import format_time

AnyContainer = Container | EphemeralContainer
"""A container of a pod spec, whatever its list."""

PodUid = NewType("PodUid", str)
"""UID of a pod as the node knows it; for a static pod, not that of its mirror."""

MirrorUid = NewType("MirrorUid", str)
"""UID of a mirror pod, assigned by the API server."""

NO_MIRROR = MirrorUid("")
"""A static pod without a mirror pod yet."""


def full_name(name: str, namespace: str) -> str:
    """Returns `name_namespace`, which is unambiguous because neither part may contain an underscore."""
    return f"{name}_{namespace}"


def parse_full_name(text: str) -> tuple[str, str]:
    """Splits a full name into name and namespace; raises ValueError."""
    parts = text.split("_")
    if len(parts) != 2 or not all(parts):
        raise ValueError(f'failed to parse the pod full name "{text}"')
    return parts[0], parts[1]


def qos_class_of(pod: Pod) -> str:
    """The QoS class of a pod; computed for static pods, whose status has none."""
    return pod.status.qos_class or qos_class(to_document(pod.spec))


CONFIG_SOURCE = "kubernetes.io/config.source"
CONFIG_HASH = "kubernetes.io/config.hash"
CONFIG_MIRROR = "kubernetes.io/config.mirror"
CONFIG_SEEN = "kubernetes.io/config.seen"
LOCAL_ANNOTATIONS = frozenset({CONFIG_SOURCE, CONFIG_MIRROR, CONFIG_SEEN})
"""Annotations written by the node itself; differences in them do not count as changes of the pod."""

API_SOURCE = "api"
TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
# Twice the highest priority that a user may define.
SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
NODE_CRITICAL_CLASS = "system-node-critical"

OWNED_CONDITIONS = frozenset(
    {
        "PodScheduled",
        "Ready",
        "Initialized",
        "ContainersReady",
        "PodReadyToStartContainers",
        "PodResizeInProgress",
        "PodResizePending",
    }
)
SHARED_CONDITIONS = frozenset({"DisruptionTarget"})


def pod_full_name(pod: Pod) -> str:
    return full_name(pod.metadata.name, pod.metadata.namespace)


def pod_label(pod: Pod) -> str:
    """Returns `namespace/name` for logs and messages."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def pod_source(pod: Pod) -> str:
    """Returns the source of the pod from its annotation; raises ValueError if there is none."""
    try:
        return pod.metadata.annotations[CONFIG_SOURCE]
    except KeyError:
        raise ValueError(f'cannot get source of pod "{pod.metadata.uid}"') from None


def is_static_pod(pod: Pod) -> bool:
    """Whether the pod comes from a file or a URL. A pod without a source is not static."""
    source = pod.metadata.annotations.get(CONFIG_SOURCE)
    return source is not None and source != API_SOURCE


def is_mirror_pod(pod: Pod) -> bool:
    """Whether the pod is the mirror of a static pod; only the presence of the annotation counts."""
    return CONFIG_MIRROR in pod.metadata.annotations


def is_terminal(phase: str) -> bool:
    """Whether a pod in this phase never runs again."""
    return phase in TERMINAL_PHASES


def is_critical_by_priority(priority: int) -> bool:
    return priority >= SYSTEM_CRITICAL_PRIORITY


def is_critical_pod(pod: Pod) -> bool:
    """Whether the pod is static, a mirror, or has a system priority."""
    priority = pod.spec.priority
    return is_static_pod(pod) or is_mirror_pod(pod) or (priority is not None and is_critical_by_priority(priority))


def is_node_critical_pod(pod: Pod) -> bool:
    """Whether the pod is critical and has the class system-node-critical."""
    return is_critical_pod(pod) and pod.spec.priority_class_name == NODE_CRITICAL_CLASS


def may_preempt(preemptor: Pod, preemptee: Pod) -> bool:
    if is_critical_pod(preemptor) and not is_critical_pod(preemptee):
        return True
    ours, theirs = preemptor.spec.priority, preemptee.spec.priority
    return ours is not None and theirs is not None and ours > theirs


def all_containers(pod: Pod) -> tuple[AnyContainer, ...]:
    """All containers of a pod: init, regular and ephemeral."""
    return (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)


def is_restartable_init_container(container: Container) -> bool:
    """Whether an init container is a sidecar, which keeps running beside the regular containers."""
    return container.restart_policy == "Always"


def has_restartable_init_container(pod: Pod) -> bool:
    return any(is_restartable_init_container(container) for container in pod.spec.init_containers)


CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  nothing is bound here, this is how a pod asks for all addresses


class HostPort(Struct, frozen=True):
    """A port of the node that a pod occupies, on one address or on all."""

    protocol: str
    port: int
    address: str


def amount(resource: str, quantity: Quantity) -> int:
    """Converts a quantity to an integer: thousandths for CPU, units for other resources."""
    return quantity.milli_value() if resource == CPU else quantity.value()


def amounts(quantities: Mapping[str, str]) -> Mapping[str, int]:
    """Converts a resource list, such as a node's capacity, with `amount`."""
    return {name: amount(name, parse_quantity(text)) for name, text in quantities.items()}


def pod_requests(pod: Pod) -> Mapping[str, int]:
    """Returns the requests of a pod by resource: those of its containers or of the pod itself, plus overhead."""
    total = dict(container_sums(to_document(pod.spec), "requests"))
    if pod.spec.resources is not None:
        total |= {
            name: parse_quantity(text) for name, text in pod.spec.resources.requests.items() if is_pod_level(name)
        }
    for name, text in pod.spec.overhead.items():
        overhead = parse_quantity(text)
        total[name] = add(total[name], overhead) if name in total else overhead
    return {name: amount(name, quantity) for name, quantity in total.items()}


def is_extended(resource: str) -> bool:
    """Whether the resource is an extended resource, not one of Kubernetes' own."""
    return not is_native(resource) and not resource.startswith("requests.")


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Returns the host ports of the regular containers and sidecars."""
    sidecars = (container for container in pod.spec.init_containers if is_restartable_init_container(container))
    return tuple(
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or EVERY_ADDRESS)
        for container in (*sidecars, *pod.spec.containers)
        for port in container.ports
        if port.host_port > 0
    )


def condition_of(pod: Pod, kind: str) -> PodCondition | None:
    return next((condition for condition in pod.status.conditions if condition.type == kind), None)


def condition_patch(pod: Pod, wanted: PodCondition, now: datetime, *, phase: str = "") -> Document | None:
    """Creates the strategic merge patch that sets a condition, and optionally the phase.

    None if nothing changes. The transition time changes only with the status of the condition.
    """
    old = condition_of(pod, wanted.type)
    new_facts = (wanted.status, wanted.reason, wanted.message)
    if old is not None and (old.status, old.reason, old.message) == new_facts and not phase:
        return None
    since = old.last_transition_time if old is not None and old.status == wanted.status else format_time(now)
    condition: Document = {
        "type": wanted.type,
        "status": wanted.status,
        "reason": wanted.reason,
        "message": wanted.message,
        "lastTransitionTime": since,
        "observedGeneration": pod.metadata.generation,
    }
    return _patch(pod, {"conditions": [{name: value for name, value in condition.items() if value}]}, phase)


def phase_patch(pod: Pod, phase: str) -> Document:
    return _patch(pod, {}, phase)


def _patch(pod: Pod, status: Document, phase: str) -> Document:
    if phase:
        status = {**status, "phase": phase, "observedGeneration": pod.metadata.generation}
    # The UID protects a new pod of the same name from this status.
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}


ANNOTATION_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST_PREFIX = "localhost/"
_BY_ANNOTATION = {"runtime/default": "RuntimeDefault", "unconfined": "Unconfined"}


def app_armor_profiles(pod: Pod) -> Iterator[AppArmorProfile]:
    """Returns every profile the pod uses: its own, and those of containers by field or annotation."""
    if pod.spec.security_context is not None and pod.spec.security_context.app_armor_profile is not None:
        yield pod.spec.security_context.app_armor_profile
    for container in all_containers(pod):
        if own := _own_profile(pod, container):
            yield own


def app_armor_profile(pod: Pod, container: AnyContainer) -> AppArmorProfile | None:
    """Returns the profile of a container: its own, by field or annotation, or the pod's."""
    of_pod = pod.spec.security_context.app_armor_profile if pod.spec.security_context is not None else None
    return _own_profile(pod, container) or of_pod


def _own_profile(pod: Pod, container: AnyContainer) -> AppArmorProfile | None:
    context = container.security_context
    if context is not None and context.app_armor_profile is not None:
        return context.app_armor_profile
    return _annotated(pod.metadata.annotations.get(ANNOTATION_PREFIX + container.name, ""))


def _annotated(value: str) -> AppArmorProfile | None:
    if value in _BY_ANNOTATION:
        return AppArmorProfile(type=_BY_ANNOTATION[value])
    if value.startswith(_LOCALHOST_PREFIX):
        return AppArmorProfile(type="Localhost", localhost_profile=value.removeprefix(_LOCALHOST_PREFIX))
    return None
