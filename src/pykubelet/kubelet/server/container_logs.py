"""The endpoint /containerLogs: parses the options, finds the container's log and streams it.

Upstream: pkg/kubelet/server/server.go, pkg/kubelet/kubelet_pods.go, pkg/apis/core/v1/validation/validation.go
"""

import asyncio
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.api.field_errors import go_quote
from pykubelet.api.generated.core import ContainerStatus, Pod, PodStatus
from pykubelet.api.pods import AnyContainer, PodUid, all_containers
from pykubelet.api.times import parse_time
from pykubelet.httpserver.response import TEXT, HttpError, HttpStream
from pykubelet.kubelet.logs.log_directory import LogDirectory, pod_names
from pykubelet.kubelet.logs.log_lines import LogQuery
from pykubelet.kubelet.logs.log_reader import Write, copy_log
from pykubelet.kubelet.pleg.pleg import PodCache
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.server.routes import KubeletRoute
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.runtimes.log_format import STDERR, STDOUT
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimeFailure, RuntimePod

_WAITING = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}

_STREAMS = {"": "", "All": "", "Stdout": STDOUT, "Stderr": STDERR}
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
# As Go parses booleans of a query: any other value is true.
_FALSE = frozenset({"false", "0"})


class LogUnavailable(Exception):
    """There is no log; the message says why."""


def logged_container(pod_name: str, status: PodStatus, container: str, *, previous: bool) -> str:
    """The ID (`runtime://id`) of the current or previous container; raises LogUnavailable."""
    what = f"container {go_quote(container)} in pod {go_quote(pod_name)}"
    found = _find(status, container)
    if found is None:
        raise LogUnavailable(f"{what} is not available")
    before = found.last_state.terminated
    former_id = before.container_id if before is not None else ""
    if previous:
        if not former_id:
            raise LogUnavailable(f"previous terminated {what} not found")
        return former_id
    if found.state.running is not None:
        return found.container_id
    if found.state.terminated is not None or before is not None:
        # The waiting state has no ID if the next container could not be created.
        ended_id = found.state.terminated.container_id if found.state.terminated is not None else ""
        if not (ended_id or former_id):
            raise LogUnavailable(f"{what} is terminated")
        return ended_id or former_id
    if found.state.waiting is not None:
        reason = found.state.waiting.reason
        raise LogUnavailable(f"{what} is waiting to start: {_WAITING.get(reason, reason)}")
    raise LogUnavailable(f"{what} is waiting to start - no logs yet")


def _find(status: PodStatus, name: str) -> ContainerStatus | None:
    kinds = (status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses)
    return next((found for statuses in kinds for found in statuses if found.name == name), None)


class PodLogOptions(NamedTuple):
    query: LogQuery
    previous: bool = False
    """The log of the previous container."""


def log_options(query: Sequence[tuple[str, str]], now: datetime) -> PodLogOptions:
    """Parse a query; the first of several values counts. Raises HttpError: 400 if malformed, 422 if invalid."""
    given: dict[str, str] = {}
    for name, value in query:
        given.setdefault(name, value)
    # The deprecated name, which takes precedence.
    if tail := given.get("tail", ""):
        given["tailLines"] = tail
    if tail == "all":
        del given["tailLines"]
    tail_lines = _number(given, "tailLines", least=0)
    limit_bytes = _number(given, "limitBytes", least=1)
    since_seconds = _number(given, "sinceSeconds", least=1)
    since = _time(given)
    stream = given.get("stream", "")
    if stream not in _STREAMS or (_STREAMS[stream] and tail_lines is not None):
        raise _invalid()
    if since is not None and since_seconds is not None:
        raise _invalid()
    if since_seconds is not None:
        since = _ago(now, since_seconds)
    asked = LogQuery(
        tail_lines=tail_lines,
        limit_bytes=limit_bytes,
        since=since,
        stream=_STREAMS[stream],
        timestamps=_is_true(given, "timestamps"),
        follow=_is_true(given, "follow"),
    )
    return PodLogOptions(asked, _is_true(given, "previous"))


def _invalid() -> HttpError:
    return HttpError(422, '{"message": "Invalid request."}')


def _undecodable() -> HttpError:
    return HttpError(400, '{"message": "Unable to decode query."}')


def _is_true(given: dict[str, str], name: str) -> bool:
    return name in given and given[name].lower() not in _FALSE


def _number(given: dict[str, str], name: str, *, least: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        raise _undecodable()
    if int(text) < least:
        raise _invalid()
    return int(text)


def _time(given: dict[str, str]) -> datetime | None:
    text = given.get("sinceTime", "")
    if not text:
        return None
    try:
        return parse_time(text)
    except ValueError:
        raise _undecodable() from None


def _ago(now: datetime, seconds: int) -> datetime | None:
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:
        # Before the first representable time: everything.
        return None


class ContainerLogs:
    def __init__(
        self, *, pods: PodManager, statuses: StatusManager, cache: PodCache, paths: LogDirectory, clock: Clock
    ) -> None:
        self._pods, self._statuses, self._cache = pods, statuses, cache
        self._paths, self._clock = paths, clock

    async def open(self, route: KubeletRoute, query: Sequence[tuple[str, str]]) -> HttpStream:
        """The log of a container; raises HttpError."""
        options = log_options(query, self._clock.now())
        pod = self._pods.pod_by_name(route.namespace, route.pod)
        if pod is None:
            raise HttpError(404, f"pod {go_quote(route.pod)} does not exist")
        if find_container(pod, route.container) is None:
            raise HttpError(404, f"container {go_quote(route.container)} not found in pod {go_quote(route.pod)}")
        container = self._container_to_read(pod, route.container, previous=options.previous)
        path = Path(self._paths.path(pod_names(pod), route.container, container.attempt))
        if not await asyncio.to_thread(path.exists):
            raise HttpError(400, f"failed to open log file {go_quote(str(path))}: no such file or directory")
        uid = PodUid(pod.metadata.uid)

        async def copy(write: Write) -> None:
            await copy_log(path, options.query, write, ended=lambda: self._ended(uid, container.id))

        return HttpStream(TEXT, copy)

    def _container_to_read(self, pod: Pod, name: str, *, previous: bool) -> RuntimeContainer:
        uid = pod.metadata.uid
        status = self._statuses.pod_status(uid) or pod.status
        try:
            whole_id = logged_container(pod.metadata.name, status, name, previous=previous)
            known = self._cache.get(PodUid(uid)).containers
        except LogUnavailable as error:
            raise HttpError(400, str(error)) from None
        except RuntimeFailure as error:
            raise HttpError(400, error.message) from error
        found = next((one for one in known if one.id == whole_id.rpartition("://")[2]), None)
        if found is None:
            raise HttpError(400, f"unable to retrieve container logs for {whole_id}")
        return found

    async def _ended(self, uid: PodUid, container_id: str) -> None:
        def has_ended(pod: RuntimePod) -> bool:
            running = (one for one in pod.containers if one.state is ContainerState.RUNNING)
            return all(one.id != container_id for one in running)

        await self._cache.until(uid, has_ended)


def find_container(pod: Pod, name: str) -> AnyContainer | None:
    """The init, regular or ephemeral container of this name in a pod's spec."""
    return next((container for container in all_containers(pod) if container.name == name), None)
