"""Labels and annotations of sandboxes and containers: any kubelet and crictl can tell whose they are.

Upstream: pkg/kubelet/kuberuntime/labels.go, staging/src/k8s.io/kubelet/pkg/types/labels.go
"""

from pykubelet.api.generated.core import Pod
from pykubelet.api.wire import encode
from pykubelet.runtime.protocol import ContainerRequest, SandboxRequest

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"

HASH = "io.kubernetes.container.hash"
RESTART_COUNT = "io.kubernetes.container.restartCount"
MESSAGE_PATH = "io.kubernetes.container.terminationMessagePath"
MESSAGE_POLICY = "io.kubernetes.container.terminationMessagePolicy"
PRE_STOP = "io.kubernetes.container.preStopHandler"
PORTS = "io.kubernetes.container.ports"
DELETION_GRACE = "io.kubernetes.pod.deletionGracePeriod"
TERMINATION_GRACE = "io.kubernetes.pod.terminationGracePeriod"

# What CRI does not tell of what it was told, and a node that was started anew must know.
HOSTNAME = "pykubelet.io/hostname"
TTY = "pykubelet.io/tty"


def sandbox_labels(pod: Pod) -> dict[str, str]:
    """The pod's own labels and whose sandbox it is."""
    return {**pod.metadata.labels, **_whose(pod)}


def sandbox_annotations(request: SandboxRequest) -> dict[str, str]:
    """The pod's own annotations, and the name of its host."""
    return {**request.pod.metadata.annotations, HOSTNAME: request.hostname}


def container_labels(request: ContainerRequest) -> dict[str, str]:
    """Whose container it is."""
    return {**_whose(request.pod), CONTAINER_NAME: request.container.name}


def container_annotations(request: ContainerRequest) -> dict[str, str]:
    """All that is needed to end a container, and to tell how it ended, when its pod is known no more."""
    pod, container = request.pod, request.container
    found = {
        HASH: request.hash,
        RESTART_COUNT: str(request.attempt),
        MESSAGE_PATH: container.termination_message_path,
        MESSAGE_POLICY: container.termination_message_policy,
    }
    if container.tty:
        found[TTY] = "true"
    if pod.metadata.deletion_grace_period_seconds is not None:
        found[DELETION_GRACE] = str(pod.metadata.deletion_grace_period_seconds)
    if pod.spec.termination_grace_period_seconds is not None:
        found[TERMINATION_GRACE] = str(pod.spec.termination_grace_period_seconds)
    if container.lifecycle is not None and container.lifecycle.pre_stop is not None:
        found[PRE_STOP] = encode(container.lifecycle.pre_stop).decode()
    if container.ports:
        found[PORTS] = encode(container.ports).decode()
    return found


def _whose(pod: Pod) -> dict[str, str]:
    return {POD_NAME: pod.metadata.name, POD_NAMESPACE: pod.metadata.namespace, POD_UID: pod.metadata.uid}
