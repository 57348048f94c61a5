"""Whether a pod needs a new sandbox: it has none, two, or one that is dead or misses its network.

Pure. Upstream: PodSandboxChanged in pkg/kubelet/kuberuntime/util/util.go.
"""

from dataclasses import dataclass

from pykubelet.api.generated.core import Pod
from pykubelet.runtime.protocol import RuntimePod


@dataclass(frozen=True, slots=True)
class SandboxNeed:
    """Whether a new sandbox is needed, the attempt the pod is or will be at, and the sandbox there is."""

    is_new: bool
    attempt: int
    sandbox_id: str


def sandbox_need(pod: Pod, observed: RuntimePod) -> SandboxNeed:
    """What the pod needs, given what the runtime has of it."""
    if not observed.sandboxes:
        return SandboxNeed(True, 0, "")
    newest = observed.sandboxes[0]
    ready = sum(sandbox.is_ready for sandbox in observed.sandboxes)
    if ready > 1 or not newest.is_ready:
        return SandboxNeed(True, newest.attempt + 1, newest.id)
    if newest.host_network != pod.spec.host_network:
        # A sandbox of another network was never this pod's, so it is not named as the one that changed.
        return SandboxNeed(True, newest.attempt + 1, "")
    if not pod.spec.host_network and not newest.ips:
        return SandboxNeed(True, newest.attempt + 1, newest.id)
    return SandboxNeed(False, newest.attempt, newest.id)
