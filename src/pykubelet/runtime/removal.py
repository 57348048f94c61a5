"""Removes containers with their logs: the log first, for without the container nobody would find it.

Upstream: removeContainer in pkg/kubelet/kuberuntime/kuberuntime_container.go
"""

from collections.abc import Iterable

from pykubelet.aio.log import get_logger
from pykubelet.runtime.gc_plan import Removal
from pykubelet.runtime.kill import Killer, bare_pod, spec_of
from pykubelet.runtime.log_directory import LogDirectory
from pykubelet.runtime.log_paths import pod_names
from pykubelet.runtime.protocol import Runtime, RuntimeContainer, RuntimeFailure, RuntimePod

log = get_logger(__name__)

_STOPPED_FIRST = "Container is in unknown state, try killing it before removal"


class ContainerRemover:
    """Removes containers that have ended."""

    def __init__(self, *, runtime: Runtime, logs: LogDirectory, killer: Killer) -> None:
        self._runtime, self._logs, self._killer = runtime, logs, killer

    async def remove(self, pod: RuntimePod, removals: Iterable[Removal]) -> None:
        """Remove some containers of a pod. One that cannot be is told in the log and will be found again."""
        wanted = {removal.container_id: removal for removal in removals}
        # In the order asked for: the oldest go first, so that whoever is interrupted has kept the newest.
        containers = {container.id: container for container in pod.containers}
        for container_id, removal in wanted.items():
            container = containers.get(container_id)
            if container is None:
                continue
            try:
                await self._remove(pod, container, stop_first=removal.stop_first)
            except RuntimeFailure as failure:
                facts = {"pod": f"{pod.namespace}/{pod.name}", "container": container.name}
                log.warning("container not removed", cause=failure.message, **facts)

    async def _remove(self, pod: RuntimePod, container: RuntimeContainer, *, stop_first: bool) -> None:
        if stop_first:
            wanted = bare_pod(pod)
            spec = spec_of(wanted, container.name)
            await self._killer.kill_container(wanted, spec, container.id, message=_STOPPED_FIRST)
        try:
            await self._logs.remove(pod_names(pod), container.name, container.attempt, container.id)
        except OSError as error:
            raise RuntimeFailure(f"its log cannot be removed: {error.strerror}") from error
        await self._runtime.remove(container.id)
