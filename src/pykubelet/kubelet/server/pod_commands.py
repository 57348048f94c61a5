"""Prepares exec, attach, port-forward and run: validates the request and finds the container.

Upstream: pkg/kubelet/server/server.go, pkg/kubelet/kubelet_pods.go
"""

from typing import TypeVar

from pykubelet.aio.log import get_logger
from pykubelet.api.field_errors import go_quote
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid, pod_label
from pykubelet.api.serializer import Document
from pykubelet.httpserver.response import JSON, HttpError, HttpResponse
from pykubelet.kubelet.pleg.pleg import PodCache
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.server.container_logs import find_container
from pykubelet.kubelet.server.routes import KubeletRoute
from pykubelet.kubelet.server.streaming.session import (
    SUCCESS,
    ByteSink,
    ByteSource,
    CommandSession,
    ForwardSession,
    Query,
    RemoteStreams,
    carry_command,
    carry_connection,
    command_options,
    exit_status,
    failure_status,
    first_value,
    forward_ports,
)
from pykubelet.runtimes.protocol import (
    Commands,
    ContainerState,
    PortForwardConnection,
    RuntimeFailure,
    RuntimePod,
    Streams,
)

log = get_logger(__name__)

T = TypeVar("T")

# The size limit of a gRPC response of a runtime.
_RUN_OUTPUT_BYTES = 16 * 1024 * 1024


class PodCommands:
    """Prepares sessions. Without `streams` or `commands`, the runtime does not support them and requests fail."""

    def __init__(
        self, *, pods: PodManager, cache: PodCache, streams: Streams | None, commands: Commands | None
    ) -> None:
        self._pods, self._cache, self._streams, self._commands = pods, cache, streams, commands

    def exec(self, route: KubeletRoute, query: Query) -> CommandSession:
        """A command to run in a container; raises HttpError."""
        options = command_options(query)
        command = [value for name, value in query if name == "command"]
        container_id = self._container_id(self._pod(route), route)
        streams = _supported(self._streams)

        async def run(client: RemoteStreams) -> Document:
            try:
                async with streams.execute(container_id, command, stdin=options.stdin, tty=options.tty) as session:
                    return exit_status(command, await carry_command(session, client))
            except (RuntimeFailure, OSError) as error:
                return failure_status(f"error executing command in container: {error}")

        return CommandSession(options, options.tty, run)

    def attach(self, route: KubeletRoute, query: Query) -> CommandSession:
        """The streams of a running container; raises HttpError."""
        options = command_options(query)
        pod = self._pod(route)
        container_id = self._container_id(pod, route)
        spec = find_container(pod, route.container)
        if spec is None:
            raise HttpError(500, f"container {route.container} not found in pod {pod_label(pod)}")
        streams = _supported(self._streams)

        async def run(client: RemoteStreams) -> Document:
            try:
                async with streams.attach(container_id, stdin=options.stdin and spec.stdin) as session:
                    # With stdinOnce, the container's stdin ends with the first client's.
                    await carry_command(session, client, closes_stdin=spec.stdin_once)
            except (RuntimeFailure, OSError) as error:
                return failure_status(f"error attaching to container: {error}")
            return SUCCESS

        return CommandSession(options, spec.tty, run)

    def forward(self, route: KubeletRoute, query: Query, *, is_web_socket: bool) -> ForwardSession:
        """Ports of a pod; raises HttpError. With `is_web_socket`, the query names them, otherwise each stream does."""
        ports = forward_ports(query) if is_web_socket else ()
        pod = self._pod(route)
        uid = PodUid(pod.metadata.uid)
        if route.uid and self._pods.translate_pod_uid(route.uid) != uid:
            raise HttpError(404, "pod not found")
        streams = _supported(self._streams)
        self._sandbox_id(uid)

        async def forward(port: int, source: ByteSource, sink: ByteSink) -> str:
            try:
                async with streams.connect(self._sandbox_id(uid), port) as connection:
                    await _carry_or_reset(connection, source, sink)
            except ConnectionResetError:
                raise
            except (RuntimeFailure, OSError, HttpError) as error:
                log.info("port not forwarded", pod=pod_label(pod), port=port, cause=str(error))
                return f"error forwarding port {port} to pod {pod.metadata.name}, uid {uid}: {error}"
            return ""

        return ForwardSession(ports, forward)

    async def run(self, route: KubeletRoute, query: Query) -> HttpResponse:
        """Run a command and return its output; raises HttpError."""
        container_id = self._container_id(self._pod(route), route)
        command = first_value(query, "cmd").split(" ")
        try:
            outcome = await _supported(self._commands).run(
                container_id, command, timeout_seconds=None, limit_bytes=_RUN_OUTPUT_BYTES
            )
        except RuntimeFailure as error:
            raise HttpError(500, error.message) from error
        if outcome.exit_code != 0:
            errors = outcome.errors.decode(errors="replace")
            raise HttpError(500, f"command '{' '.join(command)}' exited with {outcome.exit_code}: {errors}")
        return HttpResponse(200, outcome.output, JSON)

    def _pod(self, route: KubeletRoute) -> Pod:
        pod = self._pods.pod_by_name(route.namespace, route.pod)
        if pod is None:
            raise HttpError(404, "pod does not exist")
        return pod

    def _container_id(self, pod: Pod, route: KubeletRoute) -> str:
        """The ID of the running container of this name."""
        uid = PodUid(pod.metadata.uid)
        is_meant = not route.uid or self._pods.translate_pod_uid(route.uid) == uid
        containers = self._runtime_pod(uid).containers if is_meant else ()
        for container in containers:
            if container.name == route.container and container.state is ContainerState.RUNNING:
                return container.id
        raise HttpError(500, f"container not found ({go_quote(route.container)})")

    def _sandbox_id(self, uid: PodUid) -> str:
        for sandbox in self._runtime_pod(uid).sandboxes:
            if sandbox.is_ready:
                return sandbox.id
        raise HttpError(500, f"failed to find sandboxes for pod with uid {go_quote(uid)}")

    def _runtime_pod(self, uid: PodUid) -> RuntimePod:
        try:
            return self._cache.get(uid)
        except RuntimeFailure as error:
            raise HttpError(500, error.message) from error


async def _carry_or_reset(connection: PortForwardConnection, source: ByteSource, sink: ByteSink) -> None:
    try:
        await carry_connection(connection, source, sink)
    except OSError as error:
        # A broken connection that was established is not a failure to forward.
        raise ConnectionResetError(str(error)) from error


def _supported(offered: T | None) -> T:
    if offered is None:
        raise HttpError(501, "the runtime of this node cannot do that")
    return offered
