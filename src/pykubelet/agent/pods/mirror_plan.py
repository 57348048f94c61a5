"""What has to happen to the mirror of a static pod (pure).

Pods in, a decision or the mirror object out. Upstream: pkg/kubelet/pod/{pod_manager,mirror_client}.go and
tryReconcileMirrorPods in pkg/kubelet/kubelet.go.
"""

from enum import Enum

from msgspec.structs import replace

from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.pods import CONFIG_HASH, CONFIG_MIRROR, is_static_pod


class MirrorPlan(Enum):
    """What to do about the mirror of one pod."""

    LEAVE = "leave"
    CREATE = "create"
    REPLACE = "replace"


def pod_hash(pod: Pod) -> str:
    """The hash a mirror of this pod must carry; empty if the pod has none."""
    return pod.metadata.annotations.get(CONFIG_HASH, "")


def is_mirror_pod_of(mirror: Pod, pod: Pod) -> bool:
    """Whether `mirror` shows exactly this version of `pod`: same name and namespace, and the pod's hash."""
    if (mirror.metadata.name, mirror.metadata.namespace) != (pod.metadata.name, pod.metadata.namespace):
        return False
    return mirror.metadata.annotations.get(CONFIG_MIRROR) == pod_hash(pod)


def plan_mirror(pod: Pod, mirror: Pod | None) -> MirrorPlan:
    """What to do when the API server has `mirror` under the pod's name, or nothing.

    A mirror that is being deleted is replaced at once: the static pod runs on, whatever a user does to its mirror.
    """
    if not is_static_pod(pod):
        return MirrorPlan.LEAVE
    if mirror is None:
        return MirrorPlan.CREATE
    if mirror.metadata.deletion_timestamp is not None or not is_mirror_pod_of(mirror, pod):
        return MirrorPlan.REPLACE
    return MirrorPlan.LEAVE


def mirror_of(pod: Pod, node_name: str, node_uid: str) -> Pod:
    """The mirror to create for a static pod: the pod itself, marked with its hash and owned by the node alone.

    The node's admission control refuses a mirror with any other owner. The rest stays as it is; the server gives the
    mirror a UID of its own.
    """
    owner = OwnerReference(api_version="v1", kind="Node", name=node_name, uid=node_uid, controller=True)
    annotations = {**pod.metadata.annotations, CONFIG_MIRROR: pod_hash(pod)}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations, owner_references=(owner,)))
