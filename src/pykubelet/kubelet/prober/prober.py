"""Runs one probe of one container and emits an event for a failure.

An attempt that could not be carried out is repeated twice at once; after that it does not count.

Upstream: pkg/kubelet/prober/prober.go, pkg/probe/exec/exec.go
"""

from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

from pykubelet.aio.log import get_logger
from pykubelet.api.field_errors import go_quote
from pykubelet.api.generated.core import Container, PodStatus, Probe
from pykubelet.api.pods import pod_label
from pykubelet.api.times import format_duration
from pykubelet.client.recorder import WARNING, EventRecorder, container_reference, format_pod
from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.http_client import Headers, container_port, http_get_request
from pykubelet.httpserver.http_failure import host_port
from pykubelet.kubelet.expansion import expand_all, mapping_func_for
from pykubelet.kubelet.prober.grpc_probe import probe_grpc
from pykubelet.kubelet.prober.http_probe import HttpProbeClient, HttpProbeError, HttpProbeResponse, probe_http
from pykubelet.kubelet.prober.results import ProbedContainer, runtime_id
from pykubelet.kubelet.prober.tcp_probe import ProbeAttempt, ProbeError, ProbeState, probe_tcp
from pykubelet.kubelet.types import ProbeOutcome
from pykubelet.runtimes.protocol import Commands, RuntimeFailure

log = get_logger(__name__)

TRIES = 3
OUTPUT_BYTES = 10 * 1024
"""At most this much of a command's output is kept."""
_REFUSED = "connect: connection refused"


class SocketProber(Protocol):
    """Probes over sockets; errors are results too. The simulated runtime has its own implementation."""

    async def tcp(self, host: str, port: int, timeout_seconds: int) -> ProbeAttempt:
        """Succeed if a TCP connection can be opened."""

    async def grpc(self, host: str, port: int, service: str, timeout_seconds: int) -> ProbeAttempt:
        """Succeed if the gRPC health service responds SERVING."""


class SystemSocketProber:
    """Probes over real sockets, by default of the machine's network."""

    def __init__(self, dialer: Dialer | None = None) -> None:
        self._dialer = dialer or Dialer()

    async def tcp(self, host: str, port: int, timeout_seconds: int) -> ProbeAttempt:
        return await probe_tcp(host, port, timeout_seconds, self._dialer)

    async def grpc(self, host: str, port: int, service: str, timeout_seconds: int) -> ProbeAttempt:
        return await probe_grpc(host, port, service, timeout_seconds, self._dialer)


class Prober:
    """Probes containers. Without `commands`, exec probes fail because the runtime does not support them."""

    def __init__(
        self,
        *,
        commands: Commands | None,
        http: HttpProbeClient,
        recorder: EventRecorder,
        sockets: SocketProber | None = None,
    ) -> None:
        self._commands, self._http, self._recorder = commands, http, recorder
        self._sockets = sockets or SystemSocketProber()

    async def probe(self, probed: ProbedContainer, status: PodStatus, container_id: str) -> ProbeOutcome | None:
        """Probe a container; None if the probe could not be carried out."""
        what = f"{probed.kind.capitalize()} probe"
        try:
            attempt = await self._run_with_retries(probed, status, container_id)
        except ProbeError as error:
            self._emit_event(probed, "Unhealthy", f"{what} errored and resulted in {error.state} state: {error}")
            return None
        if attempt.state == ProbeState.FAILURE:
            self._emit_event(probed, "Unhealthy", f"{what} failed: {attempt.output}")
            return ProbeOutcome.FAILURE
        if attempt.state == ProbeState.WARNING:
            self._emit_event(probed, "ProbeWarning", f"{what} warning: {attempt.output}")
        return ProbeOutcome.SUCCESS

    async def close(self) -> None:
        await self._http.close()

    async def _run_with_retries(self, probed: ProbedContainer, status: PodStatus, container_id: str) -> ProbeAttempt:
        for _ in range(TRIES - 1):
            try:
                return await self._run(probed, status, container_id)
            except ProbeError as error:
                log.debug("probe not carried out", pod=pod_label(probed.pod), kind=probed.kind, error=error)
        return await self._run(probed, status, container_id)

    async def _run(self, probed: ProbedContainer, status: PodStatus, container_id: str) -> ProbeAttempt:
        probe, container = probed.probe, probed.container
        timeout_seconds = max(probe.timeout_seconds, 1)
        try:
            if probe.exec is not None:
                return await self._run_command(container, probe, container_id)
            if probe.http_get is not None:
                request = http_get_request(probe.http_get, container, pod_ip=status.pod_ip, purpose="probe")
                return await probe_http(self._http, request, timeout_seconds)
            if probe.tcp_socket is not None:
                port = container_port(probe.tcp_socket.port, container)
                return await self._sockets.tcp(probe.tcp_socket.host or status.pod_ip, port, timeout_seconds)
        except ValueError as error:
            raise ProbeError(str(error)) from error
        if probe.grpc is not None:
            return await self._sockets.grpc(status.pod_ip, probe.grpc.port, probe.grpc.service or "", timeout_seconds)
        raise ProbeError(f"missing probe handler for {format_pod(probed.pod)}:{container.name}")

    async def _run_command(self, container: Container, probe: Probe, container_id: str) -> ProbeAttempt:
        if self._commands is None:
            raise ProbeError("the runtime cannot run commands in containers")
        assert probe.exec is not None
        # Only literal values: a value from a reference counts as empty here.
        value_of = mapping_func_for({variable.name: variable.value for variable in container.env})
        command = expand_all(probe.exec.command, value_of)
        timeout_seconds = max(probe.timeout_seconds, 1)
        try:
            outcome = await self._commands.run(
                runtime_id(container_id), command, timeout_seconds=timeout_seconds, limit_bytes=OUTPUT_BYTES
            )
        except TimeoutError:
            words = f"{go_quote(' '.join(command))} timed out after {format_duration(timeout_seconds)}"
            return ProbeAttempt(ProbeState.FAILURE, f"command timed out: {words}")
        except RuntimeFailure as failure:
            raise ProbeError(failure.message) from failure
        output = outcome.output[:OUTPUT_BYTES].decode(errors="replace")
        return ProbeAttempt(ProbeState.FAILURE if outcome.exit_code else ProbeState.SUCCESS, output)

    def _emit_event(self, probed: ProbedContainer, reason: str, message: str) -> None:
        self._recorder.event(container_reference(probed.pod, probed.container.name), WARNING, reason, message)


class SimulatedProbes:
    """Answers HTTP and socket probes of simulated containers; `health_at` is None if nothing listens at an address."""

    def __init__(self, health_at: Callable[[str], bool | None]) -> None:
        self._health_at = health_at

    async def get(self, url: str, headers: Headers, *, deadline: float) -> HttpProbeResponse:  # noqa: ARG002
        parts = urlsplit(url)
        is_healthy = self._health_at(parts.hostname or "")
        if is_healthy is None:
            raise HttpProbeError(f"dial tcp {parts.netloc}: {_REFUSED}")
        return HttpProbeResponse(200, None, b"ok") if is_healthy else HttpProbeResponse(503, None, b"unhealthy")

    async def close(self) -> None:
        """Does nothing: simulated probes hold no connections."""

    async def tcp(self, host: str, port: int, timeout_seconds: int) -> ProbeAttempt:  # noqa: ARG002
        # An unhealthy container still listens.
        is_open = self._health_at(host) is not None
        return ProbeAttempt(ProbeState.SUCCESS) if is_open else _refused(host, port)

    async def grpc(self, host: str, port: int, service: str, timeout_seconds: int) -> ProbeAttempt:  # noqa: ARG002
        is_healthy = self._health_at(host)
        if is_healthy is None:
            return _refused(host, port)
        if is_healthy:
            return ProbeAttempt(ProbeState.SUCCESS)
        return ProbeAttempt(ProbeState.FAILURE, 'service unhealthy (responded with "NOT_SERVING")')


def _refused(host: str, port: int) -> ProbeAttempt:
    return ProbeAttempt(ProbeState.FAILURE, f"dial tcp {host_port(host, port)}: {_REFUSED}")
