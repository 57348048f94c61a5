"""The page /containerLogs: finds the log that is meant, and copies it as it is asked for.

Upstream: getContainerLogs in pkg/kubelet/server/server.go, GetKubeletContainerLogs in pkg/kubelet/kubelet_pods.go
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Container, EphemeralContainer, Pod
from pykubelet.api.keys import PodUid
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.nodeapi.collaborators import LogPaths, Looks, Pods, Statuses
from pykubelet.nodeapi.log_choice import NoLog, logged_container
from pykubelet.nodeapi.log_options import log_options
from pykubelet.nodeapi.replies import Refused
from pykubelet.nodeapi.routes import Route
from pykubelet.runtime.log_paths import pod_names
from pykubelet.runtime.log_reader import Write, copy_log
from pykubelet.runtime.protocol import ContainerState, RuntimeContainer, RuntimeFailure, RuntimePod


class LogOutput(NamedTuple):
    """A log that is there; `copy` writes it until its end, or, if it is followed, that of its container."""

    copy: Callable[[Write], Awaitable[None]]


class Logs:
    """Opens logs."""

    def __init__(self, *, pods: Pods, statuses: Statuses, looks: Looks, paths: LogPaths, clock: Clock) -> None:
        self._pods, self._statuses, self._looks = pods, statuses, looks
        self._paths, self._clock = paths, clock

    async def open(self, route: Route, query: Sequence[tuple[str, str]]) -> LogOutput:
        """The log of a container; raises Refused."""
        options = log_options(query, self._clock.now())
        pod = self._pods.pod_by_name(route.namespace, route.pod)
        if pod is None:
            raise Refused(404, f"pod {go_quote(route.pod)} does not exist")
        if find_container(pod, route.container) is None:
            raise Refused(404, f"container {go_quote(route.container)} not found in pod {go_quote(route.pod)}")
        container = self._meant(pod, route.container, previous=options.previous)
        path = Path(self._paths.path(pod_names(pod), route.container, container.attempt))
        if not await asyncio.to_thread(path.exists):
            raise Refused(400, f"failed to open log file {go_quote(str(path))}: no such file or directory")
        uid = PodUid(pod.metadata.uid)

        async def copy(write: Write) -> None:
            await copy_log(path, options.query, write, ended=lambda: self._ended(uid, container.id))

        return LogOutput(copy)

    def _meant(self, pod: Pod, name: str, *, previous: bool) -> RuntimeContainer:
        uid = pod.metadata.uid
        status = self._statuses.pod_status(uid) or pod.status
        try:
            whole_id = logged_container(pod.metadata.name, status, name, previous=previous)
            known = self._looks.get(PodUid(uid)).containers
        except NoLog as error:
            raise Refused(400, str(error)) from None
        except RuntimeFailure as error:
            raise Refused(400, error.message) from error
        found = next((one for one in known if one.id == whole_id.rpartition("://")[2]), None)
        if found is None:
            raise Refused(400, f"unable to retrieve container logs for {whole_id}")
        return found

    async def _ended(self, uid: PodUid, container_id: str) -> None:
        def has_ended(pod: RuntimePod) -> bool:
            running = (one for one in pod.containers if one.state is ContainerState.RUNNING)
            return all(one.id != container_id for one in running)

        await self._looks.until(uid, has_ended)


def find_container(pod: Pod, name: str) -> Container | EphemeralContainer | None:
    """The container of this name in a pod's spec, of whatever kind."""
    spec = pod.spec
    containers: tuple[Container | EphemeralContainer, ...] = (
        *spec.containers,
        *spec.init_containers,
        *spec.ephemeral_containers,
    )
    return next((container for container in containers if container.name == name), None)
