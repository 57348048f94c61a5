"""The pages /pods and /runningpods: what should run, and what does.

Upstream: GetPods and GetRunningPods in pkg/kubelet/kubelet_pods.go, ToAPIPod in pkg/kubelet/container/runtime.go
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.pods import is_static_pod
from pykubelet.api.wire import Document
from pykubelet.nodeapi.stats.summary import running_containers
from pykubelet.runtime.protocol import RuntimePod


def wanted_pods(pods: Iterable[Pod], status_of: Callable[[str], PodStatus | None]) -> Document:
    """The list of the node's pods; of static ones, which no API server may know, with the node's own status."""
    return _pod_list([_with_status(pod, status_of) for pod in pods])


def running_pods(pods: Iterable[RuntimePod]) -> Document:
    """The list of pods of which something runs, with no more than the runtime knows."""
    return _pod_list([_running_pod(pod) for pod in pods if running_containers(pod)])


def _pod_list(items: list[Pod] | list[Document]) -> Document:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}


def _with_status(pod: Pod, status_of: Callable[[str], PodStatus | None]) -> Pod:
    status = status_of(pod.metadata.uid) if is_static_pod(pod) else None
    return pod if status is None else replace(pod, status=status)


def _running_pod(pod: RuntimePod) -> Document:
    containers = [{"name": one.name, "image": one.image, "resources": {}} for one in running_containers(pod)]
    return {
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "creationTimestamp": None},
        "spec": {"containers": containers},
        "status": {},
    }
