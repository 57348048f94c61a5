"""What kind of pod is this: static, mirror, critical; and the annotations that say so.

Pure questions about one pod that several stations ask. Upstream: pkg/kubelet/types/{pod_update,pod_status}.go.
"""

from pykubelet.api.generated.core import Container, Pod
from pykubelet.api.keys import full_name

CONFIG_SOURCE = "kubernetes.io/config.source"
CONFIG_HASH = "kubernetes.io/config.hash"
CONFIG_MIRROR = "kubernetes.io/config.mirror"
CONFIG_SEEN = "kubernetes.io/config.seen"
LOCAL_ANNOTATIONS = frozenset({CONFIG_SOURCE, CONFIG_MIRROR, CONFIG_SEEN})
"""Written by the node itself; a difference in them is no difference of the pod."""

API_SOURCE = "api"
TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
# Twice the highest priority a user may define.
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
    """`name_namespace` of a pod."""
    return full_name(pod.metadata.name, pod.metadata.namespace)


def pod_label(pod: Pod) -> str:
    """`namespace/name`, for logs and messages."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def pod_source(pod: Pod) -> str:
    """Where the pod came from; ValueError if nothing says so."""
    try:
        return pod.metadata.annotations[CONFIG_SOURCE]
    except KeyError:
        raise ValueError(f'cannot get source of pod "{pod.metadata.uid}"') from None


def is_static_pod(pod: Pod) -> bool:
    """Whether the pod comes from a file or a URL. A pod without a source is not static."""
    source = pod.metadata.annotations.get(CONFIG_SOURCE)
    return source is not None and source != API_SOURCE


def is_mirror_pod(pod: Pod) -> bool:
    """Whether the pod only shows a static pod in the API; the annotation counts, not its value."""
    return CONFIG_MIRROR in pod.metadata.annotations


def is_terminal(phase: str) -> bool:
    """Whether a pod in this phase will never run again."""
    return phase in TERMINAL_PHASES


def is_critical_by_priority(priority: int) -> bool:
    """Whether a priority is one of the system's."""
    return priority >= SYSTEM_CRITICAL_PRIORITY


def is_critical_pod(pod: Pod) -> bool:
    """Whether the node must keep this pod: static, mirror, or of a system priority."""
    priority = pod.spec.priority
    return is_static_pod(pod) or is_mirror_pod(pod) or (priority is not None and is_critical_by_priority(priority))


def is_node_critical_pod(pod: Pod) -> bool:
    """Whether the pod is critical and says it is critical for its node."""
    return is_critical_pod(pod) and pod.spec.priority_class_name == NODE_CRITICAL_CLASS


def may_preempt(preemptor: Pod, preemptee: Pod) -> bool:
    """Whether one pod may push out another."""
    if is_critical_pod(preemptor) and not is_critical_pod(preemptee):
        return True
    ours, theirs = preemptor.spec.priority, preemptee.spec.priority
    return ours is not None and theirs is not None and ours > theirs


def is_restartable_init_container(container: Container) -> bool:
    """Whether an init container is a sidecar: it keeps running beside the regular ones."""
    return container.restart_policy == "Always"


def has_restartable_init_container(pod: Pod) -> bool:
    """Whether the pod has a sidecar."""
    return any(is_restartable_init_container(container) for container in pod.spec.init_containers)
