"""What a runtime has of a pod, together with what its ended containers said last.

Upstream: toKubeContainerStatus in pkg/kubelet/kuberuntime/kuberuntime_container.go, at each look at a pod
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from pykubelet.api.generated.core import Container, EphemeralContainer, Pod
from pykubelet.runtime.protocol import ContainerState, RuntimeContainer, RuntimePod

AnyContainer = Container | EphemeralContainer
LogPath = Callable[[Pod, RuntimeContainer], str]
"""Where the log of a container is."""


class Messages(Protocol):
    """Reads the last words of containers."""

    async def message(self, pod: Pod, container: AnyContainer, exited: RuntimeContainer, log_path: str) -> str:
        """The message of a container that has exited; never raises."""


class LastWords:
    """Adds termination messages to what the runtime tells."""

    def __init__(self, *, messages: Messages, log_path: LogPath) -> None:
        self._messages, self._log_path = messages, log_path

    async def heard(self, pod: Pod, observed: RuntimePod) -> RuntimePod:
        """The same, with the message of each container that has exited."""
        if all(container.state != ContainerState.EXITED for container in observed.containers):
            return observed
        spec = pod.spec
        listed: tuple[AnyContainer, ...] = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
        wanted = {container.name: container for container in listed}
        containers = [await self._told(pod, wanted.get(one.name), one) for one in observed.containers]
        return replace(observed, containers=tuple(containers))

    async def _told(self, pod: Pod, wanted: AnyContainer | None, seen: RuntimeContainer) -> RuntimeContainer:
        if wanted is None or seen.state != ContainerState.EXITED:
            return seen
        return replace(seen, message=await self._messages.message(pod, wanted, seen, self._log_path(pod, seen)))
