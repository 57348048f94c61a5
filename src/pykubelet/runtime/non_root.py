"""Whether a container that must not run as root would.

Upstream: verifyRunAsNonRoot in pkg/kubelet/kuberuntime/security_context_others.go
"""

from pykubelet.api.generated.core import Pod
from pykubelet.runtime.events import AnyContainer, pod_text

_GREATEST_USER = 2**31 - 1


def must_know_user(pod: Pod, container: AnyContainer) -> bool:
    """Whether it matters whom the image runs as: root is forbidden and the pod names no user."""
    return bool(_setting(pod, container, "run_as_non_root")) and _setting(pod, container, "run_as_user") is None


def root_refusal(pod: Pod, container: AnyContainer, image_user: str | None) -> str:
    """Why the container may not start; empty if it may. `image_user` counts only if it `must_know_user`."""
    if not _setting(pod, container, "run_as_non_root"):
        return ""
    where = f'(pod: "{pod_text(pod)}", container: {container.name})'
    user = _setting(pod, container, "run_as_user")
    if user is not None:
        return f"container's runAsUser breaks non-root policy {where}" if user == 0 else ""
    if image_user is None:
        return ""
    try:
        number = int(image_user)
    except ValueError:
        told = f"image has non-numeric user ({image_user}), cannot verify user is non-root"
        return f"container has runAsNonRoot and {told} {where}"
    if number == 0:
        return f"container has runAsNonRoot and image will run as root {where}"
    if not 0 < number <= _GREATEST_USER:
        told = f"image has an invalid user id ({number}). (Must be 1-({_GREATEST_USER}))"
        return f"container has runAsNonRoot and {told} {where}"
    return ""


def _setting(pod: Pod, container: AnyContainer, name: str) -> bool | int | None:
    """What the container's security context says, else the pod's."""
    for context in (container.security_context, pod.spec.security_context):
        value: bool | int | None = getattr(context, name, None)
        if value is not None:
            return value
    return None
